use std::{io, path::Path};

use oomph_core::Bytes;

use super::disk::Space;
use crate::check::Check;

const NAME: &str = "shared memory";

/// The default size in a container.
const DOCKER: Bytes = Bytes::mib(64);

/// Checks `/dev/shm`, through which NCCL connects the GPUs of a machine. A single GPU does not need it.
pub fn shared_memory(gpus: usize) -> Check {
    judged(Space::of(Path::new("/dev/shm")), gpus > 1)
}

fn judged(space: io::Result<Space>, needed: bool) -> Check {
    let Ok(Space { total_bytes, free_bytes, .. }) = space else {
        let finding = "`/dev/shm` does not exist";
        return if needed {
            warning(finding)
        } else {
            Check::ok(NAME, format!("{finding}; only NCCL needs it"))
        };
    };
    let finding = format!("{free_bytes} of {total_bytes} free in `/dev/shm`");
    match free_bytes <= DOCKER {
        true if needed => warning(&format!("{finding}, too little for NCCL")),
        true => Check::ok(NAME, format!("{finding}; small, but only NCCL with several GPUs needs it")),
        false => Check::ok(NAME, finding),
    }
}

fn warning(finding: &str) -> Check {
    let hint = "start the container with `--shm-size=1g` or more, or `--ipc=host`; elsewhere \
                `mount -o remount,size=1g /dev/shm` (as root)";
    Check::warning(NAME, finding, hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check::CheckState, health::tree::state_and_finding};

    fn space(total: u64, free: u64) -> io::Result<Space> {
        Ok(Space { total_bytes: Bytes::mib(total), free_bytes: Bytes::mib(free), is_out_of_files: false })
    }

    #[test]
    fn several_gpus_need_more_than_a_container_gets() {
        assert_eq!(
            state_and_finding(&judged(space(64, 64), true)),
            (CheckState::Warning, "64.0 MiB of 64.0 MiB free in `/dev/shm`, too little for NCCL")
        );
        assert_eq!(judged(space(64, 64), false).state, CheckState::Ok);
        assert_eq!(
            state_and_finding(&judged(space(4096, 1024), true)),
            (CheckState::Ok, "1.00 GiB of 4.00 GiB free in `/dev/shm`")
        );
    }

    #[test]
    fn without_it_one_gpu_still_works() {
        let none = || Err(io::ErrorKind::NotFound.into());
        assert_eq!(
            state_and_finding(&judged(none(), true)),
            (CheckState::Warning, "`/dev/shm` does not exist")
        );
        assert_eq!(judged(none(), false).state, CheckState::Ok);
    }
}
