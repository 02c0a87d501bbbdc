//! Checks of file systems: the folder of runs, the cache, and `/dev/shm`.

use std::{io, path::Path};

use oomph_core::Bytes;

use crate::check::Check;

/// Below this, not even one checkpoint of a small model is safe.
const LEAST: Bytes = Bytes::mib(100);
/// Below this, space is short: a checkpoint of a ResNet-50 with Adam takes 300 MiB, and several are kept.
const LITTLE: Bytes = Bytes::mib(5 << 10);

/// The space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Space {
    total_bytes: Bytes,
    /// Free bytes for this user.
    free_bytes: Bytes,
    /// Whether no more files can be created, whatever space is left.
    is_out_of_files: bool,
}

impl Space {
    /// The space of the path's file system.
    #[cfg(unix)]
    fn of(path: &Path) -> io::Result<Self> {
        let found = rustix::fs::statvfs(path)?;
        let bytes = |blocks: u64| Bytes::new(blocks.saturating_mul(found.f_frsize));
        Ok(Self {
            total_bytes: bytes(found.f_blocks),
            free_bytes: bytes(found.f_bavail),
            // File systems that do not count files report a total of 0.
            is_out_of_files: found.f_files > 0 && found.f_favail == 0,
        })
    }

    #[cfg(not(unix))]
    fn of(_: &Path) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "oomph does not read it on this system"))
    }
}

/// Checks that the folder of runs is writable and has space.
pub fn disk(folder: &Path) -> Check {
    judged(folder, Space::of(folder), writable(folder))
}

fn judged(folder: &Path, space: io::Result<Space>, writable: io::Result<()>) -> Check {
    const NAME: &str = "disk";
    let folder = folder.display();
    let elsewhere = "run oomph in another folder, or set `run.directory`";
    if let Err(error) = writable {
        return Check::problem(NAME, format!("`{folder}` cannot be written to: {error}"), elsewhere);
    }
    let space = match space {
        Ok(space) => space,
        Err(error) => {
            let finding = format!("cannot read the free space of `{folder}`: {error}");
            return Check::warning(NAME, finding, elsewhere);
        }
    };
    let finding = format!("{} of {} free in `{folder}`", space.free_bytes, space.total_bytes);
    if space.is_out_of_files {
        return Check::problem(NAME, format!("{finding}, but no further file can be created"), elsewhere);
    }
    if space.free_bytes < LEAST {
        return Check::problem(NAME, finding, elsewhere);
    }
    if space.free_bytes < LITTLE {
        let hint = "a checkpoint takes two to four times the bytes of the model; set `run.directory` to another disk";
        return Check::warning(NAME, finding, hint);
    }
    Check::ok(NAME, finding)
}

/// Checks that the cache folder is writable. It need not exist yet.
pub fn cache(folder: &Path) -> Check {
    // A missing folder will be created in its first existing ancestor.
    let there = folder.ancestors().find(|path| path.exists()).unwrap_or(folder);
    judged_cache(folder, writable(there))
}

fn judged_cache(folder: &Path, writable: io::Result<()>) -> Check {
    const NAME: &str = "cache";
    let folder = folder.display();
    match writable {
        Ok(()) => Check::ok(NAME, format!("`{folder}` can be written to")),
        Err(error) => Check::warning(
            NAME,
            format!("`{folder}` cannot be written to: {error}"),
            "set XDG_CACHE_HOME to a writable folder; without a cache, slow work is repeated at every start",
        ),
    }
}

