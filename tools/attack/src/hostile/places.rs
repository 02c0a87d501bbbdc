//! Files that are no files: folders, pipes, sockets, devices, links to nowhere.

use std::{
    ffi::CString,
    fs, io,
    os::unix::{ffi::OsStrExt, fs::symlink, net::UnixListener},
    path::Path,
};

/// Their names.
pub(crate) const NAMES: [&str; 12] = [
    "folder",
    "pipe",
    "socket",
    "nowhere",
    "cycle",
    "zero",
    "full",
    "memory",
    "words",
    "empty",
    "hole",
    "unreadable",
];

/// Puts one of them at a path.
pub(crate) fn put(name: &str, path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match name {
        "folder" => fs::create_dir(path),
        "pipe" => pipe(path),
        // The listener is gone at once; what it bound stays.
        "socket" => UnixListener::bind(path).map(drop),
        "nowhere" => symlink("is/not/there", path),
        "cycle" => symlink(path.file_name().unwrap_or_default(), path),
        // Links, so that a command that replaced one would hurt nothing outside.
        "zero" => symlink("/dev/zero", path),
        "full" => symlink("/dev/full", path),
        "memory" => symlink("/proc/self/mem", path),
        "words" => symlink("/proc/self/cmdline", path),
        "empty" => fs::write(path, ""),
        // A terabyte of zeros that takes no space.
        "hole" => fs::File::create(path)?.set_len(1 << 40),
        _ => {
            fs::write(path, "x")?;
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o000))
        }
    }
}

/// Puts all of them into a folder, under their names.
pub(crate) fn put_all(folder: &Path) -> io::Result<()> {
    NAMES.iter().try_for_each(|name| put(name, &folder.join(name)))
}

fn pipe(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: the path is a live text that ends with a zero.
    match unsafe { libc::mkfifo(path.as_ptr(), 0o600) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What of them a command replaced or removed. A file may be written to.
pub(crate) fn harm(folder: &Path) -> Option<String> {
    use std::os::unix::fs::FileTypeExt;
    NAMES.iter().find_map(|name| {
        let kind = fs::symlink_metadata(folder.join(name)).map(|metadata| metadata.file_type());
        let is_kept = kind.is_ok_and(|kind| match *name {
            "folder" => kind.is_dir(),
            "pipe" => kind.is_fifo(),
            "socket" => kind.is_socket(),
            "empty" | "hole" | "unreadable" => kind.is_file(),
            _ => kind.is_symlink(),
        });
        (!is_kept).then(|| format!("`{name}` is no longer what it was"))
    })
}
