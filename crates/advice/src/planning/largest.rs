use oomph_core::Bytes;
use oomph_engine::session::{Session, backend};

use super::{
    choice::micro_batch_of,
    one_device::plan,
    options::{PlanOptions, fits},
};
use crate::error::PlanError;

/// The largest batch whose plan fits a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargestBatch {
    /// The batch.
    pub batch: usize,
    /// Its planned need: what the pools of a GPU reserve, else the planned peak.
    pub planned_peak_bytes: Bytes,
}

/// The largest batch up to `most` that fits `limit_bytes`; `None` if no batch fits. With replicas it is the batch of
/// all replicas together.
///
/// Peaks grow nearly in proportion to the batch, so the search needs few plans. Each guess is on the line through the
/// two closest plans. Every fourth guess halves the interval instead, in case the line misleads.
///
/// # Errors
/// If the model refuses every batch.
pub fn largest_batch(
    session: &Session,
    options: PlanOptions,
    limit_bytes: Bytes,
    most: usize,
) -> Result<Option<LargestBatch>, PlanError> {
    let backend = options.backend.unwrap_or_else(|| backend(session));
    let peak_of = |batch: usize| -> Result<Bytes, PlanError> {
        let timeline = plan(session, PlanOptions { batch: Some(batch), ..options })?;
        Ok(timeline.needed_bytes())
    };
    let peak = |batch: usize| {
        // The model may refuse a smaller last micro-batch. The whole micro-batches have the same peak.
        let rest = session.share_of(batch) % micro_batch_of(session, batch).max(1);
        peak_of(batch).or_else(|error| if rest == 0 { Err(error) } else { peak_of(batch - rest) })
    };
    // Each replica has at least one sample.
    let world = session.world_size();
    let (smallest, first) = match peak(world) {
        Ok(bytes) => (world, bytes),
        // Batch normalisation cannot be trained on one value per channel.
        Err(_) => (2 * world, peak(2 * world)?),
    };
    if !fits(first, limit_bytes, backend) {
        return Ok(None);
    }
    let mut low = LargestBatch { batch: smallest, planned_peak_bytes: first };
    let mut high = LargestBatch { batch: most.max(smallest) + 1, planned_peak_bytes: Bytes::new(u64::MAX) };
    let available = limit_bytes.get() as f64 / (1.0 + backend.margin());
    let mut step = 8;
    let mut turn = 0;
    while high.batch - low.batch > 1 {
        turn += 1;
        // Where peaks bend, the line alone would move on by small steps.
        let halves = turn % 4 == 0 && high.planned_peak_bytes.get() < u64::MAX;
        let guess =
            if halves { low.batch.midpoint(high.batch) } else { next_guess(low, high, available, step) };
        let planned_peak_bytes = peak(guess)?;
        let found = LargestBatch { batch: guess, planned_peak_bytes };
        if fits(planned_peak_bytes, limit_bytes, backend) {
            step = (guess - low.batch).max(1).saturating_mul(8);
            low = found;
        } else {
            high = found;
        }
    }
    Ok(Some(low))
}

/// The batch between `low` and `high` where the line through both meets `available` bytes; `low` plus `step` while
/// there is no upper plan yet.
fn next_guess(low: LargestBatch, high: LargestBatch, available: f64, step: usize) -> usize {
    if high.planned_peak_bytes.get() == u64::MAX {
        return low.batch.saturating_add(step).min(high.batch - 1);
    }
    let (from, to) = (low.planned_peak_bytes.get() as f64, high.planned_peak_bytes.get() as f64);
    let share = ((available - from) / (to - from).max(1.0)).clamp(0.0, 1.0);
    let guess = low.batch + ((high.batch - low.batch) as f64 * share) as usize;
    guess.clamp(low.batch + 1, high.batch - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_lies_strictly_between() {
        let at = |batch, bytes| LargestBatch { batch, planned_peak_bytes: Bytes::new(bytes) };
        assert_eq!(next_guess(at(1, 10), at(101, 1010), 505.0, 8), 50);
        assert_eq!(next_guess(at(1, 10), at(3, 1010), 11.0, 8), 2);
        assert_eq!(next_guess(at(1, 10), at(3, 1010), 1009.0, 8), 2);
        assert_eq!(next_guess(at(1, 10), at(1001, u64::MAX), 1009.0, 8), 9);
        assert_eq!(next_guess(at(999, 10), at(1001, u64::MAX), 1009.0, 64), 1000);
    }
}
