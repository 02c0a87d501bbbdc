//! Plans of several devices: the memory of each, and when each computes.

use std::ops::Range;

use oomph_config::{Cut, MicroBatch, Recompute};
use oomph_core::Bytes;
use oomph_engine::{
    layout::Scatter,
    session::{Session, StepSplit, backend},
};
use oomph_parallel::PipelineTrace;
use oomph_plan::Backend;
use oomph_timeline::Timeline;

use super::{
    choice::{chosen, chosen_splitter, describe_split},
    chosen::Chosen,
    coordinated::Coordinated,
    device_recording::{DeviceWork, record, sizes},
    fit::fitted,
    one_device::plan,
    options::{PlanOptions, check_shares},
    splitter::{Splitter, timeline_of_device},
};
use crate::error::PlanError;

/// The plan of one of several devices that share a step.
#[derive(Clone, Debug)]
pub struct PlannedPart {
    /// The device.
    pub device: String,
    /// The stages of the device.
    pub stages: Range<usize>,
    /// The names of its first and its last stage.
    pub names: [String; 2],
    /// The limit of the device, if it is known.
    pub limit_bytes: Option<Bytes>,
    /// The planned timeline of the device.
    pub timeline: Timeline,
    /// The estimated seconds of forward and backward of a micro-batch.
    pub seconds: f64,
}

impl PlannedPart {
    /// The planned peak of the device.
    pub fn planned_peak_bytes(&self) -> Bytes {
        self.timeline.peak().categories.total()
    }

    /// The memory that the device must have.
    pub fn needed_bytes(&self) -> Bytes {
        self.timeline.needed_bytes()
    }
}

/// The plan of a step that several devices share.
#[derive(Clone, Debug)]
pub struct PlannedCut {
    /// The plans of the devices, in order.
    pub parts: Vec<PlannedPart>,
    /// The memory policy in a few words, with the choice of `auto`.
    pub policy: String,
    /// Samples of a step.
    pub batch: usize,
    /// Samples of a micro-batch.
    pub micro_batch: usize,
    /// The number of micro-batches of a step.
    pub micro_batches: usize,
    /// The estimated work of each device over time. A forward counts as a third of forward and backward.
    pub trace: PipelineTrace,
}

/// Plans each device of a split model, or a coordinator and its replicas. `None` if all devices have the same work:
/// then [`plan`] plans one of them.
///
/// # Errors
/// If the model cannot be split over the devices, or refuses the batch.
pub fn plan_cut(session: &Session, options: PlanOptions) -> Result<Option<PlannedCut>, PlanError> {
    let session = &*fitted(session, options)?;
    match (session.scatter(), session.is_split()) {
        (Some(scatter), _) => planned_coordinated(session, options, scatter).map(Some),
        (None, true) => planned_split(session, options).map(Some),
        (None, false) => Ok(None),
    }
}

/// As [`plan_cut`], with `steps` steps and all their micro-batches, and an evaluation batch. `None` if all devices have
/// the same work.
///
/// # Errors
/// The errors of [`plan_cut`].
pub fn plan_parts(
    session: &Session,
    options: PlanOptions,
    steps: usize,
) -> Result<Option<Vec<PlannedPart>>, PlanError> {
    let session = &*fitted(session, options)?;
    let steps = Some(steps);
    match (session.scatter(), session.is_split()) {
        (Some(scatter), _) => {
            coordinated_parts(&coordinated(session, options, scatter)?, session, options, steps).map(Some)
        }
        (None, true) => split_parts(&chosen_splitter(session, options)?, session, options, steps).map(Some),
        (None, false) => Ok(None),
    }
}

/// The planned need of the fullest device of the session: its planned peak, or what the pools of a GPU reserve. If limits differ, peaks are
/// [scaled](oomph_engine::session::bytes_of_smallest), and the result compares with the smallest limit.
///
/// # Errors
/// The errors of [`plan`] and [`plan_cut`].
pub fn planned_peak(session: &Session, options: PlanOptions) -> Result<Bytes, PlanError> {
    let session = &*fitted(session, options)?;
    if session.is_split() {
        return chosen_splitter(session, options)?.peak_of_fullest();
    }
    match session.scatter() {
        Some(scatter) => coordinated(session, options, scatter)?.peak_of_fullest(),
        None => Ok(plan(session, options)?.needed_bytes()),
    }
}

/// The sum of the planned peaks of all devices: the memory that a machine needs if all devices are shares of its CPU.
///
/// # Errors
/// The errors of [`planned_peak`].
pub fn planned_sum(session: &Session) -> Result<Bytes, PlanError> {
    let options = PlanOptions::default();
    match plan_cut(session, options)? {
        Some(cut) => Ok(cut.parts.iter().map(PlannedPart::needed_bytes).sum()),
        None => {
            let replicas = session.world_size() as u64;
            Ok(Bytes::new(planned_peak(session, options)?.get().saturating_mul(replicas)))
        }
    }
}

