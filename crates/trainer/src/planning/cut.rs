//! Where a model is cut over devices, and what each of them holds.

use std::{iter::once, ops::Range};

use oomph_config::{Balance, Cut, Sharing};
use oomph_core::Bytes;
use oomph_memory::Timeline;
use oomph_parallel::{Course, Schedule, Work, best_cut, cut_by_names};
use oomph_plan::{Backend, Head, Recording, replay};

use super::{
    Choice, Occasion, PlanOptions, STEPS, backend,
    coordinated::{plan_coordinated, plan_coordinated_steps},
    parts::{PartWork, Role, record_part},
    record::eval_batch,
};
use crate::{Session, SessionError, TrainError, parts::check_names};

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
    /// What it may use, where that is known.
    pub limit_bytes: Option<Bytes>,
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
    /// The memory policy in a few words, with what `auto` comes to.
    pub policy: String,
    /// Samples of a step.
    pub batch: usize,
    /// Samples of a micro-batch, and how many a batch has.
    pub micro_batch: usize,
    /// How many micro-batches a step has.
    pub micro_batches: usize,
    /// About who does what when in a step, with a forward taken for a third of forward and backward.
    pub course: Course,
}

impl PlannedPart {
    /// The most that it holds at a time.
    pub fn planned_peak_bytes(&self) -> Bytes {
        self.timeline.peak().categories.total()
    }
}

/// How a model is cut and what its parts do, but for where.
pub(super) struct Cutter<'a> {
    session: &'a Session,
    backend: Backend,
    schedule: Schedule,
    choice: Choice,
    /// Samples of a step.
    batch: usize,
    devices: usize,
}

/// Plans each of the devices of which each has something else to do: those that the session's model is cut over, or a
/// coordinator and its replicas; `None` where there are none such. As [`plan`](super::plan) plans one.
///
/// # Errors
/// Where the model cannot be cut so, or refuses the batch.
pub fn plan_cut(session: &Session, options: PlanOptions) -> Result<Option<PlannedCut>, TrainError> {
    if let Sharing::Dp { coordinator_share } = session.config.device.sharing {
        return plan_coordinated(session, options, coordinator_share).map(Some);
    }
    let Some(schedule) = session.pipeline_schedule() else { return Ok(None) };
    let cutter = Cutter::new(session, schedule, options)?;
    let planned = cutter.cut()?.into_iter().enumerate().map(|(device, stages)| {
        let work = cutter.work(stages, device);
        planned_part(session, (&work, STEPS), (cutter.backend, cutter.batch), options)
    });
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
    let policy = session.describe_choice(Some(&cutter.choice));
    Ok(Some(PlannedCut { parts, policy, batch: cutter.batch, micro_batch, micro_batches, course }))
}

/// Plans so many steps of each of these devices, with all their micro-batches, and an evaluation batch; `None` where all
/// have the same to do.
pub(crate) fn plan_parts(
    session: &Session,
    options: PlanOptions,
    steps: usize,
) -> Result<Option<Vec<PlannedPart>>, TrainError> {
    if let Sharing::Dp { coordinator_share } = session.config.device.sharing {
        return plan_coordinated_steps(session, options, coordinator_share, steps).map(Some);
    }
    let Some(schedule) = session.pipeline_schedule() else { return Ok(None) };
    let cutter = Cutter::new(session, schedule, options)?;
    let micro_batches = cutter.batch.div_ceil(cutter.choice.micro_batch);
    let parts = cutter.cut()?.into_iter().enumerate().map(|(device, stages)| {
        let work = PartWork { micro_batches, ..cutter.work(stages, device) };
        planned_part(session, (&work, steps), (cutter.backend, cutter.batch), options)
    });
    parts.collect::<Result<_, _>>().map(Some)
}

/// What one device does in so many steps, planned.
pub(super) fn planned_part(
    session: &Session,
    (work, steps): (&PartWork, usize),
    (backend, batch): (Backend, usize),
    options: PlanOptions,
) -> Result<PlannedPart, TrainError> {
    let PartWork { stages, device, .. } = work.clone();
    let name = |stage: usize| session.stages[stage].clone();
    let recording = record_part(session, work, steps, backend)?;
    Ok(PlannedPart {
        names: [name(stages.start), name(stages.end - 1)],
        limit_bytes: session.limit_of(device).or(options.limit_bytes),
        timeline: timeline_of(session, &recording, device, (backend, batch)),
        seconds: work.seconds(session, backend)?,
        device: session.config.device.devices[device].to_string(),
        stages,
    })
}

