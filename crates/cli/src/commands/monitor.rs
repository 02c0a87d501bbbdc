//! `oomph monitor`: who holds which memory, now and then again.

mod interval;
mod processors;
mod report;
mod sample;
mod screen;

use std::{
    io,
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::Duration,
};

use clap::Args;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

use self::{interval::interval, report::report, sample::Sampler, screen::Screen};
use crate::{error::CliError, exit::Exit, notices::Notices, output};

#[derive(Args, Debug)]
#[command(after_help = "\
A process is stale where it holds memory of a GPU, has run no kernel for a minute, and its parent is
gone: what a crashed launcher leaves behind. It is named with the command that ends it, never ended.

Ctrl-C ends the watching.

Examples:
  oomph monitor
  oomph monitor --once
  oomph monitor --json --interval 10s >memory.jsonl")]
pub(crate) struct MonitorArguments {
    /// One sample, then end
    #[arg(long, conflicts_with = "interval")]
    once: bool,
    /// Time between two samples: 100ms to 1h
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    interval: Duration,
    /// One JSON object a sample, on a line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &MonitorArguments) -> Result<Exit, CliError> {
    let signals = signals()?;
    let mut sampler = Sampler::open();
    // On a terminal only: what is printed one after the other is for files and pipes.
    let mut screen = if arguments.json || arguments.once { None } else { Screen::open() };
    let mut told = None;
    loop {
        let sample = sampler.sample();
        if arguments.json {
            output::print_json(&sample)?;
        } else {
            if sample.no_gpu != told {
                screen.iter_mut().try_for_each(Screen::clear)?;
                tell(&sampler);
                told.clone_from(&sample.no_gpu);
            }
            match &mut screen {
                Some(screen) => screen.draw(&report(&sample))?,
                None => output::print(&between(&report(&sample), arguments.once))?,
            }
        }
        if arguments.once {
            return Ok(Exit::Success);
        }
        match signals.recv_timeout(arguments.interval) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(exit) => return Ok(exit),
            // The thread that listens ends with the process.
            Err(RecvTimeoutError::Disconnected) => return Ok(Exit::Success),
        }
    }
}

/// One of several reports ends in an empty line.
fn between(report: &str, once: bool) -> String {
    if once { report.to_owned() } else { format!("{report}\n") }
}

/// Why there is no GPU, as `oomph devices` says it.
fn tell(sampler: &Sampler) {
    let Some(reason) = sampler.no_gpu() else { return };
    let notices = Notices::default();
    notices.note(format!("no GPU: NVML: {reason}"));
    if let Some(hint) = reason.hint() {
        notices.line(format!("      {hint}"));
    }
}

/// How to end once SIGINT or SIGTERM comes. The first is how one leaves a monitor: no error.
fn signals() -> Result<Receiver<Exit>, CliError> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(CliError::Signals)?;
    let (sender, receiver) = channel();
    let listen = move || {
        for signal in signals.forever() {
            let exit = if signal == SIGINT { Exit::Success } else { Exit::Terminated };
            // Where nobody receives, the command has ended.
            let _ = sender.send(exit);
        }
    };
    let spawned: io::Result<_> = thread::Builder::new().name("oomph-signals".into()).spawn(listen);
    spawned.map(|_| receiver).map_err(CliError::Signals)
}
