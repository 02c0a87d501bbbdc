//! This program, as a study needs it.

use std::{num::NonZeroUsize, process::Command};

use oomph_advice::{
    check_training,
    out_of_memory::adapt,
    planning::{PlanOptions, fits, planned_peak},
};
use oomph_config::{Config, DeviceName, Value};
use oomph_core::system::this_program;
use oomph_engine::session::backend;
use oomph_trainer::{
    Registry, Session, SessionError, TrainError, default_limit, device::free_bytes, open_to_plan,
};
use oomph_tuner::{Bench, Fit, Refusal, TrialPlace};

/// Trials on a GPU at the same time: more of them share its time, and each has a context of its own.
const MOST_ON_GPU: usize = 4;

/// This program, whose trainings a study runs.
#[derive(Debug)]
pub struct Program<'a> {
    /// Its models, data sources and tasks.
    pub registry: &'a Registry,
    /// Its command that trains a trial: it reads a [`Request`](oomph_tuner::Request) from stdin.
    pub command: &'static str,
}

impl Bench for Program<'_> {
    fn check(&self, config: &Config) -> Result<(), Refusal> {
        self.registry.read(config).map(drop).map_err(Refusal::from)
    }

    fn plan(&self, config: &Config, may_adapt: bool) -> Result<Fit, Refusal> {
        let session = self.session(config)?;
        check_training(&session).map_err(refusal)?;
        let planned = |session: &Session| planned_peak(session, PlanOptions::default()).map_err(refusal);
        let peak_bytes = planned(&session)?;
        let Some(limit_bytes) = session.limit_bytes else { return Ok(Fit::Fits { peak_bytes }) };
        if fits(peak_bytes, limit_bytes, backend(&session)) {
            return Ok(Fit::Fits { peak_bytes });
        }
        let adapted = if may_adapt { adapt(&session).map_err(refusal)? } else { None };
        Ok(match adapted {
            Some(adapted) => Fit::Adapted {
                peak_bytes: planned(&adapted.session)?,
                settings: adapted
                    .advice
                    .settings
                    .iter()
                    .map(|(key, value)| (key.clone(), Value::of_text(value)))
                    .collect(),
            },
            None => Fit::TooLarge { peak_bytes, limit_bytes },
        })
    }

    fn command(&self) -> Command {
        // Not the path of the program: its file may have been replaced since the start.
        let mut command = Command::new(this_program());
        command.arg(self.command);
        command
    }
}

impl Program<'_> {
    /// The session to plan, with the limits of its devices.
    fn session(&self, config: &Config) -> Result<Session, Refusal> {
        let session = open_to_plan(config.clone(), self.registry).map_err(refusal)?;
        let gpus = config.device.devices.iter().filter(|device| **device != DeviceName::Cpu);
        let limits: Option<Vec<_>> = gpus.map(|gpu| free_bytes(*gpu)).collect();
        Ok(match limits {
            Some(limits) if !limits.is_empty() => session.with_limits(limits),
            _ => session,
        })
    }
}

fn refusal(error: impl Into<TrainError>) -> Refusal {
    let error: TrainError = error.into();
    Refusal { message: error.to_string(), hint: error.hint() }
}

/// Where the trials of a configuration are trained: each device by itself, or all together where the configuration has a
/// strategy.
///
/// # Errors
/// A device is missing.
pub fn places(config: &Config) -> Result<Vec<TrialPlace>, SessionError> {
    let devices = &config.device.devices;
    for device in devices {
        oomph_trainer::device::find_device(*device).map_err(SessionError::from)?;
    }
    let is_together = devices.len() > 1
        && config
            .resolved()
            .iter()
            .any(|entry| entry.key == "device.strategy" && entry.origin != oomph_config::Origin::Default);
    let cores = oomph_memory::machine().cores;
    let cpus = devices.iter().filter(|device| **device == DeviceName::Cpu).count().max(1);
    let limit = |device: DeviceName| match device {
        DeviceName::Cpu => config.memory.limit.or_else(|| default_limit(config).map(|limit| limit.bytes)),
        gpu => free_bytes(gpu),
    };
    if is_together {
        let limits: Option<Vec<_>> = devices.iter().map(|device| limit(*device)).collect();
        let limit_bytes = limits.and_then(|limits| limits.into_iter().min());
        return Ok(vec![TrialPlace { devices: devices.clone(), limit_bytes, most: 1, threads: None }]);
    }
    let wanted = match config.tune.as_ref().map(|tune| tune.parallel) {
        Some(oomph_config::sections::tune::Parallel::Trials(trials)) => Some(trials.div_ceil(devices.len())),
        _ => None,
    };
    let place = |device: &DeviceName| {
        let of_cpu = NonZeroUsize::new(cores / cpus).map_or(1, NonZeroUsize::get);
        let most = wanted.unwrap_or(if *device == DeviceName::Cpu { of_cpu } else { MOST_ON_GPU });
        let threads =
            (*device == DeviceName::Cpu && config.device.threads.is_none()).then(|| (of_cpu / most).max(1));
        TrialPlace { devices: vec![*device], limit_bytes: limit(*device), most, threads }
    };
    let places: Vec<_> = devices.iter().map(place).collect();
    // Plans depend on the number of threads: this process plans with those of a trial. Threads that run already stay.
    let threads = places.iter().filter_map(|place| place.threads).min().and_then(NonZeroUsize::new);
    if threads.is_some() {
        let _ = oomph_memory::compute_threads(threads);
    }
    Ok(places)
}
