//! Where a model is cut over devices, and what each of them holds.

use std::{iter::once, ops::Range};

use oomph_config::{Balance, Sharing};
use oomph_core::Bytes;
use oomph_memory::Timeline;
use oomph_parallel::{Course, Schedule, Work, best_cut};
use oomph_plan::{Backend, Head, cost, replay};

use super::{
    Choice, Occasion, PlanOptions, STEPS, backend,
    coordinated::plan_coordinated,
    parts::{PartWork, Role, record_part},
};
use crate::{Session, TrainError};

/// Steps of the same kind beyond those that fill a pipeline: what follows repeats them.
const BEYOND: usize = 2;

/// What is planned for one of several devices that a model lies on.
#[derive(Clone, Debug)]
pub struct PlannedPart {
    /// The device.
    pub device: String,
    /// The stages that it has.
    pub stages: Range<usize>,
    /// The first and the last of them by name.
    pub names: [String; 2],
    /// What it holds when.
    pub timeline: Timeline,
    /// About how long it computes in a step.
    pub seconds: f64,
}

/// What is planned for a model that is cut over several devices.
#[derive(Clone, Debug)]
pub struct PlannedCut {
    /// Each of the devices, in their order.
    pub parts: Vec<PlannedPart>,
    /// Samples of a micro-batch, and how many a batch has.
    pub micro_batch: usize,
    /// How many micro-batches a step has.
    pub micro_batches: usize,
    /// About who does what when in a step, with a forward taken for a third of forward and backward.
    pub course: Course,
}

/// What is planned for several devices, but for what each of them has.
pub(super) struct Planner<'a> {
    session: &'a Session,
    backend: Backend,
    pub(super) choice: Choice,
    /// Samples of a step.
    pub(super) batch: usize,
    pub(super) devices: usize,
}

/// How a model is cut and what its parts do, but for where.
struct Cutter<'a> {
    planner: Planner<'a>,
    schedule: Schedule,
}

/// Plans each of the devices of which each has something else to do: those that the session's model is cut over, or a
/// coordinator and its replicas; `None` where there are none such. As [`plan`](super::plan) plans one.
///
/// # Errors
/// Where the model cannot be cut so, or refuses the batch.
pub fn plan_cut(session: &Session, options: PlanOptions) -> Result<Option<PlannedCut>, TrainError> {
    if let Sharing::Dp { coordinator_share } = session.config.device.sharing {
        let planner = Planner::new(session, options)?;
        return plan_coordinated(session, &planner, coordinator_share).map(Some);
    }
    let Some(schedule) = session.pipeline_schedule() else { return Ok(None) };
    let cutter = Cutter { planner: Planner::new(session, options)?, schedule };
    let stages = session.cut(options)?;
    let planned = stages.into_iter().enumerate().map(|(device, stages)| {
        let name = |stage: usize| session.stages[stage].clone();
        let names = [name(stages.start), name(stages.end - 1)];
        let seconds = cutter.seconds(stages.clone(), device)?;
        let timeline = cutter.timeline(stages.clone(), device)?;
        let device = session.config.device.devices[device].to_string();
        Ok(PlannedPart { device, stages, names, timeline, seconds })
    });
    let parts = planned.collect::<Result<Vec<PlannedPart>, TrainError>>()?;
    let micro_batch = cutter.planner.choice.micro_batch;
    let micro_batches = cutter.planner.batch.div_ceil(micro_batch);
    let seconds = |device: usize, work| {
        let seconds: f64 = parts[device].seconds;
        match work {
            Work::Forward(_) => seconds / 3.0,
            Work::Backward(_) => seconds * 2.0 / 3.0,
        }
    };
    let course = Course::play(schedule, parts.len(), micro_batches, seconds, 0.0);
    Ok(Some(PlannedCut { parts, micro_batch, micro_batches, course }))
}

