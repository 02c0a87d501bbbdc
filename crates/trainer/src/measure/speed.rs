use oomph_engine::exhausted;
use oomph_memory::{Account, charge};

use crate::{TrainError, driver::DrivenStep, progress::read_all};

/// Warm-up steps. They make the optimizer state and the backend's lasting buffers, so they take longer than later steps.
pub const WARMUP: usize = 2;

#[derive(Clone, Copy, Debug)]
pub(super) struct TimedStep {
    pub(super) samples: usize,
    pub(super) seconds: f64,
    pub(super) loss: f64,
}

impl TimedStep {
    /// Ends a step by reading its loss: an asynchronous device is done only then.
    pub(super) fn end(driven: DrivenStep) -> Result<Self, TrainError> {
        exhausted::check()?;
        let DrivenStep { outcome, begun, .. } = driven;
        let samples = outcome.samples;
        let losses = charge(Account::Device, || read_all(outcome.loss.into_iter().collect()))?;
        let loss = losses.first().map_or(f64::NAN, |loss| f64::from(*loss));
        Ok(Self { samples, seconds: begun.elapsed().as_secs_f64(), loss })
    }
}

/// How fast steps were, warm-up left out. Where there are warm-up steps only, they count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speed {
    /// The median of the step times.
    pub(super) step_seconds: f64,
    /// The samples of a step by that time, so that the two agree.
    pub(super) samples_per_second: f64,
}

impl Speed {
    pub(super) fn of(steps: &[TimedStep]) -> Self {
        let timed = steps.get(WARMUP..).filter(|timed| !timed.is_empty()).unwrap_or(steps);
        let samples = timed.iter().map(|step| step.samples as f64).sum::<f64>() / timed.len() as f64;
        let step_seconds = median(timed.iter().map(|step| step.seconds).collect());
        Self { step_seconds, samples_per_second: samples / step_seconds }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.as_slice() {
        [] => f64::NAN,
        values if values.len() % 2 == 1 => values[middle],
        values => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_is_that_of_the_median_step() {
        let step = |seconds| TimedStep { samples: 8, seconds, loss: 0.0 };
        // Two steps of warm-up, and one that another process disturbed.
        let speed = Speed::of(&[9.0, 9.0, 0.5, 0.5, 7.0].map(step));
        assert_eq!((speed.step_seconds, speed.samples_per_second), (0.5, 16.0));
        assert_eq!(Speed::of(&[step(2.0)]).samples_per_second, 4.0);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 9.0]), 3.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), 3.0);
        assert!(median(Vec::new()).is_nan());
    }
}
