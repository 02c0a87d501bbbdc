//! Files that are complete or absent, and never in the place of something else.

use std::{
    fs::{self, File, FileType},
    hash::{BuildHasher, Hasher, RandomState},
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use crate::system::{rename_new, special_kind};

/// What becomes of a file that already has the name of a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// The file stays, and writing is an error.
    Keep,
    /// The new file replaces it.
    Replace,
}

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A file has the name, and [`Existing::Keep`] protects it.
    #[error("the file exists")]
    Exists,
    /// A link, device, pipe, socket or directory has the name. Nothing replaces it.
    #[error("it is {0}")]
    NotAFile(&'static str),
    /// The system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<WriteError> for io::Error {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Io(error) => error,
            error => Self::new(io::ErrorKind::AlreadyExists, error),
        }
    }
}

/// Checks that a file may be written to `path`. [`write_file`] checks it again; a command asks before minutes of work.
///
/// # Errors
/// A file that stays, or anything but a file.
pub fn check_target(path: &Path, existing: Existing) -> Result<(), WriteError> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.is_file() => Err(WriteError::NotAFile(kind(there.file_type()))),
        Ok(_) if existing == Existing::Keep => Err(WriteError::Exists),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Writes a file beside its final name first: under that it is complete or absent, also after a crash.
///
/// # Errors
/// As [`check_target`]; also where the file cannot be written, or `write` fails. The incomplete file is removed.
pub fn write_file(
    path: &Path,
    existing: Existing,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), WriteError> {
    write_beside(path, existing, |beside| {
        let mut file = BufWriter::new(File::options().write(true).open(beside)?);
        write(&mut file)?;
        file.flush()
    })
}

/// [`write_file`] for a writer that opens its file itself: `write` gets the name of an empty file beside the final name.
///
/// # Errors
/// As [`write_file`].
pub fn write_beside(
    path: &Path,
    existing: Existing,
    write: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<(), WriteError> {
    check_target(path, existing)?;
    let beside = unfinished(path);
    create_fresh(&beside)?;
    let written = write(&beside).map_err(WriteError::Io).and_then(|()| place(&beside, path, existing));
    written.inspect_err(|_| {
        // Half a file is useless. If it cannot be removed either, the first error is reported.
        let _ = fs::remove_file(&beside);
    })
}

/// Creates an empty file. A file or link that has its name is removed first: opening a link would write into its target.
///
/// # Errors
/// The system refuses.
pub fn create_fresh(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    File::options().write(true).create_new(true).open(path)
}

/// A name for a file until it is complete. No other call gets it: threads, processes and machines may write one file at once.
pub fn unfinished(path: &Path) -> PathBuf {
    // The keys of a new state are random.
    let number = RandomState::new().build_hasher().finish();
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number:016x}.part"));
    PathBuf::from(name)
}

/// Gives the complete file its name.
fn place(beside: &Path, path: &Path, existing: Existing) -> Result<(), WriteError> {
    File::open(beside)?.sync_all()?;
    check_target(path, existing)?;
    if existing == Existing::Keep {
        match rename_new(beside, path).map_err(|error| (error.kind(), error)) {
            // The file system cannot; the check was a moment ago.
            Err((io::ErrorKind::Unsupported, _)) => {}
            Err((io::ErrorKind::AlreadyExists, _)) => return Err(WriteError::Exists),
            Err((_, error)) => return Err(error.into()),
            Ok(()) => return Ok(()),
        }
    }
    Ok(fs::rename(beside, path)?)
}

/// What a path names, for a message.
fn kind(found: FileType) -> &'static str {
    match () {
        () if found.is_symlink() => "a link",
        () if found.is_dir() => "a directory",
        () => special_kind(found).unwrap_or("a device"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::symlink, net::UnixListener};

    use super::*;

    fn write(path: &Path, existing: Existing) -> Result<(), WriteError> {
        write_file(path, existing, |out| out.write_all(b"new"))
    }

    fn names(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn an_existing_file_is_replaced_only_on_request() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "old").unwrap();
        assert!(matches!(write(&path, Existing::Keep), Err(WriteError::Exists)));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        write(&path, Existing::Replace).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), 1);
    }

    #[test]
    fn a_file_that_appears_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let written = write_file(&path, Existing::Keep, |_| fs::write(&path, "old"));
        assert!(matches!(written, Err(WriteError::Exists)));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), 1);
    }

    #[test]
    fn nothing_but_a_file_is_ever_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("target"), "old").unwrap();
        symlink("target", at("link")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        fs::create_dir(at("directory")).unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        let before = names(folder.path());
        for (name, is) in [
            ("link", "a link"),
            ("dangling", "a link"),
            ("directory", "a directory"),
            ("socket", "a socket"),
            ("pipe", "a pipe"),
        ] {
            for existing in [Existing::Keep, Existing::Replace] {
                let error = write(&at(name), existing).unwrap_err();
                assert!(matches!(error, WriteError::NotAFile(found) if found == is), "{name}: {error}");
            }
        }
        // Only asked: a defect here would replace the device of this machine.
        let device = check_target(Path::new("/dev/null"), Existing::Replace).unwrap_err();
        assert_eq!(device.to_string(), "it is a device");
        assert_eq!(fs::read(at("target")).unwrap(), b"old");
        assert_eq!(names(folder.path()), before);
    }

    #[test]
    fn a_link_in_the_place_of_a_fresh_file_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("target"), "old").unwrap();
        symlink(at("target"), at("x")).unwrap();
        create_fresh(&at("x")).unwrap().write_all(b"new").unwrap();
        assert_eq!(fs::read(at("target")).unwrap(), b"old");
        assert!(!at("x").is_symlink() && fs::read(at("x")).unwrap() == b"new");
    }

    #[test]
    fn of_writers_at_once_one_is_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let writers = 16;
        let start = std::sync::Barrier::new(writers);
        let written: Vec<_> = std::thread::scope(|scope| {
            let writer = || {
                start.wait();
                write(&path, Existing::Keep)
            };
            let threads: Vec<_> = (0..writers).map(|_| scope.spawn(writer)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(written.iter().filter(|written| written.is_ok()).count(), 1);
        assert!(
            written.iter().all(|written| matches!(written, Ok(()) | Err(WriteError::Exists))),
            "{written:?}"
        );
        assert_eq!(names(folder.path()), 1);
    }

    #[test]
    fn a_file_whose_writer_fails_is_not_kept() {
        let folder = tempfile::tempdir().unwrap();
        let failed =
            write_file(&folder.path().join("x"), Existing::Keep, |_| Err(io::Error::other("no more")));
        assert_eq!(failed.unwrap_err().to_string(), "no more");
        assert_eq!(names(folder.path()), 0);
    }
}
