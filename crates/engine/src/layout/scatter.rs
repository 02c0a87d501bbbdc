use std::ops::Range;

use oomph_parallel::{rows, rows_with_coordinator};

/// How the coordinator of `dp` scatters a batch over replicas, like PyTorch's `DataParallel`.
///
/// In every step the coordinator copies its parameters to the replicas, scatters the batch, gathers the outputs,
/// computes their loss, scatters the gradient of the loss, and sums the gradients of all replicas. Only the coordinator
/// has the optimizer. It therefore needs more memory, and the replicas wait for it. `ddp` avoids both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scatter {
    /// The number of devices, including the coordinator.
    pub devices: usize,
    /// The coordinator's share of a batch, from 0 to 1; `None` for equal shares.
    pub share: Option<f64>,
}

impl Scatter {
    /// The rows of each device, of `samples` rows.
    pub fn rows(&self, samples: usize) -> Vec<Range<usize>> {
        (0..self.devices).map(|device| self.rows_of(samples, device)).collect()
    }

    /// The rows of one device, of `samples` rows.
    pub fn rows_of(&self, samples: usize, device: usize) -> Range<usize> {
        match self.share {
            Some(share) => rows_with_coordinator(samples, share, device, self.devices),
            None => rows(samples, device, self.devices),
        }
    }

    /// The number of rows of the device with the most rows.
    pub fn largest(&self, samples: usize) -> usize {
        (0..self.devices).map(|device| self.rows_of(samples, device).len()).max().unwrap_or(samples)
    }

    /// The number of samples of one round, at least 1. No device gets more than `micro_batch` of them, and all rounds
    /// are as even as possible.
    pub fn round(&self, batch: usize, micro_batch: usize) -> usize {
        let fits = |samples: &usize| self.largest(*samples) <= micro_batch;
        let most = (1..=micro_batch * self.devices).rev().find(fits).unwrap_or(1);
        batch.div_ceil(batch.div_ceil(most).max(1)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_gives_no_device_more_than_a_micro_batch() {
        for (micro_batch, devices, share) in
            [(7, 3, None), (8, 2, Some(0.25)), (5, 4, Some(0.6)), (1, 2, Some(0.1))]
        {
            let scatter = Scatter { devices, share };
            for batch in [0, 1, 5, 20, 64, 1000] {
                let samples = scatter.round(batch, micro_batch);
                assert!(scatter.largest(samples) <= micro_batch || samples == 1);
                assert!(batch.div_ceil(samples) * samples < batch + batch.div_ceil(samples).max(1));
            }
        }
        assert_eq!(Scatter { devices: 3, share: None }.round(21, 7), 21);
        assert_eq!(Scatter { devices: 3, share: None }.round(22, 7), 11);
        assert_eq!(Scatter { devices: 2, share: Some(0.25) }.round(20, 8), 10);
    }
}
