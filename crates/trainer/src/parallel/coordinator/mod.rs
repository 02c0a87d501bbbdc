//! One device coordinates replicas on the others: `dp`, as PyTorch's `DataParallel`.
//!
//! In every step the first device copies its parameters to the others, scatters the batch over all, gathers what they put
//! out, computes the loss of it, scatters its gradient, and sums the gradients that backward gives on each. It alone has the
//! optimizer. So it holds more than the others, and these wait for it: `ddp` is better at both. It is here to be looked at.
//!
//! What travels goes through host memory.

mod step;

use std::{ops::Range, sync::Arc, time::Duration};

use oomph_model::{Policy, Stages};
use oomph_parallel::{rows, rows_with_coordinator};

use super::Place;
use crate::segments::{Position, Segments};

pub(crate) use step::{CoordinatedStep, compare};

/// The devices, and what each of them has of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Coordinator {
    pub(crate) places: Arc<[Place]>,
    /// The share of the first device, which is that of the others where none is set.
    pub(crate) share: Option<f64>,
    /// How long a device waits for another.
    pub(crate) timeout: Duration,
}

/// The rows that each of so many devices has, of so many samples that the first of them scatters.
pub(crate) fn scattered(samples: usize, devices: usize, share: Option<f64>) -> Vec<Range<usize>> {
    let of = |device| match share {
        Some(share) => rows_with_coordinator(samples, share, device, devices),
        None => rows(samples, device, devices),
    };
    (0..devices).map(of).collect()
}

/// The most rows that one of them has.
pub(crate) fn largest_share(samples: usize, devices: usize, share: Option<f64>) -> usize {
    scattered(samples, devices, share).iter().map(ExactSizeIterator::len).max().unwrap_or(samples)
}

/// How many samples of a batch are scattered at once, at least one: so that a micro-batch of each device has so many at
/// most, and all rounds are as even as can be.
pub(crate) fn round(batch: usize, micro_batch: usize, devices: usize, share: Option<f64>) -> usize {
    let fits = |samples: &usize| largest_share(*samples, devices, share) <= micro_batch;
    let most = (1..=micro_batch * devices).rev().find(fits).unwrap_or(1);
    batch.div_ceil(batch.div_ceil(most).max(1)).max(1)
}

impl Coordinator {
    /// The segments of each replica. No last stage computes again: backward comes to it first, while all is there.
    pub(crate) fn segments(&self, model: &Stages, recompute: &[bool], policy: &Policy) -> Vec<Segments> {
        let position = Position { is_continued: true, ..Position::default() };
        let recompute = kept_last(recompute);
        let of = |place: &Place| {
            let seeded = Some(place.tracked.clone());
            Segments::new(model, recompute.clone(), policy, seeded, &[], position)
        };
        self.places.iter().map(of).collect()
    }
}

/// The same, but for the last stage.
pub(crate) fn kept_last(recompute: &[bool]) -> Vec<bool> {
    let mut recompute = recompute.to_vec();
    if let Some(last) = recompute.last_mut() {
        *last = false;
    }
    recompute
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_gives_no_device_more_than_a_micro_batch() {
        for (micro_batch, devices, share) in
            [(7, 3, None), (8, 2, Some(0.25)), (5, 4, Some(0.6)), (1, 2, Some(0.1))]
        {
            for batch in [0, 1, 5, 20, 64, 1000] {
                let samples = round(batch, micro_batch, devices, share);
                assert!(largest_share(samples, devices, share) <= micro_batch || samples == 1);
                assert!(batch.div_ceil(samples) * samples < batch + batch.div_ceil(samples).max(1));
            }
        }
        assert_eq!(round(21, 7, 3, None), 21);
        assert_eq!(round(22, 7, 3, None), 11);
        assert_eq!(round(20, 8, 2, Some(0.25)), 10);
    }
}
