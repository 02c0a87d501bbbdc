mod rehearse;

use std::time::Instant;

use oomph_config::{Config, ConfigError, DeviceName};
use oomph_core::Bytes;
use oomph_data::Batch;
use oomph_memory::{
    Account, Category, SpanKind, Split, charge, is_installed, read,
    record::{self, Notes, StepKind},
    restart_peak,
};

use crate::{
    Observer, PlanOptions, Session, SessionError, Stepper, Tick, TrainError, held::Held, memory_log, plan,
    planning::STEPS, profile::Batches, progress::read_all,
};

pub(crate) use rehearse::last_batch;
pub use rehearse::{Rehearsal, RehearseOptions, rehearse};

/// How long is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasureOptions {
    /// Optimizer steps. The first [`WARMUP`](Self::WARMUP) count for memory and loss and not for the time of a step.
    pub steps: usize,
}

impl MeasureOptions {
    /// Steps that make the optimizer's state and the backend's lasting buffers, and so take longer than those behind
    /// them.
    pub const WARMUP: usize = 2;
}

/// What a step of training needs, as planned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlannedStep {
    /// What is in use at the planned peak of training, by category. Evaluation is not in it.
    pub peak: Split,
    /// Bytes of the category `optimizer state` behind the planned steps.
    pub state_bytes: Bytes,
    /// Trainable elements of the model.
    pub parameters: usize,
}

impl PlannedStep {
    /// The planned peak of training.
    pub fn peak_bytes(&self) -> Bytes {
        self.peak.total()
    }

    /// What the optimizer keeps for each parameter.
    pub fn state_bytes_per_parameter(&self) -> f64 {
        per_parameter(self.state_bytes, self.parameters)
    }
}

/// What some steps of training needed, beside what was planned for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// What was planned.
    pub planned: PlannedStep,
    /// Optimizer steps that were done.
    pub steps: usize,
    /// The most that was in use; `None` where the meter is not installed, or for a device that it does not count.
    pub peak_in_use_bytes: Option<Bytes>,
    /// Bytes of the category `optimizer state` behind the warm-up, as recorded allocation by allocation: tensors of the
    /// optimizer that share their memory count once. `None` where `peak_in_use_bytes` is, and where a step has more
    /// allocations than are kept.
    pub state_bytes: Option<Bytes>,
    /// How long the first step took.
    pub first_step_seconds: f64,
    /// How long a step takes: the median behind the warm-up, of all steps where there are no more.
    pub step_seconds: f64,
    /// Samples that those steps trained on in a second, the smaller last batch of an epoch counted as what it is.
    pub samples_per_second: f64,
    /// The loss of the first step, before anything was learned. It may not be finite.
    pub loss_first: f64,
    /// The loss of the last step, on its own batch. It may not be finite.
    pub loss_last: f64,
}

impl Measurement {
    /// What the optimizer keeps for each parameter.
    pub fn state_bytes_per_parameter(&self) -> Option<f64> {
        Some(per_parameter(self.state_bytes?, self.planned.parameters))
    }
}

/// What can keep some steps from being measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// In training itself.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// No batch had a sample in it.
    #[error("none of the training samples can be read, so there is no step to measure")]
    NoSteps,
}

impl MeasureError {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Train(error) => error.hint(),
            Self::NoSteps => None,
        }
    }
}

/// Plans a step of the session's training. Nothing is executed and no tensor allocated.
///
/// # Errors
/// As those of [`plan`](crate::plan).
pub fn plan_step(session: &Session) -> Result<PlannedStep, TrainError> {
    // Its evaluation shows what outlives the steps, and is not compared.
    let timeline = plan(session, PlanOptions::default())?;
    let end = timeline.spans_of(SpanKind::Step).take(STEPS).map(|step| step.end).max().unwrap_or(0);
    let state = timeline.levels().get(end as usize).copied().unwrap_or_default();
    let summary = session.summary(session.micro_batch())?;
    Ok(PlannedStep {
        peak: timeline.peak_within(0..end).categories,
        state_bytes: state.of(Category::OptimizerState),
        parameters: summary.parameters - summary.frozen_parameters,
    })
}

/// Checks that one device alone does the steps: those are what is measured and compared.
///
/// # Errors
/// Where there are several.
pub fn check_alone(config: &Config) -> Result<(), ConfigError> {
    match config.device.devices.len() {
        1 => Ok(()),
        _ => Err(config.invalid(
            "device.devices",
            "one device, on which steps are compared: `oomph profile` measures several",
        )),
    }
}