/// The timeline of what was recorded of a device.
fn timeline_of(
    session: &Session,
    recording: &Recording,
    device: usize,
    (backend, batch): (Backend, usize),
) -> Timeline {
    let head = Head {
        title: format!("{} · batch {batch} · device {device}", session.architecture.name()),
        device: session.config.device.devices[device].to_string(),
        limit_bytes: session.limit_of(device),
    };
    replay(recording, backend, head)
}

/// The stages of each of the devices that the session's model is cut over.
///
/// # Errors
/// Where there are no such stages, or fewer than devices, or the model refuses the batch.
pub(crate) fn cut(session: &Session, schedule: Schedule) -> Result<Vec<Range<usize>>, TrainError> {
    Cutter::new(session, schedule, PlanOptions::default())?.cut()
}

/// Cuts of the session's model among which one is good whatever is changed of how it is trained: where it is best now,
/// and where it is where activations are few. Nothing where the model is not cut, or there is nothing to choose.
pub(crate) fn usual_cuts(session: &Session) -> Vec<Vec<Range<usize>>> {
    let (Some(schedule), Some(Cut::Balanced(_))) =
        (session.pipeline_schedule(), session.config.device.sharing.cut())
    else {
        return Vec::new();
    };
    let few = [("memory.micro_batch", "2"), ("memory.recompute", "stages")];
    let few = few.map(|(key, value)| (key.to_owned(), value.to_owned()));
    // Where there is no such training, whoever plans is told.
    let now = cut(session, schedule).ok();
    let with_few = session.varied(&few).ok().and_then(|session| cut(&session, schedule).ok());
    let with_few = with_few.filter(|cut| now.as_ref() != Some(cut));
    now.into_iter().chain(with_few).collect()
}

/// The planned peak of the device that is fullest, of those that the session's model lies on. Where they may use
/// different amounts it is scaled, so that it can be held against the least of them.
///
/// # Errors
/// As those of [`plan`](super::plan) and [`plan_cut`].
pub fn planned_peak(session: &Session, options: PlanOptions) -> Result<Bytes, TrainError> {
    if let Some(schedule) = session.pipeline_schedule() {
        return Cutter::new(session, schedule, options)?.peak_of_fullest();
    }
    match plan_cut(session, options)? {
        Some(PlannedCut { parts, .. }) => {
            let peaks = parts.iter().map(PlannedPart::planned_peak_bytes).enumerate();
            let scaled = peaks.map(|(device, peak)| session.bytes_of_smallest(device, peak));
            Ok(scaled.max().unwrap_or_default())
        }
        None => Ok(super::plan(session, options)?.peak().categories.total()),
    }
}

/// What is planned for all devices of the session together: where they are parts of one machine, it has to have that.
///
/// # Errors
/// As those of [`planned_peak`].
pub fn planned_sum(session: &Session) -> Result<Bytes, TrainError> {
    let options = PlanOptions::default();
    match plan_cut(session, options)? {
        Some(cut) => Ok(cut.parts.iter().map(PlannedPart::planned_peak_bytes).sum()),
        None => {
            let replicas = session.world_size() as u64;
            Ok(Bytes::new(planned_peak(session, options)?.get().saturating_mul(replicas)))
        }
    }
}

/// Plans what the devices of a cut model hold, where it is cut.
///
/// # Errors
/// As those of [`plan_cut`], and [`TrainError::TooLarge`] where `refuses` and a device cannot hold its part.
pub(crate) fn check_parts(session: &Session, refuses: bool) -> Result<Option<PlannedCut>, TrainError> {
    let Some(cut) = plan_cut(session, PlanOptions::default())? else { return Ok(None) };
    for (index, part) in cut.parts.iter().enumerate().filter(|_| refuses) {
        let planned_peak_bytes = part.planned_peak_bytes();
        let at_least = planned_peak_bytes.get() as f64 * (1.0 - backend(session).error());
        if let Some(limit_bytes) = part.limit_bytes
            && at_least > limit_bytes.get() as f64
        {
            let device = part.device.clone();
            return Err(TrainError::TooLarge { index, device, planned_peak_bytes, limit_bytes });
        }
    }
    Ok(Some(cut))
}

