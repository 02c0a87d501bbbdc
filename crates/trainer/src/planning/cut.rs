//! Where a model is cut over devices, and what each of them holds.

use std::{iter::once, ops::Range};

use oomph_config::Balance;
use oomph_core::Bytes;
use oomph_memory::Timeline;
use oomph_parallel::{Course, Schedule, Work, best_cut};
use oomph_plan::{Backend, Head, cost, replay};

use super::{
    Choice, Occasion, PlanOptions, STEPS, backend,
    parts::{PartWork, record_part},
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

/// How a model is cut and what its parts do, but for where.
struct Cutter<'a> {
    session: &'a Session,
    backend: Backend,
    schedule: Schedule,
    choice: Choice,
    /// Samples of a step.
    batch: usize,
    devices: usize,
}

/// Plans each of the devices that the session's model is cut over; `None` where it is not cut. As [`plan`](super::plan)
/// plans one.
///
/// # Errors
/// Where the model cannot be cut so, or refuses the batch.
pub fn plan_cut(session: &Session, options: PlanOptions) -> Result<Option<PlannedCut>, TrainError> {
    let Some(schedule) = session.pipeline_schedule() else { return Ok(None) };
    let cutter = Cutter::new(session, schedule, options)?;
    let stages = session.cut(options)?;
    let planned = stages.into_iter().enumerate();
    let planned = planned.map(|(device, stages)| cutter.part(&cutter.work(stages, device), STEPS));
    let parts = planned.collect::<Result<Vec<PlannedPart>, TrainError>>()?;
    let micro_batch = cutter.choice.micro_batch;
    let micro_batches = cutter.batch.div_ceil(micro_batch);
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

/// Plans so many steps of each device that the session's model is cut over, with all their micro-batches, and an
/// evaluation batch; `None` where it is not cut.
pub(crate) fn plan_parts(
    session: &Session,
    options: PlanOptions,
    steps: usize,
) -> Result<Option<Vec<PlannedPart>>, TrainError> {
    let Some(schedule) = session.pipeline_schedule() else { return Ok(None) };
    let cutter = Cutter::new(session, schedule, options)?;
    let micro_batches = cutter.batch.div_ceil(cutter.choice.micro_batch);
    let stages = session.cut(options)?.into_iter().enumerate();
    let parts = stages.map(|(device, stages)| {
        let work = PartWork { micro_batches, ..cutter.work(stages, device) };
        cutter.part(&work, steps)
    });
    parts.collect::<Result<_, _>>().map(Some)
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
    let cutter = Cutter::new(session, schedule, options)?;
    let mut cost = |stages: Range<usize>, device: usize| -> Result<u64, TrainError> {
        match balance {
            Balance::Memory => Ok(cutter.peak(stages, device)?.get()),
            // Nanoseconds.
            Balance::Time => Ok((cutter.seconds(stages, device)? * 1e9) as u64),
        }
    };
    best_cut(session.stages.len(), cutter.devices, &mut cost)
}

impl<'a> Cutter<'a> {
    fn new(session: &'a Session, schedule: Schedule, options: PlanOptions) -> Result<Self, TrainError> {
        let batch = options.batch.unwrap_or_else(|| session.largest_train_batch());
        let backend = options.backend.unwrap_or_else(|| backend(session));
        let limit_bytes = options.limit_bytes.or(session.limit_bytes);
        let mut choice = session.choice(Occasion { batch, backend, limit_bytes })?;
        choice.micro_batch = options.micro_batch.unwrap_or(choice.micro_batch).min(batch);
        let devices = session.config.device.devices.len();
        Ok(Self { session, backend, schedule, choice, batch, devices })
    }

    fn work(&self, stages: Range<usize>, device: usize) -> PartWork {
        let Choice { micro_batch, recompute } = self.choice.clone();
        let all = self.batch.div_ceil(micro_batch);
        let enough = self.schedule.in_flight(device, self.devices, all) + BEYOND;
        PartWork {
            stages,
            device,
            devices: self.devices,
            schedule: self.schedule,
            micro_batch,
            micro_batches: all.min(enough),
            recompute,
        }
    }

    /// What a device does, planned.
    fn part(&self, work: &PartWork, steps: usize) -> Result<PlannedPart, TrainError> {
        let PartWork { stages, device, .. } = work.clone();
        let name = |stage: usize| self.session.stages[stage].clone();
        Ok(PlannedPart {
            device: self.session.config.device.devices[device].to_string(),
            names: [name(stages.start), name(stages.end - 1)],
            timeline: self.timeline(work, steps)?,
            seconds: self.seconds(stages.clone(), device)?,
            stages,
        })
    }

    fn timeline(&self, work: &PartWork, steps: usize) -> Result<Timeline, TrainError> {
        let device = work.device;
        let recording = record_part(self.session, work, steps, self.backend)?;
        let name = &self.session.config.device.devices[device];
        let head = Head {
            title: format!("{} · batch {} · device {device}", self.session.architecture.name(), self.batch),
            device: name.to_string(),
            limit_bytes: self.session.limit_bytes,
        };
        Ok(replay(&recording, self.backend, head))
    }

    fn peak(&self, stages: Range<usize>, device: usize) -> Result<Bytes, TrainError> {
        Ok(self.timeline(&self.work(stages, device), STEPS)?.peak().categories.total())
    }

    /// About how long the device computes for a micro-batch.
    fn seconds(&self, stages: Range<usize>, device: usize) -> Result<f64, TrainError> {
        let work = PartWork { micro_batches: 1, ..self.work(stages, device) };
        Ok(cost(&record_part(self.session, &work, 1, self.backend)?, self.backend))
    }
}
