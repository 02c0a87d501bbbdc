//! Signals from users and other programs, each handled in a thread and not in a signal handler.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use oomph_trainer::{Stop, StopReason};
pub use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level;
#[cfg(unix)]
use unix as own;
#[cfg(windows)]
use windows as own;

pub use own::{SIGHUP, survive_file_limit};
use own::{SIGUSR2, of_training};

use crate::{echo, error::CliError, exit::Exit, notices::Notices};

/// Calls `handle` with each of these signals from now on, in a thread of its own.
pub fn handle(signals: &[i32], handle: impl FnMut(i32) + Send + 'static) -> Result<(), CliError> {
    own::handle(signals, handle).map_err(CliError::Signals)
}

/// Handles the signals of a training from now on.
///
/// SIGINT and SIGTERM stop the training after the current step; a second one exits at once. SIGHUP stops it too, unless
/// `nohup` ignores it: its terminal went away. SIGUSR1 saves a checkpoint, and SIGUSR2 writes the memory timeline; the
/// training continues. Windows has the first two.
pub fn listen(stop: &Stop, notices: Option<Notices>) -> Result<(), CliError> {
    let stop = stop.clone();
    handle(&of_training(), move |signal| {
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
