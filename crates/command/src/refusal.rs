//! The end of a process that the system refused memory.

use std::{fmt, io::Write as _, ptr};

use oomph_memory::{has_process_limit, refused_bytes};
use signal_hook::{consts::SIGABRT, low_level};

use crate::exit::Exit;

/// What the program needs to start: its threads' stacks and its allocators.
const LEAST_MIB: usize = 32;
/// What the system's own libraries ask for at least. They abort the process without it, and say nothing to our allocator.
const LEAST_OF_LIBC_MIB: usize = 1;

/// Ends a process that has not the memory to start, with exit code 75.
///
/// Between the first thread and the last the system's libraries meet a refusal with an abort or a segmentation fault. Call
/// it first: it allocates nothing.
pub fn require_memory_to_start() {
    if !would_give(LEAST_MIB) {
        let hint = "raise the limit of memory (`ulimit -v`, `ulimit -d`)";
        say(format_args!("oomph needs {LEAST_MIB} MiB to start, and the system leaves it less"), hint);
        low_level::exit(Exit::OutOfMemory as i32);
    }
}

/// Whether the system would give this process that much memory now. A handler of signals may ask.
fn would_give(mib: usize) -> bool {
    let bytes = mib << 20;
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the system chooses the place; nothing refers to the mapping when it is removed.
    unsafe {
        let start = libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0);
        start != libc::MAP_FAILED && libc::munmap(start, bytes) == 0
    }
}

/// Rust and the system's libraries abort a process that cannot do without an allocation. From now on such a process says
/// why, and ends with exit code 75. Other aborts stay.
pub fn explain_aborts() {
    let hint = if has_process_limit() {
        "raise the limit of memory (`ulimit -v`, `ulimit -d`), or lower `train.batch`"
    } else {
        "`oomph monitor` shows which process holds memory; lower `train.batch`"
    };
    // SAFETY: the action reads atomics, asks the system for memory, formats numbers into a buffer of its own, writes and
    // ends the process: a handler of signals may do all of it.
    // It can only be refused for signals that no process may handle.
    drop(unsafe { low_level::register(SIGABRT, move || end(hint)) });
}

fn end(hint: &str) {
    if let Some(bytes) = refused_bytes() {
        say(format_args!("the system refused an allocation of {bytes} bytes"), hint);
    } else if !would_give(LEAST_OF_LIBC_MIB) {
        say(format_args!("the system refused one of its own libraries {LEAST_OF_LIBC_MIB} MiB"), hint);
    } else {
        let _ = low_level::emulate_default_handler(SIGABRT);
        return;
    }
    low_level::exit(Exit::OutOfMemory as i32);
}

/// Writes the error to standard error. It allocates nothing.
fn say(what: fmt::Arguments<'_>, hint: &str) {
    let mut text = [0; 512];
    let mut rest = &mut text[..];
    let _ = write!(rest, "error: out of memory: {what}\n\nhint: {hint}\n");
    let unused = rest.len();
    // SAFETY: the buffer has that many bytes.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len() - unused) };
}
