//! The learning-rate range test: how the loss answers to each rate.

use oomph_runs::{Event, Observer, Tick};

use crate::{Stop, StopReason};

/// Shares of the running mean of the loss that a step keeps.
const SMOOTHING: f64 = 0.9;

/// Steps after which the running mean has settled. Before, it is the mean of few batches.
const SETTLED: usize = 10;

/// A fall of so many standard deviations of the running mean is one, and no chance of the batches.
const CLEAR: f64 = 6.0;

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

    /// The rate to train with: the one at which half of the fall of the running mean is done. `None` where the fall is not
    /// clearly larger than what the differences between batches give by chance, or is done in one step.
    pub fn suggested(&self) -> Option<f64> {
        let settled = self.points.get(SETTLED..)?;
        let least =
            |one: &(usize, &LrPoint), other: &(usize, &LrPoint)| one.1.smoothed.total_cmp(&other.1.smoothed);
        let (at, lowest) = settled.iter().enumerate().min_by(least)?;
        let before = &settled[..at];
        let highest = before.iter().map(|point| point.smoothed).fold(lowest.smoothed, f64::max);
        let fall = highest - lowest.smoothed;
        if fall <= CLEAR * noise(&self.points[..SETTLED + at]) {
            return None;
        }
        // From the lowest back, so that noise on the flat part before the fall does not count.
        let fallen = before.iter().rev().take_while(|point| point.smoothed < highest - fall / 2.0);
        fallen.last().map(|point| point.lr)
    }
}

/// The standard deviation of the running mean that the differences between batches give, by those between neighbours: they have
/// no trend in them ([von Neumann 1941](https://doi.org/10.1214/aoms/1177731677)).
fn noise(points: &[LrPoint]) -> f64 {
    let squares: Vec<f64> = points.windows(2).map(|pair| (pair[1].loss - pair[0].loss).powi(2)).collect();
    let of_batches = (squares.iter().sum::<f64>() / squares.len().max(1) as f64 / 2.0).sqrt();
    of_batches * ((1.0 - SMOOTHING) / (1.0 + SMOOTHING)).sqrt()
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
    use oomph_core::{Generator, Key};

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

    /// The suggestion for 100 rates from 1e-6 on whose loss falls by `fall` around 1e-2, plus noise between -1 and 1.
    fn suggested(fall: f64, seed: u64) -> Option<f64> {
        let mut test = LrRange::new(Stop::new());
        let mut generator = Generator::at(Key::new(seed));
        for step in 0..100 {
            let exponent = -6.0 + 7.0 * f64::from(step) / 100.0;
            let noise = f64::from(generator.uniform_in(-1.0, 1.0));
            test.add(10f64.powf(exponent), 20.0 - fall / (1.0 + (-4.0 * (exponent + 2.0)).exp()) + noise);
        }
        test.suggested()
    }

    #[test]
    fn noise_alone_suggests_nothing() {
        let by_chance = (0..200).filter(|seed| suggested(0.0, *seed).is_some()).count();
        assert!(by_chance <= 4, "{by_chance} of 200");
        for seed in 0..200 {
            let rate = suggested(6.0, seed).expect("a fall far above the noise");
            assert!((1e-3..0.3).contains(&rate), "{rate} with the seed {seed}");
        }
    }

    #[test]
    fn the_mean_has_no_bias_towards_zero() {
        let mut test = LrRange::new(Stop::new());
        (0..5).for_each(|_| test.add(0.1, 3.0));
        assert!(test.points().iter().all(|point| (point.smoothed - 3.0).abs() < 1e-12));
    }
}
