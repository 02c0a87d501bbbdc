use std::time::{Duration, Instant};

use burn::tensor::Tensor;
use oomph_model::{AnyTensor, ModelError};

use crate::{StepOutcome, TrainError};

/// Reads one-element tensors from the device, all at once.
pub(crate) fn read_all(tensors: Vec<Tensor<1>>) -> Result<Vec<f32>, ModelError> {
    if tensors.is_empty() {
        return Ok(Vec::new());
    }
    AnyTensor::from(Tensor::cat(tensors, 0)).to_host()
}

/// What the steps since the last reading gave. Their losses stay on the device until they are read.
#[derive(Debug, Default)]
pub(crate) struct Interval {
    losses: Vec<(usize, f64, usize, Tensor<1>)>,
    correct: Vec<Tensor<1>>,
    samples: usize,
}

/// Means over an interval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Means {
    pub(crate) loss: f64,
    pub(crate) accuracy: Option<f64>,
}

/// A loss that is infinite or not a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NonFinite {
    pub(crate) step: usize,
    pub(crate) loss: f64,
    pub(crate) lr: f64,
}

impl Interval {
    pub(crate) fn add(&mut self, step: usize, lr: f64, outcome: StepOutcome) {
        if let Some(loss) = outcome.loss {
            self.losses.push((step, lr, outcome.samples, loss));
        }
        self.correct.extend(outcome.correct);
        self.samples += outcome.samples;
    }

    /// Waits for the device and reads; `None` where there was no sample. The inner error names the first bad loss.
    pub(crate) fn read(&mut self) -> Result<Result<Option<Means>, NonFinite>, TrainError> {
        let Self { losses, correct, samples } = std::mem::take(self);
        if samples == 0 {
            return Ok(Ok(None));
        }
        let values = read_all(losses.iter().map(|(.., loss)| loss.clone()).collect())?;
        let mut total = 0.0;
        for ((step, lr, samples, _), loss) in losses.into_iter().zip(values) {
            if !loss.is_finite() {
                return Ok(Err(NonFinite { step, loss: f64::from(loss), lr }));
            }
            total += f64::from(loss) * samples as f64;
        }
        let right = read_all(correct)?;
        let accuracy =
            (!right.is_empty()).then(|| right.into_iter().map(f64::from).sum::<f64>() / samples as f64);
        Ok(Ok(Some(Means { loss: total / samples as f64, accuracy })))
    }
}

/// Times training, evaluation and saving left out.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    /// `None` while it is stopped.
    running_since: Option<Instant>,
    interval: (Duration, usize),
    total: (Duration, usize),
}

impl Stopwatch {
    /// One that is stopped.
    pub(crate) fn new() -> Self {
        Self { running_since: None, interval: Default::default(), total: Default::default() }
    }

    /// Counts the samples of a step.
    pub(crate) fn count(&mut self, samples: usize) {
        self.interval.1 += samples;
        self.total.1 += samples;
    }

    /// Stops the time, if it runs: saving may stop it within an evaluation, which has stopped it already.
    pub(crate) fn pause(&mut self) {
        let ran = self.running_since.take().map_or(Duration::ZERO, |since| since.elapsed());
        self.interval.0 += ran;
        self.total.0 += ran;
    }

    /// Lets the time run from now on.
    pub(crate) fn resume(&mut self) {
        self.pause();
        self.running_since = Some(Instant::now());
    }

    /// Samples a second since the last call; the time goes on as it did.
    pub(crate) fn lap(&mut self) -> f64 {
        self.settle();
        rate(std::mem::take(&mut self.interval))
    }

    /// Samples a second since the start.
    pub(crate) fn total(&mut self) -> f64 {
        self.settle();
        rate(self.total)
    }

    /// Adds up the time until now.
    fn settle(&mut self) {
        if self.running_since.is_some() {
            self.resume();
        }
    }
}

fn rate((time, samples): (Duration, usize)) -> f64 {
    if time.is_zero() { 0.0 } else { samples as f64 / time.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    #[test]
    fn what_passes_between_two_pauses_does_not_count() {
        let mut stopwatch = Stopwatch::new();
        stopwatch.resume();
        stopwatch.count(10);
        stopwatch.pause();
        let trained = stopwatch.total;
        sleep(Duration::from_millis(5));
        // A save within an evaluation.
        stopwatch.pause();
        assert_eq!(stopwatch.total, trained);
        stopwatch.resume();
        sleep(Duration::from_millis(1));
        stopwatch.lap();
        assert!(stopwatch.total.0 > trained.0);
        assert_eq!(stopwatch.interval, (Duration::ZERO, 0));
    }
}
