//! Memory known before a run: records a step and lets the planner play the allocator over it.

mod choice;
mod choice_of_parts;
mod coordinated;
mod cut;
mod largest;
mod parts;
mod record;
mod speed;

use oomph_config::DeviceName;
use oomph_core::{Bytes, Split};
use oomph_memory::Timeline;
use oomph_plan::{Backend, Head, Recording, replay};

use crate::{Session, SessionError, TrainError, session::threads_of_each};
pub(crate) use choice::{Choice, Occasion, choose, recomputed};
pub use cut::{PlannedCut, PlannedPart, plan_cut, planned_peak, planned_sum};
pub(crate) use cut::{check_parts, cut, plan_parts, usual_cuts};
pub use largest::{LargestBatch, fits, largest_batch};
use record::{Work, record};
pub(crate) use speed::seconds_per_sample;
pub use speed::slowdown;

/// What is planned, where it differs from the session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlanOptions {
    /// Samples of one optimizer step; else the configured batch.
    pub batch: Option<usize>,
    /// Samples of one forward-backward; else the configured micro-batch, at most the batch.
    pub micro_batch: Option<usize>,
    /// Whose allocator; else that of the configured device.
    pub backend: Option<Backend>,
    /// What the device may use; else what the session knows.
    pub limit_bytes: Option<Bytes>,
}

/// Plans three optimizer steps and an evaluation batch: `step 1` makes the optimizer's state, `step 3` has all of it from
/// the start, as all that follow, and `evaluation` has it beside. Nothing is executed and no tensor allocated.
///
/// Of replicas it is one of those that have most of the batch.
///
/// # Errors
/// Where the model or the task refuse the batch, or it has no sample for each replica.
pub fn plan(session: &Session, options: PlanOptions) -> Result<Timeline, TrainError> {
    check_shares(session, options)?;
    plan_steps(session, options, STEPS, 1)
}

/// Refuses a batch that is asked for and has no sample for each replica.
fn check_shares(session: &Session, options: PlanOptions) -> Result<(), SessionError> {
    let devices = session.world_size();
    match options.batch {
        Some(samples) if samples < devices => Err(SessionError::TooFew { samples, devices }),
        _ => Ok(()),
    }
}

/// The first step makes the optimizer's state. What some share between two tensors after it, as AMSGrad does, is two
/// from the second on; the third has all of it from the start, as every one that follows.
pub(crate) const STEPS: usize = 3;

/// As [`plan`], for so many steps and evaluation batches behind them.
pub(crate) fn plan_steps(
    session: &Session,
    options: PlanOptions,
    steps: usize,
    eval_batches: usize,
) -> Result<Timeline, TrainError> {
    Ok(StepRecording::new(session, options, steps, eval_batches)?.replayed(session, false))
}

/// The same for the first replica and for any other: that has threads of its own, the first one the program's.
pub(crate) fn plan_replicas(
    session: &Session,
    options: PlanOptions,
    steps: usize,
    eval_batches: usize,
) -> Result<[Timeline; 2], TrainError> {
    let mut recorded = StepRecording::new(session, options, steps, eval_batches)?;
    Ok([false, true].map(|is_on_own_threads| recorded.replayed(session, is_on_own_threads)))
}

/// Training on one device, recorded.
struct StepRecording {
    recording: Recording,
    batch: usize,
    backend: Backend,
    limit_bytes: Option<Bytes>,
}

impl StepRecording {
    fn new(
        session: &Session,
        options: PlanOptions,
        steps: usize,
        eval_batches: usize,
    ) -> Result<Self, TrainError> {
        let batch = options.batch.unwrap_or_else(|| session.largest_train_batch());
        let backend = options.backend.unwrap_or_else(|| backend(session));
        let limit_bytes = options.limit_bytes.or(session.limit_bytes);
        let share = session.share_of(batch);
        let mut choice = session.choice(Occasion { batch: share, backend, limit_bytes })?;
        choice.micro_batch = options.micro_batch.unwrap_or(choice.micro_batch).min(share);
        let work = Work { steps, eval_batches, ..Work::of_steps(session, share, choice) };
        Ok(Self { recording: record(session, &work, backend)?, batch, backend, limit_bytes })
    }

    fn replayed(&mut self, session: &Session, is_on_own_threads: bool) -> Timeline {
        self.recording.is_on_own_threads = is_on_own_threads;
        let timeline = replayed(session, &self.recording, self.batch, self.backend);
        Timeline { limit_bytes: self.limit_bytes, ..timeline }
    }
}

/// The timeline of recorded training.
fn replayed(session: &Session, recording: &Recording, batch: usize, backend: Backend) -> Timeline {
    let head = Head {
        title: format!("{} · batch {batch}", session.architecture.name()),
        device: session.config.device.devices[0].to_string(),
        limit_bytes: session.limit_bytes,
    };
    replay(recording, backend, head)
}

/// Plans an evaluation batch alone: of a model that is there, without a step before it.
pub(crate) fn plan_evaluation(session: &Session, options: PlanOptions) -> Result<Timeline, TrainError> {
    let mut timeline = plan_steps(session, options, 0, 1)?;
    let batch = session.eval_batch().min(session.source.len(Split::Test).max(1));
    timeline.title = format!("{} · evaluation batch {batch}", session.architecture.name());
    Ok(timeline)
}

/// Whose allocator the configured device has.
pub fn backend(session: &Session) -> Backend {
    match session.config.device.devices[0] {
        DeviceName::Cpu => {
            let threads = threads_of_each(&session.config);
            Backend::Cpu { threads: threads.unwrap_or_else(oomph_memory::running_threads) }
        }
        DeviceName::Cuda(_) => Backend::Cuda,
    }
}
