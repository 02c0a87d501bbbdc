//! A system call that fails.

use std::path::Path;

use libc::{
    EACCES, EAGAIN, EDQUOT, EINTR, EINVAL, EIO, EMFILE, ENFILE, ENOLCK, ENOMEM, ENOSPC, EPERM, EPIPE, EROFS,
};
use oomph_core::Generator;

use crate::trace::{Action, Call};

/// The calls that may fail.
pub(super) const CALLS: [&str; 30] = [
    "open",
    "openat",
    "read",
    "pread64",
    "readv",
    "write",
    "pwrite64",
    "writev",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "symlink",
    "symlinkat",
    "mkdir",
    "mkdirat",
    "rmdir",
    "ftruncate",
    "fsync",
    "fdatasync",
    "flock",
    "getdents64",
    "statx",
    "newfstatat",
    "readlink",
    "readlinkat",
    "copy_file_range",
    "clone3",
    "mmap",
];

/// A kind of calls: what they are called, and the errors that they may give.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    errors: &'static [i32],
    /// Whether it may move fewer bytes than it was asked to.
    may_be_short: bool,
}

const fn kind(name: &'static str, errors: &'static [i32]) -> Kind {
    Kind { name, errors, may_be_short: false }
}

pub(super) static STDOUT: Kind =
    Kind { name: "write to stdout", errors: &[ENOSPC, EIO, EPIPE, EINTR], may_be_short: true };
pub(super) static STDERR: Kind =
    Kind { name: "write to stderr", errors: &[ENOSPC, EIO, EPIPE, EINTR], may_be_short: true };
/// To the pipe of the program that started this one: the program's own output may still be whole.
static CHILD_STDOUT: Kind =
    Kind { name: "write to stdout of a child", errors: &[ENOSPC, EIO, EPIPE, EINTR], may_be_short: true };
static WRITE: Kind = Kind { name: "write", errors: &[ENOSPC, EIO, EDQUOT, EINTR], may_be_short: true };
static READ: Kind = Kind { name: "read", errors: &[EIO, EINTR], may_be_short: true };
static OPEN_TO_WRITE: Kind =
    kind("open to write", &[ENOSPC, EMFILE, ENFILE, EACCES, EDQUOT, EROFS, EIO, EINTR]);
static OPEN_TO_READ: Kind = kind("open to read", &[EMFILE, ENFILE, EACCES, EIO, EINTR]);
/// The standard library does not repeat the opening of a folder, and only remote file systems interrupt it.
static OPEN_FOLDER: Kind = kind("open a folder", &[EMFILE, ENFILE, EACCES, EIO]);
static RENAME: Kind = kind("rename", &[ENOSPC, EIO, EACCES, EDQUOT, EROFS]);
static UNLINK: Kind = kind("unlink", &[EACCES, EPERM, EIO, EROFS]);
static SYMLINK: Kind = kind("symlink", &[ENOSPC, EDQUOT, EACCES, EPERM, EIO]);
static MKDIR: Kind = kind("mkdir", &[ENOSPC, EDQUOT, EACCES, EIO, EROFS]);
static TRUNCATE: Kind = kind("ftruncate", &[EIO, EINTR, EPERM]);
static FSYNC: Kind = kind("fsync", &[EIO, ENOSPC, EDQUOT, EINTR]);
/// Some file systems cannot flush a folder.
static FSYNC_FOLDER: Kind = kind("fsync of a folder", &[EIO, EINVAL, EINTR]);
static LOCK: Kind = kind("flock", &[ENOLCK, EIO]);
static LIST: Kind = kind("list a folder", &[EIO, EACCES]);
static STATUS: Kind = kind("status", &[EACCES, EIO]);
static LINK: Kind = kind("read a link", &[EACCES, EIO]);
static COPY: Kind = Kind { name: "copy_file_range", errors: &[ENOSPC, EIO, EDQUOT], may_be_short: true };
static THREAD: Kind = kind("start a thread", &[EAGAIN]);
static MAP: Kind = kind("map a file", &[ENOMEM, EACCES]);
static SYSTEM: Kind = kind("read in /proc and /sys", &[EMFILE, EACCES, EIO, EINTR]);

