use std::time::{Duration, Instant};

use burn::tensor::Tensor;
use oomph_model::{AnyTensor, ModelError};

use crate::{StepOutcome, TrainError, parallel::Replicas};

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
    taken: Vec<Taken>,
}

/// A step that was taken.
#[derive(Debug)]
struct Taken {
    step: usize,
    lr: f64,
    samples: usize,
    is_skipped: bool,
    loss: Tensor<1>,
    correct: Option<Tensor<1>>,
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
        let StepOutcome { loss, correct, samples, is_skipped } = outcome;
        self.taken.extend(loss.map(|loss| Taken { step, lr, samples, is_skipped, loss, correct }));
    }

    /// Whether there is nothing to read.
    pub(crate) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// Waits for the device and reads; `None` where there was no sample. The inner error names the first bad loss.
    ///
    /// A skipped step changed nothing: where its loss is not finite it is left out. Each replica has the losses of its own
    /// samples, weighed by their share of the batch: all of them together are the batch's.
    pub(crate) fn read(
        &mut self,
        replicas: &Replicas,
    ) -> Result<Result<Option<Means>, NonFinite>, TrainError> {
        let taken = std::mem::take(&mut self.taken);
        if taken.is_empty() {
            return Ok(Ok(None));
        }
        let losses = replicas.sum(&floats(taken.iter().map(|taken| taken.loss.clone()).collect())?)?;
        let told = taken.iter().filter(|taken| taken.correct.is_some()).count();
        let mut right = Vec::new();
        let (mut total, mut count) = (0.0, 0);
        for (Taken { step, lr, samples, is_skipped, correct, .. }, loss) in taken.into_iter().zip(losses) {
            match (loss.is_finite(), is_skipped) {
                (true, _) => {
                    total += loss * samples as f64;
                    count += samples;
                    right.extend(correct);
                }
                (false, true) => {}
                (false, false) => return Ok(Err(NonFinite { step, loss, lr })),
            }
        }
        let right = floats(right)?.into_iter().sum::<f64>();
        let sums = replicas.sum(&[right, told as f64])?;
        if count == 0 {
            return Ok(Ok(None));
        }
        let accuracy = (sums[1] > 0.0).then(|| sums[0] / count as f64);
        Ok(Ok(Some(Means { loss: total / count as f64, accuracy })))
    }
}

fn floats(tensors: Vec<Tensor<1>>) -> Result<Vec<f64>, ModelError> {
    Ok(read_all(tensors)?.into_iter().map(f64::from).collect())
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

    use burn::tensor::Device;

    use super::*;

    fn outcome(loss: f32, correct: f32, is_skipped: bool) -> StepOutcome {
        let one = |value| Some(Tensor::from_floats([value], &Device::flex()));
        StepOutcome { loss: one(loss), correct: one(correct), samples: 4, is_skipped }
    }

    #[test]
    fn of_a_skipped_step_a_loss_that_is_not_finite_is_left_out() {
        let mut interval = Interval::default();
        interval.add(1, 0.1, outcome(f32::NAN, 4.0, true));
        assert!(interval.read(&Replicas::alone()).unwrap().unwrap().is_none());
        for (step, (loss, correct, is_skipped)) in
            [(1.0, 1.0, false), (f32::INFINITY, 4.0, true), (3.0, 2.0, true), (2.0, 3.0, false)]
                .into_iter()
                .enumerate()
        {
            interval.add(step, 0.1, outcome(loss, correct, is_skipped));
        }
        let means = interval.read(&Replicas::alone()).unwrap().unwrap().unwrap();
        assert_eq!((means.loss, means.accuracy), (2.0, Some(0.5)));
    }

    #[test]
    fn a_loss_of_a_step_that_counts_has_to_be_finite() {
        let mut interval = Interval::default();
        interval.add(6, 0.1, outcome(f32::INFINITY, 4.0, true));
        interval.add(7, 0.1, outcome(f32::NAN, 4.0, false));
        assert_eq!(interval.read(&Replicas::alone()).unwrap().unwrap_err().step, 7);
    }

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
