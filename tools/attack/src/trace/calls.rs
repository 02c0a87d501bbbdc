//! The system calls that can be traced, and where each names its files.

/// Where a call names a file.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Nowhere,
    /// A path in this argument, from the working folder.
    Path(usize),
    /// A path in the second argument named here, from the folder whose descriptor is in the first.
    At(usize, usize),
    /// An open file's descriptor.
    Descriptor(usize),
    /// A text that no folder precedes: the target of a symbolic link.
    Text(usize),
}

/// A system call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// On x86-64.
    pub(super) number: u32,
    pub(super) first: Place,
    pub(super) second: Place,
    /// The argument that says how much it reads or writes.
    pub(super) length: Option<usize>,
}

use Place::{At, Descriptor, Nowhere, Path, Text};

const fn kind(name: &'static str, number: u32, first: Place) -> Kind {
    Kind { name, number, first, second: Nowhere, length: None }
}

const fn pair(name: &'static str, number: u32, first: Place, second: Place) -> Kind {
    Kind { name, number, first, second, length: None }
}

const fn moving(name: &'static str, number: u32, length: usize) -> Kind {
    Kind { name, number, first: Descriptor(0), second: Nowhere, length: Some(length) }
}

/// All of them.
pub(super) const KINDS: &[Kind] = &[
    moving("read", 0, 2),
    moving("write", 1, 2),
    kind("open", 2, Path(0)),
    kind("close", 3, Descriptor(0)),
    kind("mmap", 9, Descriptor(4)),
    moving("pread64", 17, 2),
    moving("pwrite64", 18, 2),
    moving("readv", 19, 2),
    moving("writev", 20, 2),
    kind("dup", 32, Descriptor(0)),
    kind("dup2", 33, Descriptor(0)),
    // Copies from the second descriptor into the first.
    Kind { second: Descriptor(0), first: Descriptor(1), ..moving("sendfile", 40, 3) },
    kind("clone", 56, Nowhere),
    kind("fork", 57, Nowhere),
    kind("vfork", 58, Nowhere),
    kind("fcntl", 72, Descriptor(0)),
    kind("flock", 73, Descriptor(0)),
    kind("fsync", 74, Descriptor(0)),
    kind("fdatasync", 75, Descriptor(0)),
    kind("truncate", 76, Path(0)),
    kind("ftruncate", 77, Descriptor(0)),
    pair("rename", 82, Path(0), Path(1)),
    kind("mkdir", 83, Path(0)),
    kind("rmdir", 84, Path(0)),
    kind("creat", 85, Path(0)),
    pair("link", 86, Path(0), Path(1)),
    kind("unlink", 87, Path(0)),
    pair("symlink", 88, Path(1), Text(0)),
    kind("readlink", 89, Path(0)),
    kind("chmod", 90, Path(0)),
    kind("fchmod", 91, Descriptor(0)),
    kind("getdents64", 217, Descriptor(0)),
    kind("openat", 257, At(0, 1)),
    kind("mkdirat", 258, At(0, 1)),
    kind("newfstatat", 262, At(0, 1)),
    kind("unlinkat", 263, At(0, 1)),
    pair("renameat", 264, At(0, 1), At(2, 3)),
    pair("linkat", 265, At(0, 1), At(2, 3)),
    pair("symlinkat", 266, At(1, 2), Text(0)),
    kind("readlinkat", 267, At(0, 1)),
    kind("fchmodat", 268, At(0, 1)),
    kind("sync_file_range", 277, Descriptor(0)),
    kind("fallocate", 285, Descriptor(0)),
    kind("dup3", 292, Descriptor(0)),
    pair("renameat2", 316, At(0, 1), At(2, 3)),
    Kind { second: Descriptor(2), ..moving("copy_file_range", 326, 4) },
    kind("statx", 332, At(0, 1)),
    kind("clone3", 435, Nowhere),
];

/// The kind with a name.
pub(super) fn named(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

/// The kind with a number.
pub(super) fn numbered(number: u64) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| u64::from(kind.number) == number)
}
