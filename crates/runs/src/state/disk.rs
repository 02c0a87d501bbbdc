//! Durable writes: a crash or a power cut at any moment leaves the old file or the new file, complete.

use std::{
    fs,
    io::{self, BufWriter, Write},
    path::Path,
};

use oomph_core::{files::create_fresh, system};

use sha2::{Digest, Sha256};

use super::{StateError, manifest::hexadecimal};

/// Writes a new file by `write` and flushes it to the disk. A link that has its name is removed and not followed.
///
/// Returns the SHA-256 of what was written, in hexadecimal digits.
pub(crate) fn write_durably(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<String, StateError> {
    let written = || {
        let file = Digesting { writer: create_fresh(path)?, digest: Sha256::new() };
        let mut buffered = BufWriter::new(file);
        write(&mut buffered)?;
        let Digesting { writer: file, digest } = buffered.into_inner()?;
        file.sync_all()?;
        Ok(hexadecimal(&digest.finalize()))
    };
    written().map_err(StateError::io("write", path))
}

/// A writer that digests what passes.
struct Digesting<W> {
    writer: W,
    digest: Sha256,
}

impl<W: Write> Write for Digesting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.writer.write(bytes)?;
        self.digest.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Flushes the entries of a directory to the disk.
pub(crate) fn sync_directory(path: &Path) -> Result<(), StateError> {
    system::sync_directory(path).map_err(StateError::io("flush", path))
}

/// Writes a file under another name and renames it: readers see the old contents or the new.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), StateError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.tmp"));
    write_durably(&beside, |file| file.write_all(bytes))?;
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
