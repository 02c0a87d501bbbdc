use std::{io, thread};

use oomph_trainer::{Stop, StopReason};
use signal_hook::{
    consts::{SIGINT, SIGTERM, SIGUSR1, SIGUSR2},
    iterator::Signals,
    low_level,
};

use crate::{echo, error::CliError, exit::Exit, notices::Notices};

/// Handles signals from now on.
///
/// SIGINT and SIGTERM stop the training after the current step; a second one exits at once. SIGUSR1 saves a checkpoint,
/// and SIGUSR2 writes the memory timeline; the training continues.
pub(crate) fn listen(stop: &Stop, notices: Option<Notices>) -> Result<(), CliError> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGUSR1, SIGUSR2]).map_err(CliError::Signals)?;
    let stop = stop.clone();
    let listen = move || {
        let say = |text: &str| notices.iter().for_each(|notices| notices.line(text));
        for signal in signals.forever() {
            let (reason, exit) = match signal {
                SIGINT => (StopReason::Interrupt, Exit::Interrupted),
                SIGTERM => (StopReason::Terminate, Exit::Terminated),
                SIGUSR2 => {
                    stop.request_timeline();
                    continue;
                }
                _ => {
                    stop.request_save();
                    continue;
                }
            };
            if stop.reason().is_some() {
                echo::restore();
                low_level::exit(exit as i32);
            }
            say("stopping after this step; a second signal stops at once");
            stop.request(reason);
        }
    };
    let spawned: io::Result<_> = thread::Builder::new().name("oomph-signals".into()).spawn(listen);
    spawned.map(drop).map_err(CliError::Signals)
}
