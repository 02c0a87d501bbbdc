use std::path::PathBuf;

use burn::tensor::Device;
use oomph_advice::{check_training, out_of_memory::OomContext};
use oomph_config::Interval;
use oomph_core::{Bytes, Phase, current_device, phase};
use oomph_data::Batch;
use oomph_engine::{device_failure, exhausted, record::model_record, session::Session, step::Stepper};
use oomph_memory::{Account, charge, read_device, restart_peak};
use oomph_runs::{Observer, Tick};
use serde::{Deserialize, Serialize};

use super::{
    MeasureError,
    devices::{on_all_devices, peak_of_fullest},
    speed::{Speed, TimedStep, WARMUP},
};
use crate::{
    PoolReading, Stop, TrainError,
    batches::{Batches, last_batch},
    driver::Driver,
    fit::fitted,
    memory_log::MemoryLog,
    open::new_stepper,
    ranks::{RankCommand, broadcast_start, command},
};

/// How a training is rehearsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RehearseOptions {
    /// Steps on whole batches. The first makes the optimizer state, the second begins with it.
    pub steps: usize,
    /// Directory of the out-of-memory report. Without it, none is written.
    pub report: Option<PathBuf>,
}

/// The measured needs of a rehearsal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rehearsal {
    /// The peak in use, on the fullest of several devices. On GPUs it is the highest reading between steps, of the first
    /// GPU. `None` without the meter.
    pub peak_in_use_bytes: Option<Bytes>,
    /// The least growth of the bytes in use from step to step. A long training runs out of memory by it.
    pub growth_bytes: Bytes,
    /// Reserved bytes of the GPU at the end.
    pub reserved_bytes: Option<Bytes>,
    /// The median step time after the warm-up.
    pub step_seconds: f64,
    /// Samples trained on per second.
    pub samples_per_second: f64,
}

/// Does the parts of a training with the highest memory use:
///
/// 1. the first steps, the first of them without optimizer state;
/// 2. the smaller last batch of an epoch;
/// 3. an evaluation, if the training evaluates, and a step after it;
/// 4. reading the state for a checkpoint.
///
/// All samples of a run have one size, so any whole batch is the largest. Nothing is saved. All devices take part.
///
/// The backend's buffers outlive a rehearsal, so each rehearsal runs in its own process.
///
/// # Errors
/// Where training fails or memory runs out, and where no sample can be read.
pub fn rehearse(
    session: &Session,
    options: &RehearseOptions,
    observer: &mut dyn Observer,
) -> Result<Rehearsal, MeasureError> {
    let session = &*fitted(session)?;
    check_training(session).map_err(TrainError::from)?;
    restart_peak();
    let rehearsed = on_all_devices(session, |session| lead(session, options, observer))?;
    // All ranks have ended.
    rehearsed.ok_or(MeasureError::NoSteps)?.result(session)
}

/// Rehearses on one device, on the devices of a split model, or as rank 0. `None` where no sample can be read.
fn lead(
    session: &Session,
    options: &RehearseOptions,
    observer: &mut dyn Observer,
) -> Result<Option<Rehearsed>, TrainError> {
    let mut log = options.report.as_ref().and_then(|_| MemoryLog::start(session));
    broadcast_start(session, None, options.report.as_deref())?;
    let mut rehearsed = Rehearsed::default();
    let devices = &session.config.device.devices;
    let work = || rehearsed.run(session, options, log.as_mut(), observer);
    match device_failure::on(devices, || device_failure::caught(work)) {
        Ok(has_steps) => Ok(has_steps.then_some(rehearsed)),
        Err(error) => Err(error.explained(session, |error, device| {
            error.exhausted.at_step(rehearsed.steps + usize::from(!error.is_behind_step()));
            let directory = Some(options.report.clone()?);
            let seen = log.as_ref().and_then(|log| log.seen_on(current_device() + device, error));
            let reserved_bytes = rehearsed.pools.map(|pools| pools.reserved_bytes);
            Some(OomContext { device, seen, reserved_bytes, directory, ..OomContext::default() })
        })),
    }
}