impl<'a> Cutter<'a> {
    fn new(session: &'a Session, schedule: Schedule, options: PlanOptions) -> Result<Self, TrainError> {
        let batch = options.batch.unwrap_or_else(|| session.largest_train_batch());
        let backend = options.backend.unwrap_or_else(|| backend(session));
        let limit_bytes = options.limit_bytes.or(session.limit_bytes);
        let mut choice = session.choice(Occasion { batch, backend, limit_bytes })?;
        choice.micro_batch = options.micro_batch.unwrap_or(choice.micro_batch).min(batch);
        Ok(Self::with_choice(session, schedule, (batch, backend), choice))
    }

    /// As it would be with such micro-batches and such recomputation.
    pub(super) fn with_choice(
        session: &'a Session,
        schedule: Schedule,
        (batch, backend): (usize, Backend),
        choice: Choice,
    ) -> Self {
        let devices = session.config.device.devices.len();
        Self { session, backend, schedule, choice, batch, devices }
    }

    /// The stages of each device: as configured, or so that the fullest, or the slowest, is as little so as can be.
    ///
    /// # Errors
    /// Where there are no such stages, or fewer than devices.
    pub(super) fn cut(&self) -> Result<Vec<Range<usize>>, TrainError> {
        let session = self.session;
        let names: Vec<&str> = session.stages.iter().map(String::as_str).collect();
        let mut cost = match session.config.device.sharing.cut() {
            Some(Cut::At(at)) => {
                check_names(&session.config, "device.cut", at, &names).map_err(SessionError::from)?;
                return Ok(cut_by_names(&names, at, self.devices)?);
            }
            Some(Cut::Balanced(balance)) => {
                |stages: Range<usize>, device: usize| -> Result<u64, TrainError> {
                    match balance {
                        Balance::Memory => Ok(self.fullness(stages, device)?.get()),
                        // Nanoseconds.
                        Balance::Time => Ok((self.seconds(stages, device)? * 1e9) as u64),
                    }
                }
            }
            None => return Ok(once(0..names.len()).collect()),
        };
        best_cut(names.len(), self.devices, &mut cost)
    }

    /// The planned peak of the fullest device, [scaled](Session::bytes_of_smallest).
    pub(super) fn peak_of_fullest(&self) -> Result<Bytes, TrainError> {
        self.peak_of_fullest_at(&self.cut()?)
    }

    /// The same of a cut that is known.
    pub(super) fn peak_of_fullest_at(&self, cut: &[Range<usize>]) -> Result<Bytes, TrainError> {
        let mut peaks = cut.iter().enumerate().map(|(device, stages)| self.fullness(stages.clone(), device));
        peaks.try_fold(Bytes::default(), |most, peak| Ok(most.max(peak?)))
    }

    /// A device's planned peak, scaled so that it can be held against those of others.
    pub(super) fn fullness(&self, stages: Range<usize>, device: usize) -> Result<Bytes, TrainError> {
        let timeline = self.timeline(stages, device)?;
        Ok(self.session.bytes_of_smallest(device, timeline.peak().categories.total()))
    }

    fn work(&self, stages: Range<usize>, device: usize) -> PartWork {
        let Choice { micro_batch, recompute } = self.choice.clone();
        let all = self.batch.div_ceil(micro_batch);
        let enough = self.schedule.in_flight(device, self.devices, all) + BEYOND;
        PartWork {
            stages,
            device,
            role: Role::Part { devices: self.devices, schedule: self.schedule },
            micro_batch,
            micro_batches: all.min(enough),
            eval_batch: eval_batch(self.session, &self.choice),
            recompute,
        }
    }

    /// What a device does in some steps, recorded.
    pub(super) fn recording(&self, stages: Range<usize>, device: usize) -> Result<Recording, TrainError> {
        record_part(self.session, &self.work(stages, device), STEPS, self.backend)
    }

    pub(super) fn timeline(&self, stages: Range<usize>, device: usize) -> Result<Timeline, TrainError> {
        Ok(self.replayed(&self.recording(stages, device)?, device))
    }

    /// The timeline of what was recorded.
    pub(super) fn replayed(&self, recording: &Recording, device: usize) -> Timeline {
        timeline_of(self.session, recording, device, (self.backend, self.batch))
    }

    /// How many micro-batches a device holds activations of at a time.
    pub(super) fn in_flight(&self, device: usize) -> usize {
        self.schedule.in_flight(device, self.devices, self.batch.div_ceil(self.choice.micro_batch))
    }

    /// About how long the device computes for a micro-batch.
    fn seconds(&self, stages: Range<usize>, device: usize) -> Result<f64, TrainError> {
        self.work(stages, device).seconds(self.session, self.backend)
    }
}
