use std::path::PathBuf;

use burn::tensor::Device;
use oomph_config::{DeviceName, Interval, Sharing};
use oomph_core::{Bytes, Phase, Split, current_device, phase};
use oomph_data::Loader;
use oomph_memory::{
    Account, charge, is_installed, read_device,
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
    parallel::{Order, train_on_replicas},
    profile::Batches,
    state::model_record,
    train::tell_where_to_start,
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
    /// The most that was in use, of several devices on the one that had most; on a GPU the most that was seen between
    /// steps, of several on the first. `None` where nobody counts.
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
/// What a process did before stays with it, so each rehearsal is one of its own. On several devices all of them do as in
/// a training.
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
    let rehearsed = match session.config.device.sharing {
        Sharing::Ddp(_) if session.config.device.devices.len() > 1 => {
            train_on_replicas(session, &Stop::new(), None, |session| lead(session, options, observer))?
        }
        _ => lead(session, options, observer)?,
    };
    // Once all ranks have ended.
    rehearsed.ok_or(MeasureError::NoSteps)?.result(session)
}

/// Rehearses on one device, on those of a cut model, or as the first of several replicas; `None` where there is nothing
/// to train on.
fn lead(
    session: &Session,
    options: &RehearseOptions,
    observer: &mut dyn Observer,
) -> Result<Option<Rehearsed>, TrainError> {
    let mut log = options.report.as_ref().and_then(|_| MemoryLog::start(session));
    tell_where_to_start(session, None, options.report.as_deref())?;
    let mut rehearsed = Rehearsed::default();
    match device_failure::caught(|| rehearsed.run(session, options, log.as_mut(), observer)) {
        Ok(has_steps) => Ok(has_steps.then_some(rehearsed)),
        Err(error) => Err(error.with_explained(|mut error, device| {
            error.at_step(rehearsed.steps + usize::from(!error.is_behind_step()));
            if options.report.is_some() {
                let known = Circumstances {
                    subject: Subject::Training,
                    device,
                    seen: log.as_ref().and_then(|log| log.seen_on(current_device() + device, &error)),
                    reserved_bytes: rehearsed.pools.map(|pools| pools.reserved_bytes),
                    run: None,
                    directory: options.report.clone(),
                };
                explain(session, &mut error, known);
            }
            error
        })),
    }
}

/// Batches of an evaluation that tell what it needs.
const SOME_BATCHES: usize = 2;

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
    /// Whether there was a step.
    fn run(
        &mut self,
        session: &Session,
        options: &RehearseOptions,
        log: Option<&mut MemoryLog>,
        observer: &mut dyn Observer,
    ) -> Result<bool, TrainError> {
        let replicas = &session.replicas;
        let mut stepper = charge(Account::Device, || Stepper::new(session))?;
        if let Some(log) = log {
            log.follow(&mut stepper);
        }
        let mut batches = Batches::new(session);
        for _ in 0..options.steps {
            let Some(batch) = batches.next()? else { break };
            let done = self.step(session, &mut stepper, (batch, Order::Step), observer)?;
            self.done.push(done);
            self.levels.push(in_use(session));
        }
        if self.done.is_empty() {
            return Ok(false);
        }
        if let Some(rest) = last_batch(session)? {
            self.step(session, &mut stepper, (rest, Order::LastBatch), observer)?;
        }
        if session.config.train.eval_every != Interval::Never {
            replicas.glance(SOME_BATCHES)?;
            replicas.share_statistics(&mut stepper.model)?;
            evaluate_batches(session, stepper.lying(), SOME_BATCHES, observer, &Stop::new())?;
            if let Some(batch) = batches.next()? {
                self.step(session, &mut stepper, (batch, Order::Step), observer)?;
            }
        }
        read_state(&stepper, &session.device)?;
        replicas.order(Order::End)?;
        Ok(true)
    }

    fn step(
        &mut self,
        session: &Session,
        stepper: &mut Stepper,
        (batch, order): (oomph_data::Batch, Order),
        observer: &mut dyn Observer,
    ) -> Result<Done, TrainError> {
        session.replicas.order(order)?;
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
        // Of the device that is fullest. Of GPUs nobody tells but the first.
        let devices = &session.config.device.devices;
        let cpus = (0..devices.len()).filter(|device| devices[*device] == DeviceName::Cpu);
        let peak = cpus.map(|device| read_device(device).peak_in_use_bytes).max().filter(|_| is_installed());
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

/// What is in use on the devices that this rank trains on.
fn in_use(session: &Session) -> u64 {
    let first = current_device();
    let devices = first..first + session.config.device.devices.len();
    devices.map(|device| read_device(device).in_use_bytes.get()).sum()
}

/// The last batch of an epoch, where that is smaller and not dropped.
pub(crate) fn last_batch(session: &Session) -> Result<Option<oomph_data::Batch>, TrainError> {
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