/// Evaluation batches that show the needs of an evaluation.
const SOME_BATCHES: usize = 2;

#[derive(Default)]
struct Rehearsed {
    /// Steps on whole batches.
    done: Vec<TimedStep>,
    /// All steps.
    steps: usize,
    /// Bytes in use after each step on a whole batch.
    levels: Vec<u64>,
    /// The reading with the most bytes in use.
    pools: Option<PoolReading>,
}

impl Rehearsed {
    /// Whether any step was done.
    fn run(
        &mut self,
        session: &Session,
        options: &RehearseOptions,
        log: Option<&mut MemoryLog>,
        observer: &mut dyn Observer,
    ) -> Result<bool, TrainError> {
        let (mut stepper, _) = charge(Account::Device, || new_stepper(session))?;
        if let Some(log) = log {
            log.follow(&mut stepper);
        }
        let mut driver = Driver::leading(session, stepper, 0);
        let mut batches = Batches::new(session);
        for _ in 0..options.steps {
            let Some(batch) = batches.next()? else { break };
            let done = self.step(session, &mut driver, batch, false, observer)?;
            self.done.push(done);
            // On the devices of this rank.
            let devices = current_device()..current_device() + session.config.device.devices.len();
            self.levels.push(devices.map(|device| read_device(device).in_use_bytes.get()).sum());
        }
        if self.done.is_empty() {
            return Ok(false);
        }
        if let Some(rest) = last_batch(session)? {
            self.step(session, &mut driver, rest, true, observer)?;
        }
        if session.config.train.eval_every != Interval::Never {
            driver.evaluate(SOME_BATCHES, observer, None, &Stop::new())?;
            if let Some(batch) = batches.next()? {
                self.step(session, &mut driver, batch, false, observer)?;
            }
        }
        read_state(&driver.stepper, &session.device)?;
        command(&session.replicas, RankCommand::End)?;
        Ok(true)
    }

    fn step(
        &mut self,
        session: &Session,
        driver: &mut Driver<'_>,
        batch: Batch,
        is_last: bool,
        observer: &mut dyn Observer,
    ) -> Result<TimedStep, TrainError> {
        let lr = driver.next_lr();
        let rank_command =
            if is_last { RankCommand::LastBatch } else { RankCommand::Step { lr: lr.into(), norms: false } };
        let done = TimedStep::end(driver.step_at(lr, batch, rank_command)?)?;
        self.steps += 1;
        let seen = PoolReading::of(&session.device);
        self.pools = self.pools.into_iter().chain(seen).max_by_key(|pools| pools.in_use_bytes);
        observer.tick(Tick::Step { step: self.steps });
        Ok(done)
    }

    fn result(&self, session: &Session) -> Result<Rehearsal, MeasureError> {
        let steady = self.levels.get(WARMUP - 1..).unwrap_or_default();
        let growth = steady.windows(2).map(|levels| levels[1].saturating_sub(levels[0])).min();
        let Speed { step_seconds, samples_per_second } = Speed::of(&self.done);
        Ok(Rehearsal {
            growth_bytes: Bytes::new(growth.unwrap_or(0)),
            // Only the first GPU is read.
            peak_in_use_bytes: peak_of_fullest(session).or_else(|| Some(self.pools?.in_use_bytes)),
            reserved_bytes: PoolReading::of(&session.device).map(|pools| pools.reserved_bytes),
            step_seconds,
            samples_per_second,
        })
    }
}

/// Reads the state as a checkpoint does.
fn read_state(stepper: &Stepper, device: &Device) -> Result<(), TrainError> {
    let _phase = phase(Phase::Checkpoint);
    charge(Account::Host, || -> Result<(), TrainError> {
        drop(model_record(&stepper.model)?);
        drop(stepper.optimizer.record()?);
        Ok(())
    })?;
    exhausted::check()?;
    Ok(device_failure::settle(device)?)
}
