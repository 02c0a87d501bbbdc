//! Opening files whose paths come from outside.

use std::{
    fmt,
    fs::{self, File, FileType, OpenOptions},
    io::{self, Read},
    path::Path,
};

use crate::system::{special_kind, without_waiting};

/// Why a path was not opened: it names something else than a regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAFile {
    kind: &'static str,
}

impl NotAFile {
    fn of(found: FileType) -> Option<Self> {
        let kind = match found {
            found if found.is_file() => return None,
            found if found.is_dir() => "a directory",
            found => special_kind(found).unwrap_or("a device"),
        };
        Some(Self { kind })
    }
}

impl fmt::Display for NotAFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it is {}; expected a file", self.kind)
    }
}

impl std::error::Error for NotAFile {}

impl From<NotAFile> for io::Error {
    fn from(refused: NotAFile) -> Self {
        Self::new(io::ErrorKind::InvalidInput, refused)
    }
}

/// Opens a file for reading. It waits for nobody: a pipe would block until it has a writer, and a device may never end.
///
/// # Errors
/// [`NotAFile`] as the inner error, or what the system says.
pub fn open_file(path: &Path) -> io::Result<File> {
    open_file_with(OpenOptions::new().read(true), path)
}

/// Opens a file with `options`. Otherwise as [`open_file`].
///
/// # Errors
/// [`NotAFile`] as the inner error, or what the system says.
pub fn open_file_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    // Checked before opening, since opening a device may already act on it. A missing file may be created.
    if let Some(refused) = fs::metadata(path).ok().and_then(|found| NotAFile::of(found.file_type())) {
        return Err(refused.into());
    }
    // Another process may put a pipe there in between. Regular files ignore the flag.
    let file = without_waiting(options).open(path)?;
    match NotAFile::of(file.metadata()?.file_type()) {
        Some(refused) => Err(refused.into()),
        None => Ok(file),
    }
}

/// The bytes of a file. Otherwise as [`open_file`].
///
/// # Errors
/// [`NotAFile`] as the inner error, or what the system says.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open_file(path)?;
    let length = file.metadata()?.len();
    let mut bytes = Vec::new();
    // A length that no memory can hold is an error instead of the end of the process.
    bytes.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX))?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a file. Otherwise as [`open_file`].
///
/// # Errors
/// [`NotAFile`] as the inner error, or what the system says; also where the bytes are not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read_file(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(path: &Path) -> String {
        open_file(path).expect_err("not a file").to_string()
    }

    #[test]
    fn only_files_are_opened_and_nothing_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let pipe = folder.join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .expect("a pipe");
        assert_eq!(refusal(&pipe), "it is a pipe; expected a file");
        let error = open_file_with(OpenOptions::new().create(true).append(true), &pipe).expect_err("a pipe");
        assert!(error.get_ref().is_some_and(|inner| inner.is::<NotAFile>()), "{error}");
        assert_eq!(refusal(folder), "it is a directory; expected a file");
        assert_eq!(refusal("/dev/zero".as_ref()), "it is a device; expected a file");
        let error = open_file(&folder.join("gone")).expect_err("nothing");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);

        let file = folder.join("file");
        let mut created =
            open_file_with(OpenOptions::new().create(true).append(true), &file).expect("a file");
        io::Write::write_all(&mut created, b"bytes").expect("written");
        std::os::unix::fs::symlink(&file, folder.join("link")).expect("a link");
        assert_eq!(read_file(&folder.join("link")).expect("a file"), b"bytes");
    }
}
