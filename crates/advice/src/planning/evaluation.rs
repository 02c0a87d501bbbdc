//! The batches of an evaluation.

use oomph_core::Split;
use oomph_data::{LastBatch, SampleOrder};
use oomph_engine::session::Session;

/// The order in which `world` ranks together see the held-out set, with batches of `batch` samples on each.
pub(crate) fn eval_order_of(session: &Session, batch: usize, world: usize) -> SampleOrder {
    let samples = session.source.len(Split::Test);
    let batch = batch * world;
    match session.source.is_continuous() {
        // As many streams as a single device has. Each stream starts without carried state.
        true => {
            let streams = session.config.train.eval_batch.unwrap_or(batch);
            SampleOrder::streams(samples, streams, LastBatch::Keep)
        }
        false => SampleOrder::eval(samples, batch),
    }
}

/// The most samples that one device has of an evaluation batch in a training with micro-batches of `micro_batch`.
pub(crate) fn largest_eval_share(session: &Session, micro_batch: usize) -> usize {
    // A coordinator evaluates alone.
    let world = if session.scatter().is_some() { 1 } else { session.world_size() };
    let batch = session.config.train.eval_batch.unwrap_or(micro_batch);
    eval_order_of(session, batch, world).shard(0, world).largest_share().max(1)
}
