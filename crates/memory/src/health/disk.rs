use std::{io, path::Path};

use oomph_core::Bytes;
use rustix::fs::{Access, access, statvfs};

use super::Check;

/// Below this not even one checkpoint of a small model can be counted on.
const LEAST: Bytes = Bytes::mib(100);
/// Checkpoints of a ResNet-50 with Adam take 300 MiB each, and several are kept.
const LITTLE: Bytes = Bytes::mib(5 << 10);

/// What a file system has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) total_bytes: Bytes,
    /// For this user.
    pub(super) free_bytes: Bytes,
    /// Whether no further file can be made, however much space is left.
    pub(super) is_out_of_files: bool,
}

impl Space {
    /// Of the file system that the path is on.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let told = statvfs(path)?;
        let bytes = |blocks: u64| Bytes::new(blocks.saturating_mul(told.f_frsize));
        Ok(Self {
            total_bytes: bytes(told.f_blocks),
            free_bytes: bytes(told.f_bavail),
            // Where files are not counted there are none in all.
            is_out_of_files: told.f_files > 0 && told.f_favail == 0,
        })
    }
}

/// The folder in which runs are written: whether they may be, and how much room there is.
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
            let finding = format!("what is free in `{folder}` is not told: {error}");
            return Check::warning(NAME, finding, elsewhere);
        }
    };
    let finding = format!("{} of {} free in `{folder}`", space.free_bytes, space.total_bytes);
    if space.is_out_of_files {
        return Check::problem(NAME, format!("{finding}, and no room for another file"), elsewhere);
    }
    if space.free_bytes < LEAST {
        return Check::problem(NAME, finding, elsewhere);
    }
    if space.free_bytes < LITTLE {
        let hint = "checkpoints take two to four times the bytes of the model each; `run.directory` may be on another \
                    disk";
        return Check::warning(NAME, finding, hint);
    }
    Check::ok(NAME, finding)
}

/// The folder in which results that took long are kept; it need not exist yet.
pub fn cache(folder: &Path) -> Check {
    // What will be made is made in the first folder above that there is.
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
            "set XDG_CACHE_HOME to a folder that can; without, what takes long is done anew at every start",
        ),
    }
}

/// Asked, not tried: nothing is written.
fn writable(folder: &Path) -> io::Result<()> {
    Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::{State, tree::told};

    fn space(mib: u64) -> Space {
        Space { total_bytes: Bytes::mib(1 << 20), free_bytes: Bytes::mib(mib), is_out_of_files: false }
    }

    #[test]
    fn room_decides() {
        let check = |space| judged(Path::new("/runs"), Ok(space), Ok(()));
        assert_eq!(told(&check(space(10 << 10))), (State::Ok, "10.0 GiB of 1.00 TiB free in `/runs`"));
        assert_eq!(check(space(4 << 10)).state, State::Warning);
        assert_eq!(check(space(50)).state, State::Problem);
        let full = Space { is_out_of_files: true, ..space(10 << 10) };
        assert_eq!(
            told(&check(full)),
            (State::Problem, "10.0 GiB of 1.00 TiB free in `/runs`, and no room for another file")
        );
    }

    #[test]
    fn what_cannot_be_written_to_is_a_problem() {
        let refused = || io::Error::from(io::ErrorKind::PermissionDenied);
        assert_eq!(
            told(&judged(Path::new("/runs"), Ok(space(9999)), Err(refused()))),
            (State::Problem, "`/runs` cannot be written to: permission denied")
        );
        assert_eq!(judged(Path::new("/runs"), Err(refused()), Ok(())).state, State::Warning);
        assert_eq!(disk(Path::new("/no/such/folder")).state, State::Problem);
    }

    #[test]
    fn this_disk_has_a_size() {
        let folder = tempfile::tempdir().unwrap();
        let space = Space::of(folder.path()).unwrap();
        assert!(space.total_bytes >= space.free_bytes && space.total_bytes.get() > 0);
        assert_ne!(disk(folder.path()).state, State::Skipped);
    }

    #[test]
    fn a_cache_need_not_exist_yet() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(cache(&folder.path().join("a/b")).state, State::Ok);
        let refused = io::ErrorKind::ReadOnlyFilesystem.into();
        assert_eq!(
            told(&judged_cache(Path::new("/c"), Err(refused))),
            (State::Warning, "`/c` cannot be written to: read-only filesystem or storage medium")
        );
    }
}
