use std::{
    fs::{self, File, FileType, Metadata, OpenOptions},
    io,
    os::unix::{
        fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt},
        process::{CommandExt, ExitStatusExt},
    },
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
};

use rustix::{
    fs::{CWD, OFlags, RenameFlags, renameat_with},
    io::Errno,
};

use super::FileIdentity;

impl FileIdentity {
    fn new(found: &Metadata) -> Self {
        Self { volume: found.dev(), index: found.ino() }
    }

    /// Of an open file.
    ///
    /// # Errors
    /// The system refuses.
    pub fn of(file: &File) -> io::Result<Self> {
        file.metadata().map(|found| Self::new(&found))
    }

    /// Of what has the path; links are followed.
    ///
    /// # Errors
    /// There is nothing, or the system refuses.
    pub fn at(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|found| Self::new(&found))
    }

    /// Of what has the path, which may be a link itself.
    ///
    /// # Errors
    /// There is nothing, or the system refuses.
    pub fn at_link(path: &Path) -> io::Result<Self> {
        fs::symlink_metadata(path).map(|found| Self::new(&found))
    }
}

/// Fills `buffer` with the bytes of a file from `at` on. Copies of the handle may read at the same time.
///
/// # Errors
/// There are fewer bytes, or the system refuses.
pub fn read_exact_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<()> {
    file.read_exact_at(buffer, at)
}

/// Options with which opening waits for nobody: a pipe would block until it has a writer. Regular files ignore it.
pub fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options.custom_flags(OFlags::NONBLOCK.bits() as i32)
}

/// A kind of file that only this system has, in words.
pub fn special_kind(found: FileType) -> Option<&'static str> {
    match () {
        () if found.is_fifo() => Some("a pipe"),
        () if found.is_socket() => Some("a socket"),
        () => None,
    }
}

/// Gives a new file the owner of the file that it replaces. Only root may; for anybody else the owner is right already.
pub fn keep_owner(file: &File, before: &Metadata) {
    let _ = std::os::unix::fs::fchown(file, Some(before.uid()), Some(before.gid()));
}

/// Renames a file unless something has the new name.
///
/// # Errors
/// [`AlreadyExists`](io::ErrorKind::AlreadyExists); [`Unsupported`](io::ErrorKind::Unsupported) where the file system cannot
/// do both in one step; what the system says.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE).map_err(|error| match error {
        Errno::INVAL | Errno::NOSYS | Errno::NOTSUP => io::ErrorKind::Unsupported.into(),
        error => error.into(),
    })
}

/// Flushes the entries of a directory to the disk.
///
/// Some file systems that cross a network refuse to flush directories at all: their server orders renames.
///
/// # Errors
/// What the system says.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    let flushed = File::open(path).and_then(|directory| directory.sync_all());
    flushed.or_else(|error| match Errno::from_io_error(&error) {
        Some(Errno::INVAL | Errno::BADF) => Ok(()),
        _ => Err(error),
    })
}

/// Makes a link of that name to a file or folder beside it.
///
/// # Errors
/// The name is taken, or the system refuses.
pub fn set_link(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

/// Where a link leads that [`set_link`] made.
///
/// # Errors
/// It is no link, or the system refuses.
pub fn link_target(link: &Path) -> io::Result<PathBuf> {
    fs::read_link(link)
}

/// Keeps a child process from the Ctrl-C of its parent's terminal.
pub fn in_own_group(command: &mut Command) -> &mut Command {
    command.process_group(0)
}

/// The signal that ended a process, if one did.
pub fn ending_signal(status: ExitStatus) -> Option<i32> {
    status.signal()
}

/// Runs another program in the place of this one, under the same process id. Returns only where that fails.
pub fn replace_process(mut command: Command) -> io::Error {
    command.exec()
}
