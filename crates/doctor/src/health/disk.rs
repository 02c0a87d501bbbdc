use std::{io, path::Path};

use oomph_core::Bytes;
use rustix::fs::{Access, access, statvfs};

use crate::check::Check;

/// Below this, not even one checkpoint of a small model is safe.
const LEAST: Bytes = Bytes::mib(100);
/// Below this, space is short: a checkpoint of a ResNet-50 with Adam takes 300 MiB, and several are kept.
const LITTLE: Bytes = Bytes::mib(5 << 10);

/// The space of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) total_bytes: Bytes,
    /// Free bytes for this user.
    pub(super) free_bytes: Bytes,
    /// Whether no more files can be created, whatever space is left.
    pub(super) is_out_of_files: bool,
}

impl Space {
    /// The space of the path's file system.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let found = statvfs(path)?;
        let bytes = |blocks: u64| Bytes::new(blocks.saturating_mul(found.f_frsize));
        Ok(Self {
            total_bytes: bytes(found.f_blocks),
            free_bytes: bytes(found.f_bavail),
            // File systems that do not count files report a total of 0.
            is_out_of_files: found.f_files > 0 && found.f_favail == 0,
        })
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
fn writable(folder: &Path) -> io::Result<()> {
    Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
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
}