/// The stages of each device that the session's model is split over.
///
/// # Errors
/// If a configured stage does not exist, if there are fewer stages than devices, or if the model refuses the batch.
pub fn split_stages(session: &Session) -> Result<Vec<Range<usize>>, PlanError> {
    let session = fitted(session, PlanOptions::default())?;
    chosen_splitter(&session, PlanOptions::default())?.stages()
}

/// The best split of the session's model now, and the best split with few activations. One of them is good for any
/// change of memory settings. Empty if the model is not split, or if the split points are configured.
pub(crate) fn usual_splits(session: &Session) -> Vec<Vec<Range<usize>>> {
    let (true, Some(Cut::Balanced(_))) = (session.is_split(), session.config.device.sharing.cut()) else {
        return Vec::new();
    };
    let mut config = session.config.clone();
    config.memory.micro_batch = Some(MicroBatch::Samples(2));
    config.memory.recompute = Recompute::Stages;
    // If a split cannot be planned, planning the session reports the error.
    let now = split_stages(session).ok();
    let with_few = split_stages(&session.with_config(config)).ok();
    let with_few = with_few.filter(|stages| now.as_ref() != Some(stages));
    now.into_iter().chain(with_few).collect()
}

fn planned_part(
    session: &Session,
    work: &DeviceWork,
    backend: Backend,
    options: PlanOptions,
) -> Result<PlannedPart, PlanError> {
    let DeviceWork { stages, device, batch, .. } = work.clone();
    let name = |stage: usize| session.stages[stage].clone();
    let recording = record(session, work, backend)?;
    Ok(PlannedPart {
        names: [name(stages.start), name(stages.end - 1)],
        limit_bytes: session.limit_of(device).or(options.limit_bytes),
        timeline: timeline_of_device(session, &recording, device, backend, batch),
        seconds: work.seconds(session, backend)?,
        device: session.config.device.devices[device].to_string(),
        stages,
    })
}

/// Plans each device of a split model: `steps` steps with all their micro-batches, or as few of both as show the peak.
fn split_parts(
    splitter: &Splitter<'_>,
    session: &Session,
    options: PlanOptions,
    steps: Option<usize>,
) -> Result<Vec<PlannedPart>, PlanError> {
    let backend = options.backend.unwrap_or_else(|| backend(session));
    let of = |(device, stages)| {
        let mut work: DeviceWork = splitter.work(stages, device);
        if let Some(steps) = steps {
            work.sizes = sizes(splitter.batch, splitter.split.micro_batch, usize::MAX);
            work.steps = steps;
        }
        planned_part(session, &work, backend, options)
    };
    splitter.stages()?.into_iter().enumerate().map(of).collect()
}

fn planned_split(session: &Session, options: PlanOptions) -> Result<PlannedCut, PlanError> {
    let splitter = chosen_splitter(session, options)?;
    let parts = split_parts(&splitter, session, options, None)?;
    let seconds: Vec<f64> = parts.iter().map(|part| part.seconds).collect();
    let (trace, micro_batches) = (splitter.trace(&seconds), splitter.micro_batches());
    let policy = describe_split(session, Some(&splitter.split));
    let Splitter { batch, split: StepSplit { micro_batch, .. }, .. } = splitter;
    Ok(PlannedCut { policy, batch, micro_batch, micro_batches, trace, parts })
}

/// The step of a coordinator and its replicas, with the micro-batch that `auto` chooses.
fn coordinated(
    session: &Session,
    options: PlanOptions,
    scatter: Scatter,
) -> Result<Coordinated<'_>, PlanError> {
    check_shares(session, options)?;
    let Chosen { batch, backend, split } = chosen(session, options)?;
    Ok(Coordinated::new(session, batch, backend, scatter, split))
}

/// Plans the coordinator and each replica: `steps` steps with all their rounds, or as few of both as show the peak.
fn coordinated_parts(
    coordinated: &Coordinated<'_>,
    session: &Session,
    options: PlanOptions,
    steps: Option<usize>,
) -> Result<Vec<PlannedPart>, PlanError> {
    let of = |device| planned_part(session, &coordinated.work(device, steps), coordinated.backend, options);
    (0..coordinated.scatter.devices).map(of).collect()
}

fn planned_coordinated(
    session: &Session,
    options: PlanOptions,
    scatter: Scatter,
) -> Result<PlannedCut, PlanError> {
    let coordinated = coordinated(session, options, scatter)?;
    let parts = coordinated_parts(&coordinated, session, options, None)?;
    let Coordinated { batch, round, .. } = coordinated;
    let micro_batches = batch.div_ceil(round);
    let seconds: Vec<f64> = parts.iter().map(|part| part.seconds).collect();
    let trace = coordinated.trace(&seconds, micro_batches)?;
    let policy = describe_split(session, Some(&coordinated.split));
    Ok(PlannedCut { policy, batch, micro_batch: round, micro_batches, trace, parts })
}