/// The planned peak of the largest device that the session's model is cut over; `None` where it is not cut.
///
/// # Errors
/// As those of [`plan_cut`], and [`TrainError::TooLarge`] where `refuses` and a device cannot hold its part.
pub(crate) fn check_parts(session: &Session, refuses: bool) -> Result<Option<Bytes>, TrainError> {
    let mut largest = None;
    let parts = plan_cut(session, PlanOptions::default())?.map(|cut| cut.parts).unwrap_or_default();
    for (index, part) in parts.into_iter().enumerate() {
        let planned_peak_bytes = part.timeline.peak().categories.total();
        let at_least = planned_peak_bytes.get() as f64 * (1.0 - backend(session).error());
        match session.limit_bytes {
            Some(limit_bytes) if refuses && at_least > limit_bytes.get() as f64 => {
                let device = part.device;
                return Err(TrainError::TooLarge { index, device, planned_peak_bytes, limit_bytes });
            }
            _ => largest = largest.max(Some(planned_peak_bytes)),
        }
    }
    Ok(largest)
}

/// Cuts the model so that the largest device is as small as can be: by its planned peak, or by the time that it computes.
pub(crate) fn balanced(
    session: &Session,
    balance: Balance,
    options: PlanOptions,
) -> Result<Vec<Range<usize>>, TrainError> {
    let Some(schedule) = session.pipeline_schedule() else {
        return Ok(once(0..session.stages.len()).collect());
    };
    let cutter = Cutter { planner: Planner::new(session, options)?, schedule };
    let mut cost = |stages: Range<usize>, device: usize| -> Result<u64, TrainError> {
        match balance {
            Balance::Memory => Ok(cutter.peak(stages, device)?.get()),
            // Nanoseconds.
            Balance::Time => Ok((cutter.seconds(stages, device)? * 1e9) as u64),
        }
    };
    best_cut(session.stages.len(), cutter.planner.devices, &mut cost)
}

impl<'a> Planner<'a> {
    fn new(session: &'a Session, options: PlanOptions) -> Result<Self, TrainError> {
        let batch = options.batch.unwrap_or_else(|| session.largest_train_batch());
        let backend = options.backend.unwrap_or_else(|| backend(session));
        let limit_bytes = options.limit_bytes.or(session.limit_bytes);
        let share = session.share_of(batch);
        let mut choice = session.choice(Occasion { batch: share, backend, limit_bytes })?;
        choice.micro_batch = options.micro_batch.unwrap_or(choice.micro_batch).min(share);
        let devices = session.config.device.devices.len();
        Ok(Self { session, backend, choice, batch, devices })
    }

    pub(super) fn timeline_of(&self, work: &PartWork) -> Result<Timeline, TrainError> {
        let recording = record_part(self.session, work, STEPS, self.backend)?;
        let device = work.device;
        let name = &self.session.config.device.devices[device];
        let head = Head {
            title: format!("{} · batch {} · device {device}", self.session.architecture.name(), self.batch),
            device: name.to_string(),
            limit_bytes: self.session.limit_bytes,
        };
        Ok(replay(&recording, self.backend, head))
    }

    pub(super) fn seconds_of(&self, work: &PartWork) -> Result<f64, TrainError> {
        Ok(cost(&record_part(self.session, work, 1, self.backend)?, self.backend))
    }
}

impl Cutter<'_> {
    fn work(&self, stages: Range<usize>, device: usize) -> PartWork {
        let Planner { choice, batch, devices, .. } = &self.planner;
        let Choice { micro_batch, recompute } = choice.clone();
        let all = batch.div_ceil(micro_batch);
        let enough = self.schedule.in_flight(device, *devices, all) + BEYOND;
        PartWork {
            stages,
            device,
            role: Role::Part { devices: *devices, schedule: self.schedule },
            micro_batch,
            micro_batches: all.min(enough),
            recompute,
        }
    }

    fn timeline(&self, stages: Range<usize>, device: usize) -> Result<Timeline, TrainError> {
        self.planner.timeline_of(&self.work(stages, device))
    }

    fn peak(&self, stages: Range<usize>, device: usize) -> Result<Bytes, TrainError> {
        Ok(self.timeline(stages, device)?.peak().categories.total())
    }

    /// About how long the device computes for a micro-batch.
    fn seconds(&self, stages: Range<usize>, device: usize) -> Result<f64, TrainError> {
        self.planner.seconds_of(&PartWork { micro_batches: 1, ..self.work(stages, device) })
    }
}