/// Whether the folder is writable, by its permissions: nothing is written.
#[cfg(unix)]
fn writable(folder: &Path) -> io::Result<()> {
    use rustix::fs::{Access, access};
    Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Whether there is a folder: its permissions are lists that oomph does not read.
#[cfg(not(unix))]
fn writable(folder: &Path) -> io::Result<()> {
    if folder.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

const SHARED_MEMORY: &str = "shared memory";

/// The default size in a container.
const DOCKER: Bytes = Bytes::mib(64);

/// Checks `/dev/shm`, through which NCCL connects the GPUs of a machine. A single GPU does not need it.
pub fn shared_memory(gpus: usize) -> Check {
    judged_shared_memory(Space::of(Path::new("/dev/shm")), gpus > 1)
}

fn judged_shared_memory(space: io::Result<Space>, needed: bool) -> Check {
    let Ok(Space { total_bytes, free_bytes, .. }) = space else {
        let finding = "`/dev/shm` does not exist";
        return if needed {
            warning(finding)
        } else {
            Check::ok(SHARED_MEMORY, format!("{finding}; only NCCL needs it"))
        };
    };
    let finding = format!("{free_bytes} of {total_bytes} free in `/dev/shm`");
    match free_bytes <= DOCKER {
        true if needed => warning(&format!("{finding}, too little for NCCL")),
        true => {
            Check::ok(SHARED_MEMORY, format!("{finding}; small, but only NCCL with several GPUs needs it"))
        }
        false => Check::ok(SHARED_MEMORY, finding),
    }
}

fn warning(finding: &str) -> Check {
    let hint = "start the container with `--shm-size=1g` or more, or `--ipc=host`; elsewhere \
                `mount -o remount,size=1g /dev/shm` (as root)";
    Check::warning(SHARED_MEMORY, finding, hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{check::CheckState, health::tree::state_and_finding};

    fn space(mib: u64) -> Space {
        Space { total_bytes: Bytes::mib(1 << 20), free_bytes: Bytes::mib(mib), is_out_of_files: false }
    }

    #[test]
    fn room_decides() {
        let check = |space| judged(Path::new("/runs"), Ok(space), Ok(()));
        assert_eq!(
            state_and_finding(&check(space(10 << 10))),
            (CheckState::Ok, "10.0 GiB of 1.00 TiB free in `/runs`")
        );
        assert_eq!(check(space(4 << 10)).state, CheckState::Warning);
        assert_eq!(check(space(50)).state, CheckState::Problem);
        let full = Space { is_out_of_files: true, ..space(10 << 10) };
        assert_eq!(
            state_and_finding(&check(full)),
            (CheckState::Problem, "10.0 GiB of 1.00 TiB free in `/runs`, but no further file can be created")
        );
    }

    #[test]
    fn what_cannot_be_written_to_is_a_problem() {
        let refused = || io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(
            state_and_finding(&judged(Path::new("/runs"), Ok(space(9999)), Err(refused()))),
            (CheckState::Problem, "`/runs` cannot be written to: permission denied")
        );
        assert_eq!(judged(Path::new("/runs"), Err(refused()), Ok(())).state, CheckState::Warning);
        assert_eq!(disk(Path::new("/no/such/folder")).state, CheckState::Problem);
    }

    #[test]
    fn this_disk_has_a_size() {
        let folder = tempfile::tempdir().unwrap();
        let space = Space::of(folder.path()).unwrap();
        assert!(space.total_bytes >= space.free_bytes && space.total_bytes.get() > 0);
        assert_ne!(disk(folder.path()).state, CheckState::Skipped);
    }

    #[test]
    fn a_cache_need_not_exist_yet() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(cache(&folder.path().join("a/b")).state, CheckState::Ok);
        let refused = io::ErrorKind::ReadOnlyFilesystem.into();
        assert_eq!(
            state_and_finding(&judged_cache(Path::new("/c"), Err(refused))),
            (CheckState::Warning, "`/c` cannot be written to: read-only filesystem or storage medium")
        );
    }

    fn shared(total: u64, free: u64) -> io::Result<Space> {
        Ok(Space { total_bytes: Bytes::mib(total), free_bytes: Bytes::mib(free), is_out_of_files: false })
    }

    #[test]
    fn several_gpus_need_more_than_a_container_gets() {
        assert_eq!(
            state_and_finding(&judged_shared_memory(shared(64, 64), true)),
            (CheckState::Warning, "64.0 MiB of 64.0 MiB free in `/dev/shm`, too little for NCCL")
        );
        assert_eq!(judged_shared_memory(shared(64, 64), false).state, CheckState::Ok);
        assert_eq!(
            state_and_finding(&judged_shared_memory(shared(4096, 1024), true)),
            (CheckState::Ok, "1.00 GiB of 4.00 GiB free in `/dev/shm`")
        );
    }

    #[test]
    fn without_it_one_gpu_still_works() {
        let none = || Err(io::ErrorKind::NotFound.into());
        assert_eq!(
            state_and_finding(&judged_shared_memory(none(), true)),
            (CheckState::Warning, "`/dev/shm` does not exist")
        );
        assert_eq!(judged_shared_memory(none(), false).state, CheckState::Ok);
    }
}
