use std::{
    io::{self, BufRead, Read},
    thread,
    time::Instant,
};

use oomph_advice::planning::planned_sum;
use oomph_config::{Config, ConfigFile, DeviceName, Sources};
use oomph_memory::default_limit;
use oomph_runs::{Event, Observer, Tick};
use oomph_trainer::{
    Registry, Session,
    device::compiled_kernels,
    measure::{RehearseOptions, measure, plan_step, rehearse},
    open,
};

use super::{
    message::{Measured, Message, Planned, Request, Work},
    profiled::Profiled,
};
use crate::{error::CliError, exit::Exit, output};

/// Runs the hidden command: reads the parent's request from stdin, works on it, and prints the results.
pub fn run(registry: &Registry) -> Result<Exit, CliError> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(CliError::Request)?;
    let request: Request = serde_json::from_str(&line).map_err(|error| CliError::Request(error.into()))?;
    end_with_parent()?;
    let file = ConfigFile::from_text(request.name, request.config);
    let begun = Instant::now();
    let session = open(Config::load(&Sources::new(file))?, registry)?;
    let open_seconds = begun.elapsed().as_secs_f64();
    let planned = Planned::new(&session, &plan_step(&session)?);
    output::print_json(&Message::Planned(planned.clone()))?;
    check_machine(&session, &planned)?;
    let mut observer = Steps::default();
    let answer = match request.work {
        Work::Measure { steps } => {
            let measurement = measure(&session, steps, &mut observer)?;
            let compiled_kernels = observer.compiled_kernels.unwrap_or_default();
            Message::Measured(Measured::new(&measurement, open_seconds, compiled_kernels))
        }
        Work::Profile { warmup, steps } => {
            Message::Profiled(Profiled::of(&session, warmup, steps, &mut observer)?)
        }
        Work::Rehearse { steps, report } => {
            let rehearsal = rehearse(&session, &RehearseOptions { steps, report }, &mut observer)?;
            Message::Rehearsed(rehearsal)
        }
    };
    output::print_json(&answer)?;
    Ok(Exit::Success)
}

/// Refuses a plan that exceeds the memory of this machine.
///
/// Exceeding the configured limit fails only this child. Exceeding the machine's memory would hurt all its processes.
fn check_machine(session: &Session, planned: &Planned) -> Result<(), CliError> {
    let devices = &session.config.device.devices;
    if devices[0] != DeviceName::Cpu {
        return Ok(());
    }
    let planned_peak_bytes = match devices.len() {
        1 => planned.peak_bytes(),
        _ => planned_sum(session)?,
    };
    match default_limit() {
        Some(limit) if planned_peak_bytes > limit.bytes + limit.reserve_bytes => {
            Err(CliError::DoesNotFit { planned_peak_bytes, limit_bytes: limit.bytes + limit.reserve_bytes })
        }
        _ => Ok(()),
    }
}

/// Exits this process once stdin closes, which the parent keeps open.
fn end_with_parent() -> Result<(), CliError> {
    let watch = || {
        let mut rest = [0; 64];
        while let Ok(1..) = io::stdin().lock().read(&mut rest) {}
        std::process::exit(Exit::Failure as i32);
    };
    let spawned = thread::Builder::new().name("oomph-parent".into()).spawn(watch);
    spawned.map(drop).map_err(CliError::Request)
}

/// Prints a message for every step.
#[derive(Default)]
struct Steps {
    /// GPU kernels that were compiled up to the end of the first step.
    compiled_kernels: Option<u64>,
}

impl Observer for Steps {
    fn event(&mut self, _event: &Event) {}

    fn tick(&mut self, tick: Tick) {
        if let Tick::Step { step } = tick {
            self.compiled_kernels.get_or_insert_with(compiled_kernels);
            // If the parent is gone, this process exits soon.
            let _ = output::print_json(&Message::Step { step });
        }
    }
}
