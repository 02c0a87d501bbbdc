use std::{io, sync::Arc, thread};

use oomph_memory::processes::Procfs;
use signal_hook::{
    consts::{SIGINT, SIGTERM, SIGUSR1},
    flag,
    iterator::Signals,
};

pub use signal_hook::consts::SIGHUP;
pub(super) use signal_hook::consts::SIGUSR2;

/// Turns the signal of the limit of file sizes (`ulimit -f`) into an error of the write. Without a handler it ends the
/// process, and leaves incomplete files.
pub fn survive_file_limit() {
    // A handler that does nothing. It can only be refused for signals that no process may handle.
    let _ = flag::register(libc::SIGXFSZ, Arc::default());
}

/// The signals that a training handles.
pub(super) fn of_training() -> Vec<i32> {
    let mut signals = vec![SIGINT, SIGTERM, SIGUSR1, SIGUSR2];
    if !Procfs::system().ignores(SIGHUP) {
        signals.push(SIGHUP);
    }
    signals
}

pub(super) fn handle(signals: &[i32], handle: impl FnMut(i32) + Send + 'static) -> io::Result<()> {
    let mut signals = Signals::new(signals)?;
    let listen = move || signals.forever().for_each(handle);
    thread::Builder::new().name("oomph-signals".into()).spawn(listen).map(drop)
}
