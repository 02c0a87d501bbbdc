use oomph_engine::session::{Session, SplitKey, StepSplit, largest_train_batch};
use oomph_plan::{Backend, cost};

use super::{
    choice::choose,
    device_recording::{DeviceWork, record},
};

/// The estimated additional time per sample of training with `after` compared to `before`, as a share: 0.1 means 10 %
/// longer. `None` if one of them cannot be planned. The estimate comes from the operations of a step
/// (`oomph_plan::cost`); nothing is executed.
pub fn slowdown(before: &Session, after: &Session, backend: Backend) -> Option<f64> {
    Some(seconds_per_sample(after, backend)? / seconds_per_sample(before, backend)? - 1.0)
}

/// The estimated seconds per sample in training; `None` if the session cannot be planned. Two micro-batches are
/// recorded, since equal micro-batches take the same time.
pub fn seconds_per_sample(session: &Session, backend: Backend) -> Option<f64> {
    let batch = session.share_of(largest_train_batch(session));
    let key = SplitKey { batch, backend, limit_bytes: session.limit_bytes };
    let split: StepSplit = choose(session, key).ok()?;
    let micro_batch = split.micro_batch;
    let of = |batch| {
        let alone = DeviceWork::alone(session, batch, split.clone());
        let work = DeviceWork { steps: 1, eval_batches: 0, ..alone };
        Some(cost(&record(session, &work, backend).ok()?, backend))
    };
    let one = of(micro_batch)?;
    let more = if batch > micro_batch { of(2 * micro_batch)? - one } else { 0.0 };
    let micro_batches = batch as f64 / micro_batch as f64;
    Some((one + more * (micro_batches - 1.0)) / batch as f64)
}