/// The kind of a call; `None` for calls that are about nothing of the folder and of the streams.
pub(super) fn kind_of(call: &Call, folder: &Path) -> Option<&'static Kind> {
    if call.name == "clone3" {
        return Some(&THREAD);
    }
    let path = call.path.as_ref()?;
    if path.to_string_lossy().starts_with("pipe:") {
        return match (call.name, call.arguments[0]) {
            ("write" | "writev", 1) if call.is_of_child => Some(&CHILD_STDOUT),
            ("write" | "writev", 1) => Some(&STDOUT),
            ("write" | "writev", 2) => Some(&STDERR),
            _ => None,
        };
    }
    if path.starts_with("/proc") || path.starts_with("/sys") {
        return ["open", "openat", "read"].contains(&call.name).then_some(&SYSTEM);
    }
    if !path.starts_with(folder) {
        return None;
    }
    Some(match call.name {
        "open" | "openat" if call.opens_to_write() => &OPEN_TO_WRITE,
        "open" | "openat" if path.is_dir() => &OPEN_FOLDER,
        "open" | "openat" => &OPEN_TO_READ,
        "read" | "pread64" | "readv" => &READ,
        "write" | "pwrite64" | "writev" => &WRITE,
        "rename" | "renameat" | "renameat2" => &RENAME,
        "unlink" | "unlinkat" | "rmdir" => &UNLINK,
        "symlink" | "symlinkat" => &SYMLINK,
        "mkdir" | "mkdirat" => &MKDIR,
        "ftruncate" => &TRUNCATE,
        "fsync" | "fdatasync" if path.is_dir() => &FSYNC_FOLDER,
        "fsync" | "fdatasync" => &FSYNC,
        "flock" => &LOCK,
        "getdents64" => &LIST,
        "statx" | "newfstatat" => &STATUS,
        "readlink" | "readlinkat" => &LINK,
        "copy_file_range" => &COPY,
        "mmap" => &MAP,
        _ => return None,
    })
}

/// What happens to the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// One fails.
    Once(i32),
    /// One fails, and all later ones.
    FromThenOn(i32),
    /// One moves a part of its bytes.
    Short,
}

/// A fault.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) kind: &'static Kind,
    /// Which call of the kind, from 1.
    nth: usize,
    how: How,
    /// Determines the part of a short call.
    part: f32,
    seen: usize,
    /// The call that it hit first.
    pub(super) hit: Option<Call>,
}

impl Fault {
    /// A fault of a kind that occurs `count` times.
    pub(super) fn draw(kind: &'static Kind, count: usize, random: &mut Generator) -> Self {
        let (nth, part) = (1 + random.below(count), random.uniform());
        let error = kind.errors[random.below(kind.errors.len())];
        let how = match random.below(4) {
            0 if kind.may_be_short => How::Short,
            // A call that is interrupted for ever, or a folder that can be flushed now and then, does not exist.
            1 | 2 if error != EINTR => How::FromThenOn(error),
            _ if error == EINVAL => How::FromThenOn(error),
            _ => How::Once(error),
        };
        Self { kind, nth: if error == EINVAL { 1 } else { nth }, how, part, seen: 0, hit: None }
    }

    /// What becomes of a call of its kind.
    pub(super) fn act(&mut self, call: &Call) -> Action {
        self.seen += 1;
        let action = match self.how {
            How::Once(error) if self.seen == self.nth => Action::Fail(error),
            How::FromThenOn(error) if self.seen >= self.nth => Action::Fail(error),
            How::Short if self.seen == self.nth => match call.arguments[2] {
                // Nothing is less than all, and not nothing.
                0 | 1 => return Action::Continue,
                bytes => Action::Short(((bytes as f32 * self.part) as usize).clamp(1, bytes as usize - 1)),
            },
            _ => return Action::Continue,
        };
        self.hit.get_or_insert_with(|| call.clone());
        action
    }

    /// Whether every program must do as if nothing had happened.
    pub(super) fn is_harmless(&self) -> bool {
        match self.how {
            How::Short => true,
            How::Once(error) | How::FromThenOn(error) => error == EINTR || error == EINVAL,
        }
    }

    /// Whether it refuses what the program prints, and nobody has closed the stream.
    pub(super) fn loses_output(&self) -> bool {
        *self.kind == STDOUT && !self.is_harmless()
    }

    /// Whether it is about a file, which an error can name.
    pub(super) fn is_of_file(&self) -> bool {
        ![&STDOUT, &CHILD_STDOUT, &STDERR, &THREAD].contains(&self.kind)
    }

    /// Its words.
    pub(super) fn words(&self) -> String {
        let name = |error: i32| std::io::Error::from_raw_os_error(error).to_string();
        let how = match self.how {
            How::Once(error) => format!("fails once: {}", name(error)),
            How::FromThenOn(error) => format!("fails from then on: {}", name(error)),
            How::Short => "is short".into(),
        };
        let hit =
            self.hit.as_ref().and_then(|call| call.path.as_ref()).map(|path| path.display().to_string());
        format!(
            "call {} of the kind `{}` {how}; it was of {}",
            self.nth,
            self.kind.name,
            hit.unwrap_or_default()
        )
    }
}
