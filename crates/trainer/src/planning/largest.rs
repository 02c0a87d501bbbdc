use oomph_core::Bytes;
use oomph_plan::Backend;

use super::{PlanOptions, backend, plan};
use crate::{Session, TrainError};

/// The largest batch whose plan fits a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargestBatch {
    /// The batch.
    pub batch: usize,
    /// Its planned peak.
    pub planned_peak_bytes: Bytes,
}

/// Whether a planned peak fits a limit, with the margin that the backend's rules ask for.
pub fn fits(planned_peak_bytes: Bytes, limit_bytes: Bytes, backend: Backend) -> bool {
    planned_peak_bytes.get() as f64 * (1.0 + backend.margin()) <= limit_bytes.get() as f64
}

/// The largest batch up to `most` that fits `limit_bytes`; `None` where not even one of the smallest does. Of replicas it
/// is that of all of them.
///
/// Peaks grow with the batch, nearly in proportion, so it takes a few plans: each guess is made from the line through
/// the two nearest ones, and halves what is left where the line misleads.
///
/// # Errors
/// Where the model refuses every batch.
pub fn largest_batch(
    session: &Session,
    options: PlanOptions,
    limit_bytes: Bytes,
    most: usize,
) -> Result<Option<LargestBatch>, TrainError> {
    let backend = options.backend.unwrap_or_else(|| backend(session));
    let peak_of = |batch: usize| -> Result<Bytes, TrainError> {
        let timeline = plan(session, PlanOptions { batch: Some(batch), ..options })?;
        Ok(timeline.peak().categories.total())
    };
    let peak = |batch: usize| {
        // Micro-batches may leave a rest that the model cannot be trained on; what is whole takes as much.
        let rest = session.share_of(batch) % session.micro_batch_of(batch).max(1);
        peak_of(batch).or_else(|error| if rest == 0 { Err(error) } else { peak_of(batch - rest) })
    };
    // Each replica has a sample at least.
    let world = session.world_size();
    let (smallest, first) = match peak(world) {
        Ok(bytes) => (world, bytes),
        // Batch normalisation cannot be trained on one value a channel.
        Err(_) => (2 * world, peak(2 * world)?),
    };
    if !fits(first, limit_bytes, backend) {
        return Ok(None);
    }
    let mut low = LargestBatch { batch: smallest, planned_peak_bytes: first };
    let mut high = LargestBatch { batch: most.max(smallest) + 1, planned_peak_bytes: Bytes::new(u64::MAX) };
    let room = limit_bytes.get() as f64 / (1.0 + backend.margin());
    let mut step = 8;
    let mut turn = 0;
    while high.batch - low.batch > 1 {
        turn += 1;
        // A bend in between could have the line creep along.
        let halves = turn % 4 == 0 && high.planned_peak_bytes.get() < u64::MAX;
        let guess = if halves { low.batch.midpoint(high.batch) } else { next_guess(low, high, room, step) };
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

/// Between both: where the line through them meets the room, or further on where there is no upper one yet.
fn next_guess(low: LargestBatch, high: LargestBatch, room: f64, step: usize) -> usize {
    if high.planned_peak_bytes.get() == u64::MAX {
        return low.batch.saturating_add(step).min(high.batch - 1);
    }
    let (from, to) = (low.planned_peak_bytes.get() as f64, high.planned_peak_bytes.get() as f64);
    let share = ((room - from) / (to - from).max(1.0)).clamp(0.0, 1.0);
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

    #[test]
    fn a_margin_is_left() {
        let cpu = Backend::Cpu { threads: 1 };
        assert!(fits(Bytes::new(990), Bytes::new(1000), cpu));
        assert!(!fits(Bytes::new(995), Bytes::new(1000), cpu));
        assert!(!fits(Bytes::new(900), Bytes::new(1000), Backend::Cuda));
    }
}
