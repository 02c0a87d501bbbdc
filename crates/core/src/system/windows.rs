use std::{
    fs::{self, File, FileType, Metadata, OpenOptions},
    io::{self, Write},
    os::windows::{
        fs::{FileExt, OpenOptionsExt},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
};

use winapi_util::file::information;

use super::FileIdentity;
use crate::open::{open_file, read_text};

/// Lets a folder be opened (`FILE_FLAG_BACKUP_SEMANTICS`).
const OPENS_FOLDERS: u32 = 0x0200_0000;
/// Keeps Ctrl-C of the console from a child (`CREATE_NEW_PROCESS_GROUP`).
const NEW_GROUP: u32 = 0x0000_0200;

impl FileIdentity {
    /// Of an open file.
    ///
    /// # Errors
    /// The system refuses.
    pub fn of(file: &File) -> io::Result<Self> {
        let found = information(file)?;
        Ok(Self { volume: found.volume_serial_number(), index: found.file_index() })
    }

    /// Of what has the path; links are followed.
    ///
    /// # Errors
    /// There is nothing, or the system refuses.
    pub fn at(path: &Path) -> io::Result<Self> {
        Self::of(&OpenOptions::new().access_mode(0).custom_flags(OPENS_FOLDERS).open(path)?)
    }

    /// Of what has the path: oomph makes no links on Windows.
    ///
    /// # Errors
    /// There is nothing, or the system refuses.
    pub fn at_link(path: &Path) -> io::Result<Self> {
        Self::at(path)
    }
}

/// Fills `buffer` with the bytes of a file from `at` on. It moves the position of the handle.
///
/// # Errors
/// There are fewer bytes, or the system refuses.
pub fn read_exact_at(file: &File, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.seek_read(buffer, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                buffer = std::mem::take(&mut buffer).get_mut(read..).unwrap_or_default();
                at += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The options as they are: files of Windows are opened without waiting.
pub fn without_waiting(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// None: pipes and devices of Windows have names outside of all folders.
pub fn special_kind(_: FileType) -> Option<&'static str> {
    None
}

/// Nothing: a new file belongs to whom its folder says.
pub fn keep_owner(_: &File, _: &Metadata) {}

/// Gives a file another name unless something has it: a second name first, which cannot replace one, then the old name goes.
///
/// # Errors
/// [`AlreadyExists`](io::ErrorKind::AlreadyExists); [`Unsupported`](io::ErrorKind::Unsupported) where the file system has no
/// second names.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        Err(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// Nothing: NTFS writes the entries of directories to its journal, and a directory cannot be flushed.
///
/// # Errors
/// None.
pub fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Makes a file of that name with the target's name in it, since links need a privilege that few users have.
///
/// # Errors
/// The name is taken, or the system refuses.
pub fn set_link(target: &Path, link: &Path) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).open(link)?;
    writeln!(file, "{}", target.display())?;
    file.sync_all()
}

/// Where a file leads that [`set_link`] made.
///
/// # Errors
/// It is longer than a path, or the system refuses.
pub fn link_target(link: &Path) -> io::Result<PathBuf> {
    const MOST_BYTES: u64 = 4096;
    if open_file(link)?.metadata()?.len() > MOST_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    read_text(link).map(|text| PathBuf::from(text.trim()))
}

/// Keeps a child process from the Ctrl-C of its parent's console.
pub fn in_own_group(command: &mut Command) -> &mut Command {
    command.creation_flags(NEW_GROUP)
}

/// None: Windows has no signals. A process that was killed has an exit code.
pub fn ending_signal(_: ExitStatus) -> Option<i32> {
    None
}

/// Runs another program, waits for its end and ends this one with its exit code. Returns only where it does not start.
pub fn replace_process(mut command: Command) -> io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}
