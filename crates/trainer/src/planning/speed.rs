use oomph_plan::{Backend, cost};

use super::{Occasion, Work, record};
use crate::Session;

/// About how much longer a sample takes in training with one session than with another, on the same backend: 0.1 is a
/// tenth longer. `None` where there is no such training. Nothing is executed: it is estimated from the operations of a
/// step (`oomph_plan::cost`).
pub fn slowdown(before: &Session, after: &Session, backend: Backend) -> Option<f64> {
    Some(seconds_per_sample(after, backend)? / seconds_per_sample(before, backend)? - 1.0)
}

/// About how long a sample takes. Micro-batches alike take as long as each other, so that of many two are looked at.
pub(crate) fn seconds_per_sample(session: &Session, backend: Backend) -> Option<f64> {
    let batch = session.share_of(session.largest_train_batch());
    let occasion = Occasion { batch, backend, limit_bytes: session.limit_bytes };
    let choice = session.choice(occasion).ok()?;
    let micro_batch = choice.micro_batch;
    let of = |batch| {
        let of_steps = Work::of_steps(session, batch, choice.clone());
        let work = Work { steps: 1, eval_batches: 0, ..of_steps };
        Some(cost(&record(session, &work, backend).ok()?, backend))
    };
    let one = of(micro_batch)?;
    let more = if batch > micro_batch { of(2 * micro_batch)? - one } else { 0.0 };
    let micro_batches = batch as f64 / micro_batch as f64;
    Some((one + more * (micro_batches - 1.0)) / batch as f64)
}
