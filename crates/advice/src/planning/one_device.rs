use oomph_core::Split;
use oomph_engine::session::{Session, largest_train_batch};
use oomph_plan::{Backend, Recording};
use oomph_timeline::Timeline;

use super::{
    choice::{chosen, eval_batch},
    chosen::Chosen,
    device_recording::{DeviceWork, record},
    duration::PlannedTime,
    fit::fitted,
    options::{PlanOptions, check_shares},
    splitter::timeline_of_device,
};
use crate::error::PlanError;

/// Plans three optimizer steps and an evaluation batch on one device. `step 1` creates the optimizer state. `step 3`
/// and all later steps have all of it from the start. The plan executes nothing and allocates no tensors.
///
/// With replicas it plans a replica with the largest share of the batch.
///
/// # Errors
/// If the model or the task refuses the batch, or if the batch has no sample for each replica.
pub fn plan(session: &Session, options: PlanOptions) -> Result<Timeline, PlanError> {
    check_shares(session, options)?;
    let [timeline] = plan_work(&*fitted(session, options)?, options, |work| work, [false])?;
    Ok(timeline)
}

/// As [`plan`], with another number of steps, and of evaluation batches after them; for the first replica and for any
/// other. The first one uses the threads of the program; the others have their own.
///
/// # Errors
/// The errors of [`plan`].
pub fn plan_replicas(
    session: &Session,
    options: PlanOptions,
    steps: usize,
    eval_batches: usize,
) -> Result<[Timeline; 2], PlanError> {
    let session = &*fitted(session, options)?;
    plan_work(session, options, |work| DeviceWork { steps, eval_batches, ..work }, [false, true])
}

/// Plans one evaluation batch without any step before it.
///
/// # Errors
/// The errors of [`plan`].
pub fn plan_evaluation(session: &Session, options: PlanOptions) -> Result<Timeline, PlanError> {
    let batch = eval_batch(session).min(session.source.len(Split::Test).max(1));
    let of = |work: DeviceWork| DeviceWork { steps: 0, eval_batch: batch, ..work };
    let [mut timeline] = plan_work(session, options, of, [false])?;
    timeline.title = format!("{} · evaluation batch {batch}", session.architecture.name());
    Ok(timeline)
}

/// Plans the work that `of` makes of that of a single device, and replays it for each of some devices that are on threads
/// of their own, or not.
fn plan_work<const N: usize>(
    session: &Session,
    options: PlanOptions,
    of: impl Fn(DeviceWork) -> DeviceWork,
    own_threads: [bool; N],
) -> Result<[Timeline; N], PlanError> {
    let (mut recording, chosen) = recorded(session, options, of)?;
    Ok(own_threads.map(|is_on_own_threads| {
        recording.is_on_own_threads = is_on_own_threads;
        replayed(session, options, &recording, &chosen)
    }))
}

fn recorded(
    session: &Session,
    options: PlanOptions,
    of: impl Fn(DeviceWork) -> DeviceWork,
) -> Result<(Recording, Chosen), PlanError> {
    let chosen = chosen(session, options)?;
    let share = session.share_of(chosen.batch);
    let work = of(DeviceWork::alone(session, share, chosen.split.clone()));
    Ok((record(session, &work, chosen.backend)?, chosen))
}

fn replayed(session: &Session, options: PlanOptions, recording: &Recording, chosen: &Chosen) -> Timeline {
    let limit_bytes = options.limit_bytes.or(session.limit_bytes);
    let timeline = timeline_of_device(session, recording, 0, chosen.backend, chosen.batch);
    Timeline { limit_bytes, ..timeline }
}

/// As [`plan`], with the planned time of a step. The time is `None` with several devices, and where nobody knows how fast the
/// device is: a CPU before `oomph calibrate`, and a GPU whose data sheet is unknown.
///
/// # Errors
/// The errors of [`plan`].
pub fn plan_with_time(
    session: &Session,
    options: PlanOptions,
) -> Result<(Timeline, Option<PlannedTime>), PlanError> {
    check_shares(session, options)?;
    let session = &*fitted(session, options)?;
    let (recording, chosen) = recorded(session, options, |work| work)?;
    let speeds = session.speeds.known(chosen.backend).filter(|_| session.world_size() == 1);
    let time = speeds.map(|speeds| PlannedTime::of(session, &recording, speeds, &chosen));
    Ok((replayed(session, options, &recording, &chosen), time))
}

/// The estimated additional time per sample of training with `after` compared to `before`, as a share: 0.1 means 10 %
/// longer. `None` if one of them cannot be planned. The estimate comes from the operations of a step
/// (`oomph_plan::time`); nothing is executed.
pub fn slowdown(before: &Session, after: &Session, backend: Backend) -> Option<f64> {
    Some(seconds_per_sample(after, backend)? / seconds_per_sample(before, backend)? - 1.0)
}

/// The estimated seconds per sample in training; `None` if the session cannot be planned.
pub fn seconds_per_sample(session: &Session, backend: Backend) -> Option<f64> {
    let batch = largest_train_batch(session);
    let options = PlanOptions {
        batch: Some(batch),
        backend: Some(backend),
        limit_bytes: session.limit_bytes,
        ..PlanOptions::default()
    };
    let session = &*fitted(session, options).ok()?;
    let (recording, chosen) = recorded(session, options, without_evaluation).ok()?;
    let time = PlannedTime::of(session, &recording, session.speeds.of(backend), &chosen);
    Some(time.step_seconds / session.share_of(batch) as f64)
}

fn without_evaluation(work: DeviceWork) -> DeviceWork {
    DeviceWork { eval_batches: 0, ..work }
}
