use std::path::PathBuf;

use oomph_config::{Interval, Sharing};
use oomph_core::Bytes;
use oomph_memory::{Account, charge, read, record};
use oomph_timeline::Timeline;

use oomph_advice::out_of_memory::{OomContext, OutOfMemory, explain};
use oomph_engine::{exhausted, session::Session};
use oomph_runs::{Observer, Tick};

use crate::{
    Stop, TrainError,
    batches::Batches,
    driver::Driver,
    memory_log,
    open::new_stepper,
    ranks::{RankCommand, broadcast_start, command, train_on_ranks},
    tensor_log::TensorLog,
};

/// How much is profiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileOptions {
    /// Warm-up steps, left out of the profile: they make the optimizer state and the backend's lasting buffers.
    pub warmup: usize,
    /// Profiled steps.
    pub steps: usize,
    /// Evaluation batches after the steps, if the training evaluates.
    pub eval_batches: usize,
    /// Events kept, warm-up included. The newest are kept.
    pub capacity: usize,
    /// Directory of the out-of-memory report. Without it, none is written.
    pub report: Option<PathBuf>,
}

impl Default for ProfileOptions {
    /// Two warm-up steps, five profiled steps, two evaluation batches, and a million events (40 MiB).
    fn default() -> Self {
        Self { warmup: 2, steps: 5, eval_batches: 2, capacity: 1_000_000, report: None }
    }
}

pub(super) struct ProfileRun {
    /// One for each device, without the warm-up.
    pub(super) timelines: Vec<Timeline>,
    /// Warm-up steps.
    pub(super) warmup: usize,
    pub(super) step_seconds: Vec<f64>,
    pub(super) host_bytes: Bytes,
    pub(super) out_of_memory: Option<OutOfMemory>,
}

pub(super) fn measure(
    session: &Session,
    options: &ProfileOptions,
    observer: &mut dyn Observer,
) -> Result<ProfileRun, TrainError> {
    // The recording begins before the model is made, so the origin of the optimizer state is known.
    let recording = ProfileRecording::start(options.capacity);
    let log = TensorLog::default();
    let mut lead = |session: &Session| lead(session, options, observer, &recording, &log);
    if matches!(session.config.device.sharing, Sharing::Ddp(_)) {
        return train_on_ranks(session, &Stop::new(), Some(log.clone()), lead);
    }
    lead(session)
}

/// Profiles on one device, on the devices of a split model, or as rank 0.
fn lead(
    session: &Session,
    options: &ProfileOptions,
    observer: &mut dyn Observer,
    recording: &ProfileRecording,
    log: &TensorLog,
) -> Result<ProfileRun, TrainError> {
    let first = record::next_event();
    broadcast_start(session, None, None)?;
    let (mut stepper, _) = new_stepper(session)?;
    stepper.tell_parameters(&mut log.clone());
    stepper.watch(Some(Box::new(log.clone())));
    let mut driver = Driver::leading(session, stepper, 0);
    let mut seen = Seen::default();
    let ended = seen
        .train(session, options, recording, &mut driver, observer)
        .and_then(|()| evaluate(session, options.eval_batches, &mut driver, observer))
        // The recording is read when all ranks are idle.
        .and_then(|()| Ok(command(&session.replicas, RankCommand::Wait)?));
    let is_over = ended.is_ok();
    let mut out_of_memory = match ended {
        Ok(()) => None,
        Err(TrainError::OutOfMemory(error)) => Some(*error),
        Err(error) => return Err(error),
    };
    let recorded = record::dump_devices(0);
    record::stop();
    let timelines = charge(Account::Host, || {
        let notes = memory_log::notes(session, driver.stepper.model.names());
        memory_log::timelines(&recorded, log, &notes, &memory_log::device_labels(session))
    });
    if is_over {
        command(&session.replicas, RankCommand::End)?;
    }
    let (begin, warmup) = seen.begin.map_or((first, 0), |begin| (begin, options.warmup));
    let Seen { steps, step_seconds, host_bytes, .. } = seen;
    drop(driver);
    if let Some(error) = &mut out_of_memory {
        error.exhausted.at_step(steps + usize::from(!error.is_behind_step()));
        let until = recorded.first().and_then(|recorded| memory_log::event_of(error, recorded));
        let seen = until.zip(timelines.first());
        let seen = seen.map(|(last, whole)| charge(Account::Host, || whole.clone().until(last)));
        let directory = options.report.clone();
        explain(session, error, OomContext { seen, directory, ..OomContext::default() });
    }
    // All timelines begin right before the step mark of the first device. Event 0 of a timeline is the moment before its
    // first event.
    let mark = recorded.first().map_or(0, |recorded| recorded.events_before(begin) as usize + 1);
    let start = timelines.first().and_then(|timeline| timeline.times.get(mark));
    let start = start.map_or(0, |time| time.saturating_sub(1));
    let timelines =
        charge(Account::Host, || timelines.into_iter().map(|timeline| timeline.since_time(start)).collect());
    Ok(ProfileRun { timelines, warmup, step_seconds, host_bytes, out_of_memory })
}

/// The recording of a profile. It ends on drop.
struct ProfileRecording {
    /// Host bytes of the recording.
    host_bytes: u64,
}

impl ProfileRecording {
    fn start(capacity: usize) -> Self {
        let before = read().host_bytes.get();
        record::start(capacity);
        Self { host_bytes: read().host_bytes.get().saturating_sub(before) }
    }
}

impl Drop for ProfileRecording {
    fn drop(&mut self) {
        record::stop();
    }
}

#[derive(Default)]
struct Seen {
    /// The event before the first profiled step.
    begin: Option<u64>,
    /// Steps done.
    steps: usize,
    step_seconds: Vec<f64>,
    /// The most host bytes after a step.
    host_bytes: Bytes,
}

impl Seen {
    fn train(
        &mut self,
        session: &Session,
        options: &ProfileOptions,
        recording: &ProfileRecording,
        driver: &mut Driver<'_>,
        observer: &mut dyn Observer,
    ) -> Result<(), TrainError> {
        let mut batches = Batches::new(session);
        for step in 0..options.warmup + options.steps {
            let Some(batch) = batches.next()? else { break };
            if step == options.warmup {
                // All ranks have finished the step before.
                command(&session.replicas, RankCommand::Wait)?;
                self.begin = Some(record::next_event());
            }
            let driven = driver.step(batch)?;
            exhausted::check()?;
            let seconds = driven.begun.elapsed().as_secs_f64();
            self.steps += 1;
            charge(Account::Host, || {
                if step >= options.warmup {
                    self.step_seconds.push(seconds);
                }
                let host_bytes = read().host_bytes.get().saturating_sub(recording.host_bytes);
                self.host_bytes = self.host_bytes.max(Bytes::new(host_bytes));
                observer.tick(Tick::Step { step: step + 1 });
            });
        }
        Ok(())
    }
}

/// Evaluates some batches, if the training evaluates.
fn evaluate(
    session: &Session,
    batches: usize,
    driver: &mut Driver<'_>,
    observer: &mut dyn Observer,
) -> Result<(), TrainError> {
    if session.config.train.eval_every == Interval::Never || batches == 0 {
        return Ok(());
    }
    match driver.evaluate(batches, observer, None, &Stop::new()) {
        // Without readable samples, the profile shows the steps only.
        Ok(_) | Err(TrainError::NothingToEvaluate { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
