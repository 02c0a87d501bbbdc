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
    running_since: Instant,
    interval: (Duration, usize),
    total: (Duration, usize),
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { running_since: Instant::now(), interval: Default::default(), total: Default::default() }
    }

    /// Counts the samples of a step.
    pub(crate) fn count(&mut self, samples: usize) {
        self.interval.1 += samples;
        self.total.1 += samples;
    }

    /// Stops the time; to be followed by [`resume`](Self::resume).
    pub(crate) fn pause(&mut self) {
        let ran = self.running_since.elapsed();
        self.interval.0 += ran;
        self.total.0 += ran;
        self.running_since = Instant::now();
    }

    pub(crate) fn resume(&mut self) {
        self.running_since = Instant::now();
    }

    /// Samples a second since the last call.
    pub(crate) fn lap(&mut self) -> f64 {
        self.pause();
        rate(std::mem::take(&mut self.interval))
    }

    /// Samples a second since the start.
    pub(crate) fn total(&mut self) -> f64 {
        self.pause();
        rate(self.total)
    }
}

fn rate((time, samples): (Duration, usize)) -> f64 {
    if time.is_zero() { 0.0 } else { samples as f64 / time.as_secs_f64() }
}
