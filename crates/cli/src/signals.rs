use std::{io, thread};

use oomph_trainer::{Stop, StopReason};
use signal_hook::{
    consts::{SIGINT, SIGTERM, SIGUSR1, SIGUSR2},
    iterator::Signals,
    low_level,
};

use crate::{echo, error::CliError, exit::Exit, notices::Notices};

/// From now on SIGINT and SIGTERM end the training after its step, SIGUSR1 saves and goes on, SIGUSR2
/// writes the timeline of the memory and goes on. A second SIGINT or
/// SIGTERM ends the process at once.
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
            say("stopping after this step; once more stops at once");
            stop.request(reason);
        }
    };
    let spawned: io::Result<_> = thread::Builder::new().name("oomph-signals".into()).spawn(listen);
    spawned.map(drop).map_err(CliError::Signals)
}