/// Plans a training, does its first steps under the meter, and forgets it: nothing is saved or evaluated.
///
/// The steps are those that [`train`](crate::train) does: the same parameters, batches, learning rates and randomness.
/// What a process did before stays with it, as buffers of the backend, so what is to be compared runs in a process each.
/// `observer` is told of every step.
///
/// # Errors
/// Training's own, running out of memory among them, and where there is nothing to train on, or several devices.
pub fn measure(
    session: &Session,
    options: MeasureOptions,
    observer: &mut dyn Observer,
) -> Result<Measurement, MeasureError> {
    check_alone(&session.config).map_err(|error| TrainError::from(SessionError::from(error)))?;
    session.check_training().map_err(TrainError::from)?;
    let planned = plan_step(session)?;
    restart_peak();
    let is_metered = is_installed() && session.config.device.devices[0] == DeviceName::Cpu;
    let mut recorder = is_metered.then(Recorder::start);
    let mut stepper = charge(Account::Device, || Stepper::new(session))?;
    if let Some(recorder) = &recorder {
        stepper.watch(Some(Box::new(recorder.held.clone())));
    }
    let mut state_bytes = None;
    let mut steps = Vec::with_capacity(options.steps);
    let (mut batches, schedule) = (Batches::new(session), session.schedule());
    for step in 0..options.steps {
        let Some(batch) = batches.next()? else { break };
        record::mark_step(step as u64 + 1, StepKind::Train);
        steps.push(train(session, &mut stepper, batch, step, schedule.lr(step))?);
        if step + 1 == options.steps.min(MeasureOptions::WARMUP) {
            // What is timed is not recorded.
            stepper.watch(None);
            state_bytes = recorder.take().and_then(|recorder| recorder.state_bytes(session, &stepper));
        }
        observer.tick(Tick::Step { step: step + 1 });
    }
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return Err(MeasureError::NoSteps) };
    let (step_seconds, samples_per_second) = speed(steps.iter().map(|step| (step.samples, step.seconds)));
    Ok(Measurement {
        planned,
        steps: steps.len(),
        peak_in_use_bytes: is_metered.then(|| read().peak_in_use_bytes),
        state_bytes,
        first_step_seconds: first.seconds,
        step_seconds,
        samples_per_second,
        loss_first: first.loss,
        loss_last: last.loss,
    })
}

/// A step that was done.
#[derive(Clone, Copy, Debug)]
struct Done {
    samples: usize,
    seconds: f64,
    loss: f64,
}

fn train(
    session: &Session,
    stepper: &mut Stepper,
    batch: Batch,
    step: usize,
    lr: f64,
) -> Result<Done, TrainError> {
    let samples = batch.size;
    let start = Instant::now();
    let losses = charge(Account::Device, || {
        let outcome = stepper.step(batch, step, lr, session.task.as_ref())?;
        // Read at once: on a device that works by itself, the step is over only then.
        Ok::<_, TrainError>(read_all(outcome.loss.into_iter().collect())?)
    })?;
    let loss = losses.first().map_or(f64::NAN, |loss| f64::from(*loss));
    Ok(Done { samples, seconds: start.elapsed().as_secs_f64(), loss })
}

/// Records the warm-up, to tell what the optimizer has made and kept. Ends however the measurement ends.
struct Recorder {
    held: Held,
}

impl Recorder {
    /// Events that are kept, in 40 bytes each.
    const CAPACITY: usize = 1_000_000;

    fn start() -> Self {
        record::start(Self::CAPACITY);
        Self { held: Held::default() }
    }

    /// What the optimizer holds now, between two steps.
    fn state_bytes(self, session: &Session, stepper: &Stepper) -> Option<Bytes> {
        // What outlives its step is known where another begins.
        record::mark_step(MeasureOptions::WARMUP as u64 + 1, StepKind::Train);
        let recording = record::dump();
        if recording.lost_events > 0 {
            return None;
        }
        let notes = Notes {
            held: self.held.notes_of(recording.device),
            ..memory_log::notes(session, stepper.model.names())
        };
        let levels = recording.timeline(&notes).levels();
        levels.last().map(|level| level.of(Category::OptimizerState))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        record::stop();
    }
}

fn per_parameter(bytes: Bytes, parameters: usize) -> f64 {
    bytes.get() as f64 / parameters.max(1) as f64
}

/// The median time of a step and the samples in a second, behind the warm-up; of all steps where there are no more. A
/// step is its samples and its seconds.
fn speed(steps: impl Iterator<Item = (usize, f64)>) -> (f64, f64) {
    let steps: Vec<(usize, f64)> = steps.collect();
    let timed = steps.get(MeasureOptions::WARMUP..).filter(|timed| !timed.is_empty()).unwrap_or(&steps);
    let samples = timed.iter().map(|(samples, _)| *samples as f64).sum::<f64>();
    let seconds: Vec<f64> = timed.iter().map(|(_, seconds)| *seconds).collect();
    let rate = samples / seconds.iter().sum::<f64>();
    (median(seconds), rate)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.as_slice() {
        [] => f64::NAN,
        values if values.len() % 2 == 1 => values[middle],
        values => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 9.0]), 3.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), 3.0);
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn a_model_without_parameters_has_no_state_for_each() {
        assert_eq!(per_parameter(Bytes::default(), 0), 0.0);
        assert_eq!(per_parameter(Bytes::new(800), 100), 8.0);
    }
}
