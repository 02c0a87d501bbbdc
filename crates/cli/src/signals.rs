use std::{sync::Arc, thread};

use oomph_memory::processes::Procfs;
use oomph_trainer::{Stop, StopReason};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2},
    flag,
    iterator::Signals,
    low_level,
};

use crate::{echo, error::CliError, exit::Exit, notices::Notices};

/// Turns the signal of the limit of file sizes (`ulimit -f`) into an error of the write. Without a handler it ends the
/// process, and leaves incomplete files.
pub(crate) fn survive_file_limit() {
    // A handler that does nothing. It can only be refused for signals that no process may handle.
    let _ = flag::register(libc::SIGXFSZ, Arc::default());
}

/// Calls `handle` with each of these signals from now on, in a thread of its own.
pub(crate) fn handle(signals: &[i32], handle: impl FnMut(i32) + Send + 'static) -> Result<(), CliError> {
    let mut signals = Signals::new(signals).map_err(CliError::Signals)?;
    let listen = move || signals.forever().for_each(handle);
    let spawned = thread::Builder::new().name("oomph-signals".into()).spawn(listen);
    spawned.map(drop).map_err(CliError::Signals)
}

/// Handles the signals of a training from now on.
///
/// SIGINT and SIGTERM stop the training after the current step; a second one exits at once. SIGHUP stops it too, unless
/// `nohup` ignores it: its terminal went away. SIGUSR1 saves a checkpoint, and SIGUSR2 writes the memory timeline; the
/// training continues.
pub(crate) fn listen(stop: &Stop, notices: Option<Notices>) -> Result<(), CliError> {
    let stop = stop.clone();
    let mut signals = vec![SIGINT, SIGTERM, SIGUSR1, SIGUSR2];
    if !Procfs::system().ignores(SIGHUP) {
        signals.push(SIGHUP);
    }
    handle(&signals, move |signal| {
        let (reason, exit) = match signal {
            SIGINT => (StopReason::Interrupt, Exit::Interrupted),
            SIGTERM => (StopReason::Terminate, Exit::Terminated),
            // A shell and its terminal may both send one, so a second one is no wish to stop at once.
            SIGHUP => return stop.request(StopReason::Terminate),
            SIGUSR2 => return stop.request_timeline(),
            _ => return stop.request_save(),
        };
        if stop.reason().is_some() {
            echo::restore();
            low_level::exit(exit as i32);
        }
        if let Some(notices) = &notices {
            notices.line("stopping after this step; press Ctrl-C again to stop without saving");
        }
        stop.request(reason);
    })
}
