//! The end of a process that the system refused memory.

use std::io::Write as _;

use oomph_memory::{has_process_limit, refused_bytes};
use signal_hook::{consts::SIGABRT, low_level};

use crate::exit::Exit;

/// Rust aborts a process that cannot do without an allocation. From now on such a process says why, and ends with exit code
/// 75. Other aborts stay.
pub fn explain_aborts() {
    let hint = if has_process_limit() {
        "raise the limit of memory (`ulimit -v`, `ulimit -d`), or lower `train.batch`"
    } else {
        "`oomph monitor` shows which process holds memory; lower `train.batch`"
    };
    // SAFETY: the action reads atomics, formats numbers into a buffer of its own, writes and ends the process: a handler of
    // signals may do all of it.
    // It can only be refused for signals that no process may handle.
    drop(unsafe { low_level::register(SIGABRT, move || end(hint)) });
}

fn end(hint: &str) {
    let Some(bytes) = refused_bytes() else {
        let _ = low_level::emulate_default_handler(SIGABRT);
        return;
    };
    let mut text = [0; 512];
    let mut rest = &mut text[..];
    let _ = write!(
        rest,
        "error: out of memory: the system refused an allocation of {bytes} bytes\n\nhint: {hint}\n"
    );
    let unused = rest.len();
    // SAFETY: the buffer has that many bytes.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len() - unused) };
    low_level::exit(Exit::OutOfMemory as i32);
}
