//! What a stopped thread's arguments point to.

use std::{ffi::OsStr, fs, os::unix::ffi::OsStrExt, path::PathBuf};

use libc::{c_void, iovec, pid_t};

use super::calls::Place;

/// The longest path that the kernel takes.
const LONGEST_PATH: usize = 4096;
/// Reads across the end of a page may fail where the part before it does not.
const PAGE: usize = 4096;

/// Up to `length` bytes at an address of a thread: fewer if the rest is not readable.
pub(super) fn bytes(thread: pid_t, address: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let local = iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
    let remote = iovec { iov_base: address as *mut c_void, iov_len: length };
    // SAFETY: `local` is the buffer, of this length; the kernel checks the address in the other process.
    let read = unsafe { libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0) };
    bytes.truncate(usize::try_from(read).unwrap_or(0));
    bytes
}

/// What the buffers of a `writev` hold.
pub(super) fn vectors(thread: pid_t, address: u64, count: u64) -> Vec<u8> {
    let size = size_of::<iovec>();
    let table = bytes(thread, address, size * count as usize);
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
    let vectors = table.chunks_exact(size).map(|entry| (word(&entry[..size / 2]), word(&entry[size / 2..])));
    vectors.flat_map(|(address, length)| bytes(thread, address, length as usize)).collect()
}

/// The text at an address, up to its zero.
fn text(thread: pid_t, address: u64) -> Option<PathBuf> {
    let (mut text, mut next) = (Vec::new(), address);
    while text.len() < LONGEST_PATH {
        let part = bytes(thread, next, PAGE - next as usize % PAGE);
        if let Some(end) = part.iter().position(|byte| *byte == 0) {
            text.extend_from_slice(&part[..end]);
            return Some(PathBuf::from(OsStr::from_bytes(&text)));
        }
        if part.is_empty() {
            return None;
        }
        next += part.len() as u64;
        text.extend(part);
    }
    None
}

/// The file that a call names in a place.
pub(super) fn path(thread: pid_t, place: Place, arguments: &[u64; 6]) -> Option<PathBuf> {
    let folder = |descriptor: u64| match descriptor as u32 as i32 {
        libc::AT_FDCWD => fs::read_link(format!("/proc/{thread}/cwd")).ok(),
        descriptor => fs::read_link(format!("/proc/{thread}/fd/{descriptor}")).ok(),
    };
    let below = |descriptor: u64, address: u64| {
        let text = text(thread, address)?;
        // An empty path is that of the descriptor; `join` would add a slash.
        if text.as_os_str().is_empty() { folder(descriptor) } else { Some(folder(descriptor)?.join(text)) }
    };
    match place {
        Place::Nowhere => None,
        Place::Path(at) => below(libc::AT_FDCWD as u64, arguments[at]),
        Place::At(descriptor, at) => below(arguments[descriptor], arguments[at]),
        Place::Descriptor(at) if (arguments[at] as u32 as i32) < 0 => None,
        Place::Descriptor(at) => folder(arguments[at]),
        Place::Text(at) => text(thread, arguments[at]),
    }
}
