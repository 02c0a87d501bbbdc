use std::{io, path::Path};

use oomph_core::Bytes;

use super::{Check, disk::Space};

const NAME: &str = "shared memory";

/// What a container gets where nobody asked for more.
const DOCKER: Bytes = Bytes::mib(64);

/// `/dev/shm`, through which NCCL lets the GPUs of a machine talk; with one GPU nothing needs it.
pub fn shared_memory(gpus: usize) -> Check {
    judged(Space::of(Path::new("/dev/shm")), gpus > 1)
}

fn judged(space: io::Result<Space>, needed: bool) -> Check {
    let Ok(Space { total_bytes, free_bytes, .. }) = space else {
        let finding = "there is no `/dev/shm`";
        return if needed {
            warning(finding)
        } else {
            Check::ok(NAME, format!("{finding}; only NCCL needs it"))
        };
    };
    let finding = format!("{free_bytes} of {total_bytes} free in `/dev/shm`");
    match free_bytes <= DOCKER {
        true if needed => warning(&format!("{finding}, too little for NCCL")),
        true => Check::ok(NAME, format!("{finding}; little, and only NCCL between several GPUs needs it")),
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
    use crate::health::{State, tree::told};

    fn space(total: u64, free: u64) -> io::Result<Space> {
        Ok(Space { total_bytes: Bytes::mib(total), free_bytes: Bytes::mib(free), is_out_of_files: false })
    }

    #[test]
    fn several_gpus_need_more_than_a_container_gets() {
        assert_eq!(
            told(&judged(space(64, 64), true)),
            (State::Warning, "64.0 MiB of 64.0 MiB free in `/dev/shm`, too little for NCCL")
        );
        assert_eq!(judged(space(64, 64), false).state, State::Ok);
        assert_eq!(
            told(&judged(space(4096, 1024), true)),
            (State::Ok, "1.00 GiB of 4.00 GiB free in `/dev/shm`")
        );
    }

    #[test]
    fn without_it_one_gpu_still_works() {
        let none = || Err(io::ErrorKind::NotFound.into());
        assert_eq!(told(&judged(none(), true)), (State::Warning, "there is no `/dev/shm`"));
        assert_eq!(judged(none(), false).state, State::Ok);
    }
}
