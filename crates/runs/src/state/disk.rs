//! Durable writes: a crash or a power cut at any moment leaves the old file or the new file, complete.

use std::{fs, io::Write, path::Path};

use oomph_core::{files::create_fresh, system};

use super::StateError;

/// Writes a new file and flushes it to the disk. A link that has its name is removed and not followed.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> Result<(), StateError> {
    let write = || {
        let mut file = create_fresh(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(StateError::io("write", path))
}

/// Flushes the entries of a directory to the disk.
pub(crate) fn sync_directory(path: &Path) -> Result<(), StateError> {
    system::sync_directory(path).map_err(StateError::io("flush", path))
}

/// Writes a file under another name and renames it: readers see the old contents or the new.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), StateError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.tmp"));
    write_durably(&beside, bytes)?;
    rename(&beside, path)?;
    sync_entry(path)
}

/// Flushes the entry of a file in its directory to the disk: a rename lasts only then.
pub(crate) fn sync_entry(path: &Path) -> Result<(), StateError> {
    let folder =
        path.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    folder.map_or(Ok(()), sync_directory)
}

/// Makes `link` a [link](system::set_link) to `target`, replacing the one that is there in one step.
pub(crate) fn replace_link(link: &Path, target: &Path) -> Result<(), StateError> {
    let name = link.file_name().unwrap_or_default().to_string_lossy();
    let beside = link.with_file_name(format!(".{name}.tmp"));
    if beside.symlink_metadata().is_ok() {
        fs::remove_file(&beside).map_err(StateError::io("remove", &beside))?;
    }
    system::set_link(target, &beside).map_err(StateError::io("write", &beside))?;
    rename(&beside, link)?;
    sync_entry(link)
}

/// Gives a complete file or link its name. If that fails, it is removed.
fn rename(beside: &Path, path: &Path) -> Result<(), StateError> {
    fs::rename(beside, path).map_err(|error| {
        // If it cannot be removed either, the first error is reported.
        let _ = fs::remove_file(beside);
        StateError::io("write", path)(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_get_its_name_does_not_stay() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken");
        fs::create_dir(&taken).unwrap();
        write_file(&taken, b"x").unwrap_err();
        replace_link(&taken, Path::new("x")).unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_in_the_place_of_the_unfinished_file_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("theirs"), "theirs").unwrap();
        std::os::unix::fs::symlink(at("theirs"), at(".config.toml.tmp")).unwrap();
        write_file(&at("config.toml"), b"ours").unwrap();
        assert_eq!(fs::read(at("theirs")).unwrap(), b"theirs");
        assert_eq!(fs::read(at("config.toml")).unwrap(), b"ours");
        assert!(!at("config.toml").is_symlink());
    }
}
