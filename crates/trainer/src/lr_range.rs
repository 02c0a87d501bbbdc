//! The learning-rate range test: how the loss answers to each rate.

use oomph_runs::{Event, Observer, Tick};

use crate::{Stop, StopReason};

/// Shares of the running mean of the loss that a step keeps.
const SMOOTHING: f64 = 0.9;

/// The share of the fall of the loss that is done where the fall counts as begun.
const BEGUN: f64 = 0.1;

/// A loss of so many times the lowest ends the test: larger rates only diverge further.
const DIVERGED: f64 = 4.0;

/// A step of the test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LrPoint {
    /// The learning rate.
    pub lr: f64,
    /// The loss of the step's batch, before the step.
    pub loss: f64,
    /// The running mean of the loss, without the bias towards 0 of its first steps.
    pub smoothed: f64,
}

/// A learning-rate range test ([Smith 2017](https://arxiv.org/abs/1506.01186), section 3.3): a training whose rate grows by a
/// constant factor a step, as the schedule `exponential` has it, observed.
///
/// It asks the training to stop once the loss diverges.
#[derive(Debug, Default)]
pub struct LrRange {
    points: Vec<LrPoint>,
    mean: f64,
    stop: Stop,
    /// Ends the test from outside.
    outside: Option<Stop>,
}

impl LrRange {
    /// A test that ends its training by `stop`.
    pub fn new(stop: Stop) -> Self {
        Self { points: Vec::new(), mean: 0.0, stop, outside: None }
    }

    /// Ends the test once `outside` asks for it, such as by a signal.
    pub fn follow(&mut self, outside: Stop) {
        self.outside = Some(outside);
    }

    /// The steps so far.
    pub fn points(&self) -> &[LrPoint] {
        &self.points
    }

    fn add(&mut self, lr: f64, loss: f64) {
        if !loss.is_finite() {
            return self.stop.request(StopReason::Terminate);
        }
        self.mean = SMOOTHING * self.mean + (1.0 - SMOOTHING) * loss;
        let steps = i32::try_from(self.points.len() + 1).unwrap_or(i32::MAX);
        let smoothed = self.mean / (1.0 - SMOOTHING.powi(steps));
        self.points.push(LrPoint { lr, loss, smoothed });
        let least = self.points.iter().map(|point| point.smoothed).fold(f64::INFINITY, f64::min);
        if smoothed > DIVERGED * least {
            self.stop.request(StopReason::Terminate);
        }
    }

    /// The rate to train with: the middle, on a logarithmic scale, between the rate at which a tenth of the fall of the running
    /// mean is done and the rate at which it is lowest. `None` where the loss falls nowhere.
    pub fn suggested(&self) -> Option<f64> {
        let lowest = self.points.iter().min_by(|one, other| one.smoothed.total_cmp(&other.smoothed))?;
        let before: Vec<_> = self.points.iter().take_while(|point| point.lr <= lowest.lr).collect();
        let highest = before.iter().map(|point| point.smoothed).fold(f64::NEG_INFINITY, f64::max);
        let fallen = highest - BEGUN * (highest - lowest.smoothed);
        // From the lowest back, so that noise on the flat part before the fall does not count.
        let begin = before.iter().rev().take_while(|point| point.smoothed < fallen).last()?;
        (begin.lr < lowest.lr).then(|| (begin.lr * lowest.lr).sqrt())
    }
}

/// Observes the training of the test.
impl Observer for LrRange {
    fn event(&mut self, event: &Event) {
        if let Event::Step(metrics) = event {
            self.add(metrics.lr, metrics.loss);
        }
    }

    fn tick(&mut self, _tick: Tick) {
        if let Some(reason) = self.outside.as_ref().and_then(Stop::reason) {
            self.stop.request(reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_in_the_middle_of_the_fall() {
        let stop = Stop::new();
        let mut test = LrRange::new(stop.clone());
        // Flat to 1e-4, falling to 1e-1, and up from there.
        for step in 0..100 {
            let exponent = -6.0 + 7.0 * f64::from(step) / 100.0;
            let loss = match exponent {
                flat if flat < -4.0 => 2.0,
                falling if falling < -1.0 => 2.0 - 0.5 * (falling + 4.0),
                rising => 0.5 + 20.0 * (rising + 1.0),
            };
            if stop.reason().is_none() {
                test.add(10f64.powf(exponent), loss);
            }
        }
        let suggested = test.suggested().expect("a rate");
        assert!((1e-4..1e-1).contains(&suggested), "{suggested}");
        // It diverged, and ended early.
        assert!(stop.reason().is_some() && test.points().len() < 100);
    }

    #[test]
    fn a_loss_that_never_falls_or_is_no_number_suggests_nothing() {
        let stop = Stop::new();
        let mut test = LrRange::new(stop.clone());
        assert_eq!(test.suggested(), None);
        (0..9).for_each(|step| test.add(0.1, f64::from(step)));
        assert_eq!(test.suggested(), None);
        test.add(0.2, f64::NAN);
        assert_eq!((test.points().len(), stop.reason()), (9, Some(StopReason::Terminate)));
    }

    #[test]
    fn the_mean_has_no_bias_towards_zero() {
        let mut test = LrRange::new(Stop::new());
        (0..5).for_each(|_| test.add(0.1, 3.0));
        assert!(test.points().iter().all(|point| (point.smoothed - 3.0).abs() < 1e-12));
    }
}
