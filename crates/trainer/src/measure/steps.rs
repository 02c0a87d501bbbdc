use std::time::Instant;

use oomph_advice::check_training;
use oomph_config::DeviceName;
use oomph_core::Bytes;
use oomph_engine::{session::Session, step::Stepper};
use oomph_memory::{
    Account, charge, is_installed,
    record::{self, Notes, StepKind},
    restart_peak,
};
use oomph_runs::{Observer, Tick};
use oomph_timeline::Category;

use super::{
    devices::{on_all_devices, peak_of_fullest},
    planned::{PlannedStep, per_parameter, plan_step},
    speed::{Speed, TimedStep, WARMUP},
};
use crate::{
    TrainError,
    batches::Batches,
    driver::Driver,
    fit::fitted,
    memory_log,
    open::new_stepper,
    ranks::{RankCommand, broadcast_start, command},
    tensor_log::TensorLog,
};

/// Why steps could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// Training failed.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// No sample can be read.
    #[error("none of the training samples can be read, so there is no step to measure")]
    NoSteps,
}

impl MeasureError {
    /// A command or a setting that helps, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Train(error) => error.hint(),
            Self::NoSteps => None,
        }
    }
}

/// The measured needs of some training steps, beside the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// The plan.
    pub planned: PlannedStep,
    /// Optimizer steps done.
    pub steps: usize,
    /// The peak in use, of several devices that of the fullest. `None` without the meter, and on devices that the meter does not count.
    pub peak_in_use_bytes: Option<Bytes>,
    /// Bytes of the category `optimizer state` after the warm-up, from recorded allocations: tensors that share memory
    /// count once. `None` where `peak_in_use_bytes` is `None`, on several devices, and where a step overflows the recording.
    pub state_bytes: Option<Bytes>,
    /// Seconds until the model was on the device.
    pub build_seconds: f64,
    /// Seconds of the first step.
    pub first_step_seconds: f64,
    /// The median step time after the warm-up. Where there are warm-up steps only, they count.
    pub step_seconds: f64,
    /// Samples per second over the same steps. A smaller last batch of an epoch counts with its own size.
    pub samples_per_second: f64,
    /// The loss of each step, before its update and on its own batch. It may not be finite.
    pub losses: Vec<f64>,
}

impl Measurement {
    /// The loss of the first step. It may not be finite.
    pub fn loss_first(&self) -> f64 {
        self.losses.first().copied().unwrap_or(f64::NAN)
    }

    /// The loss of the last step. It may not be finite.
    pub fn loss_last(&self) -> f64 {
        self.losses.last().copied().unwrap_or(f64::NAN)
    }

    /// Bytes of optimizer state for each parameter.
    pub fn state_bytes_per_parameter(&self) -> Option<f64> {
        Some(per_parameter(self.state_bytes?, self.planned.parameters))
    }
}

/// Plans a training and does its first `steps` steps under the meter, on all of its devices. Nothing is saved or evaluated.
///
/// The first [`WARMUP`] steps count for memory and loss, but not for the step time. The steps equal those of
/// [`train`](crate::train): the same parameters, batches, learning rates and randomness.
/// The backend's buffers outlive a measurement, so comparisons run each measurement in its own process. `observer` gets a
/// tick after every step.
///
/// # Errors
/// Where training fails or memory runs out, and where no sample can be read.
pub fn measure(
    session: &Session,
    steps: usize,
    observer: &mut dyn Observer,
) -> Result<Measurement, MeasureError> {
    let session = &*fitted(session)?;
    check_training(session).map_err(TrainError::from)?;
    let planned = plan_step(session)?;
    restart_peak();
    let measured = on_all_devices(session, |session| lead(session, steps, observer))?;
    let first = measured.timed.first().ok_or(MeasureError::NoSteps)?;
    let Speed { step_seconds, samples_per_second } = Speed::of(&measured.timed);
    Ok(Measurement {
        planned,
        steps: measured.timed.len(),
        peak_in_use_bytes: peak_of_fullest(session),
        state_bytes: measured.state_bytes,
        build_seconds: measured.build_seconds,
        first_step_seconds: first.seconds,
        step_seconds,
        samples_per_second,
        losses: measured.losses,
    })
}

/// What the only device measures, or the first of several.
struct Measured {
    build_seconds: f64,
    state_bytes: Option<Bytes>,
    timed: Vec<TimedStep>,
    losses: Vec<f64>,
}

/// Measures on one device, on the devices of a split model, or as rank 0.
fn lead(session: &Session, steps: usize, observer: &mut dyn Observer) -> Result<Measured, TrainError> {
    broadcast_start(session, None, None)?;
    // The recording is that of one device.
    let is_recorded =
        is_installed() && session.replicas.is_alone() && session.config.device.devices == [DeviceName::Cpu];
    let mut recorder = is_recorded.then(WarmupRecording::start);
    let begun = Instant::now();
    let (mut stepper, _) = charge(Account::Device, || new_stepper(session))?;
    let build_seconds = begun.elapsed().as_secs_f64();
    if let Some(recorder) = &recorder {
        stepper.watch(Some(Box::new(recorder.log.clone())));
    }
    let mut state_bytes = None;
    let mut timed = Vec::with_capacity(steps);
    let mut batches = Batches::new(session);
    let mut driver = Driver::leading(session, stepper, 0);
    for step in 0..steps {
        let Some(batch) = batches.next()? else { break };
        let driven = driver.step(batch)?;
        timed.push(TimedStep::end(driven)?);
        if step + 1 == steps.min(WARMUP) {
            // Recording would slow the timed steps.
            driver.stepper.watch(None);
            state_bytes = recorder.take().and_then(|recorder| recorder.state_bytes(session, &driver.stepper));
        }
        observer.tick(Tick::Step { step: step + 1 });
    }
    command(&session.replicas, RankCommand::EachLoss)?;
    let losses = session.replicas.sum(&timed.iter().map(|step| step.loss).collect::<Vec<_>>())?;
    command(&session.replicas, RankCommand::End)?;
    Ok(Measured { build_seconds, state_bytes, timed, losses })
}

/// Records the warm-up to measure the optimizer state. The recording ends on drop.
struct WarmupRecording {
    log: TensorLog,
}

impl WarmupRecording {
    /// Events kept, of 40 bytes each.
    const CAPACITY: usize = 1_000_000;

    fn start() -> Self {
        record::start(Self::CAPACITY);
        Self { log: TensorLog::default() }
    }

    /// Bytes of optimizer state now, between two steps, those in host memory included.
    fn state_bytes(self, session: &Session, stepper: &Stepper) -> Option<Bytes> {
        // The next step mark shows which blocks outlive their step.
        record::mark_step(WARMUP as u64 + 1, StepKind::Train);
        let recording = record::dump();
        if recording.lost_events > 0 {
            return None;
        }
        let notes = Notes {
            tensors: self.log.notes_of(recording.device),
            ..memory_log::notes(session, stepper.model.names())
        };
        let levels = recording.timeline(&notes).levels();
        let in_host_memory = Bytes::new(stepper.optimizer.offloaded_bytes());
        levels.last().map(|level| level.of(Category::OptimizerState) + in_host_memory)
    }
}

impl Drop for WarmupRecording {
    fn drop(&mut self) {
        record::stop();
    }
}
