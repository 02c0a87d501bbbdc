use std::path::PathBuf;

use burn::tensor::Device;
use oomph_config::{DeviceName, Interval};
use oomph_core::{Bytes, Phase, Split, phase};
use oomph_data::Loader;
use oomph_memory::{
    Account, charge, is_installed, read,
    record::{self, StepKind},
    restart_peak,
};
use serde::{Deserialize, Serialize};

use super::{Done, MeasureError, MeasureOptions, speed, train};
use crate::{
    Observer, PoolReading, Session, Stepper, Stop, Tick, TrainError, device_failure,
    evaluate::evaluate_batches,
    memory_log::MemoryLog,
    out_of_memory::{self, Circumstances, Subject, explain},
    profile::Batches,
    state::model_record,
};

/// How a training is rehearsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RehearseOptions {
    /// Whole steps. The first makes the optimizer's state, the second has it from the start.
    pub steps: usize,
    /// Where a report of what runs out of memory is written; without, there is none.
    pub report: Option<PathBuf>,
}

/// What a rehearsal needed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rehearsal {
    /// The most that was in use; on a GPU the most that was seen between steps. `None` where nobody counts.
    pub peak_in_use_bytes: Option<Bytes>,
    /// What each step leaves behind: by how much more is in use after it, at the least. A training of many steps will run
    /// out of memory by it.
    pub growth_bytes: Bytes,
    /// What a GPU's allocator held in the end.
    pub reserved_bytes: Option<Bytes>,
    /// How long a step takes: the median behind the first ones.
    pub step_seconds: f64,
    /// Samples that are trained on in a second.
    pub samples_per_second: f64,
}

/// Goes through the moments of a training at which most is in use, each as training does it: the first steps, one of
/// which makes the optimizer's state; the smaller last batch of an epoch; an evaluation, where there is one; a step
/// behind it; reading the state for a checkpoint. All batches of a run have samples of the same size, so that any
/// whole batch is the largest. Nothing is saved.
///
/// What a process did before stays with it, so each rehearsal is one of its own.
///
/// # Errors
/// Training's own, running out of memory among them, and where there is nothing to train on.
pub fn rehearse(
    session: &Session,
    options: &RehearseOptions,
    observer: &mut dyn Observer,
) -> Result<Rehearsal, MeasureError> {
    session.check_training().map_err(TrainError::from)?;
    restart_peak();
    let mut log = options.report.as_ref().and_then(|_| MemoryLog::start(session));
    let mut rehearsed = Rehearsed::default();
    match device_failure::caught(|| rehearsed.run(session, options, log.as_mut(), observer)) {
        Ok(()) => rehearsed.result(session),
        Err(MeasureError::Train(TrainError::OutOfMemory(mut error))) => {
            error.at_step(rehearsed.steps + usize::from(!error.is_behind_step()));
            if options.report.is_some() {
                let seen = log.as_ref().and_then(|log| log.seen(&error));
                let reserved_bytes = rehearsed.pools.map(|pools| pools.reserved_bytes);
                explain(
                    session,
                    &mut error,
                    Circumstances {
                        subject: Subject::Training,
                        seen,
                        reserved_bytes,
                        run: None,
                        directory: options.report.clone(),
                    },
                );
            }
            Err(TrainError::OutOfMemory(error).into())
        }
        Err(error) => Err(error),
    }
}

/// What was done so far.
#[derive(Default)]
struct Rehearsed {
    /// Of whole batches.
    done: Vec<Done>,
    /// All that were done.
    steps: usize,
    /// What was in use behind each whole step.
    levels: Vec<u64>,
    /// With the most in use that was seen.
    pools: Option<PoolReading>,
}

impl Rehearsed {
    fn run(
        &mut self,
        session: &Session,
        options: &RehearseOptions,
        log: Option<&mut MemoryLog>,
        observer: &mut dyn Observer,
    ) -> Result<(), MeasureError> {
        let mut stepper = charge(Account::Device, || Stepper::new(session))?;
        if let Some(log) = log {
            log.follow(&mut stepper);
        }
        let mut batches = Batches::new(session);
        for _ in 0..options.steps {
            let Some(batch) = batches.next()? else { break };
            let done = self.step(session, &mut stepper, batch, observer)?;
            self.done.push(done);
            self.levels.push(read().in_use_bytes.get());
        }
        if self.done.is_empty() {
            return Err(MeasureError::NoSteps);
        }
        if let Some(rest) = last_batch(session)? {
            self.step(session, &mut stepper, rest, observer)?;
        }
        if session.config.train.eval_every != Interval::Never {
            evaluate_batches(session, stepper.lying(), 2, observer, &Stop::new())?;
            if let Some(batch) = batches.next()? {
                self.step(session, &mut stepper, batch, observer)?;
            }
        }
        Ok(read_state(&stepper, &session.device)?)
    }

    fn step(
        &mut self,
        session: &Session,
        stepper: &mut Stepper,
        batch: oomph_data::Batch,
        observer: &mut dyn Observer,
    ) -> Result<Done, TrainError> {
        let lr = session.schedule().lr(self.steps);
        record::mark_step(self.steps as u64 + 1, StepKind::Train);
        let done = train(session, stepper, batch, self.steps, lr)?;
        self.steps += 1;
        let seen = PoolReading::of(&session.device);
        self.pools = self.pools.into_iter().chain(seen).max_by_key(|pools| pools.in_use_bytes);
        observer.tick(Tick::Step { step: self.steps });
        Ok(done)
    }

    fn result(&self, session: &Session) -> Result<Rehearsal, MeasureError> {
        let is_cpu = session.config.device.devices[0] == DeviceName::Cpu;
        let peak = (is_cpu && is_installed()).then(|| read().peak_in_use_bytes);
        let steady = self.levels.get(MeasureOptions::WARMUP - 1..).unwrap_or_default();
        let growth = steady.windows(2).map(|levels| levels[1].saturating_sub(levels[0])).min();
        let (step_seconds, samples_per_second) =
            speed(self.done.iter().map(|step| (step.samples, step.seconds)));
        Ok(Rehearsal {
            growth_bytes: Bytes::new(growth.unwrap_or(0)),
            peak_in_use_bytes: peak.or_else(|| Some(self.pools?.in_use_bytes)),
            reserved_bytes: PoolReading::of(&session.device).map(|pools| pools.reserved_bytes),
            step_seconds,
            samples_per_second,
        })
    }
}

/// The last batch of an epoch, where that is smaller and not dropped.
fn last_batch(session: &Session) -> Result<Option<oomph_data::Batch>, TrainError> {
    let order = session.train_order();
    let last = order.batches().saturating_sub(1);
    if last == 0 || order.len().is_multiple_of(session.config.train.batch) {
        return Ok(None);
    }
    charge(Account::Host, || {
        let (source, seed) = (session.source.clone(), session.config.train.seed);
        let mut loader = Loader::start(source, Split::Train, order, 0, last, Some(seed), &session.loader);
        Ok(loader.next().transpose()?)
    })
}

/// Reads the state as a checkpoint does.
fn read_state(stepper: &Stepper, device: &Device) -> Result<(), TrainError> {
    let _phase = phase(Phase::Checkpoint);
    charge(Account::Host, || -> Result<(), TrainError> {
        drop(model_record(&stepper.model)?);
        drop(stepper.optimizer.record()?);
        Ok(())
    })?;
    out_of_memory::check()?;
    device_failure::settle(device)
}
