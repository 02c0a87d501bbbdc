use std::time::{Duration, Instant};

use burn::tensor::Tensor;
use oomph_model::{AnyTensor, ModelError};

use oomph_engine::{ranks::Replicas, step::StepOutcome};
use oomph_runs::state::StepSums;

use crate::TrainError;

/// Reads one-element tensors from the device in one transfer.
pub(crate) fn read_all(tensors: Vec<Tensor<1>>) -> Result<Vec<f32>, ModelError> {
    if tensors.is_empty() {
        return Ok(Vec::new());
    }
    Ok(AnyTensor::from(Tensor::cat(tensors, 0)).to_host()?)
}

/// The losses of the steps since the last reading. They stay on the device until then.
#[derive(Debug, Default)]
pub(crate) struct LossAccumulator {
    taken: Vec<TakenStep>,
}

/// The outcome of a step.
#[derive(Debug)]
pub(crate) struct TakenStep {
    step: usize,
    lr: f64,
    samples: usize,
    is_skipped: bool,
    loss: Tensor<1>,
    correct: Option<Tensor<1>>,
}

/// A loss that is infinite or not a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NonFinite {
    pub(crate) step: usize,
    pub(crate) loss: f64,
    pub(crate) lr: f64,
}

impl LossAccumulator {
    pub(crate) fn add(&mut self, step: usize, lr: f64, outcome: StepOutcome) {
        let StepOutcome { loss, correct, samples, is_skipped } = outcome;
        self.taken.extend(loss.map(|loss| TakenStep { step, lr, samples, is_skipped, loss, correct }));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// Waits for the device, and reads the loss of each step, summed over the ranks.
    pub(crate) fn read_each(&mut self, replicas: &Replicas) -> Result<Vec<(TakenStep, f64)>, TrainError> {
        let taken = std::mem::take(&mut self.taken);
        let losses = replicas.sum(&floats(taken.iter().map(|taken| taken.loss.clone()).collect())?)?;
        Ok(taken.into_iter().zip(losses).collect())
    }

    /// Waits for the device, reads the losses and adds them to `sums`. The inner error is the first loss that is not finite.
    ///
    /// A skipped step changed no parameter, so its loss is left out unless it is finite. The loss of a replica is weighted
    /// by its share of the batch, so the sum over the replicas is the loss of the batch.
    pub(crate) fn read(
        &mut self,
        replicas: &Replicas,
        sums: &mut StepSums,
    ) -> Result<Result<(), NonFinite>, TrainError> {
        if self.is_empty() {
            return Ok(Ok(()));
        }
        let taken = self.read_each(replicas)?;
        let with_accuracy = taken.iter().filter(|(taken, _)| taken.correct.is_some()).count();
        let mut right = Vec::new();
        for (TakenStep { step, lr, samples, is_skipped, correct, .. }, loss) in taken {
            match (loss.is_finite(), is_skipped) {
                (true, _) => {
                    sums.loss += loss * samples as f64;
                    sums.samples += samples;
                    right.extend(correct);
                }
                (false, true) => {}
                (false, false) => return Ok(Err(NonFinite { step, loss, lr })),
            }
        }
        let right = floats(right)?.into_iter().sum::<f64>();
        let counted = replicas.sum(&[right, with_accuracy as f64])?;
        if counted[1] > 0.0 {
            *sums.correct.get_or_insert_default() += counted[0];
        }
        Ok(Ok(()))
    }
}

fn floats(tensors: Vec<Tensor<1>>) -> Result<Vec<f64>, ModelError> {
    Ok(read_all(tensors)?.into_iter().map(f64::from).collect())
}

/// Times training without evaluation and saving.
#[derive(Debug, Default)]
pub(crate) struct Stopwatch {
    /// `None` while stopped.
    running_since: Option<Instant>,
    /// Since the last [`lap`](Self::lap).
    lap: Pace,
    total: Pace,
}

impl Stopwatch {
    pub(crate) fn count(&mut self, samples: usize) {
        self.lap.samples += samples;
        self.total.samples += samples;
    }

    /// Stops the time. Saving within an evaluation stops it a second time, which changes nothing.
    pub(crate) fn pause(&mut self) {
        let ran = self.running_since.take().map_or(Duration::ZERO, |since| since.elapsed());
        self.lap.time += ran;
        self.total.time += ran;
    }

    pub(crate) fn resume(&mut self) {
        self.pause();
        self.running_since = Some(Instant::now());
    }

    /// Does `work` while the time is stopped. Then it runs again, or stays stopped.
    pub(crate) fn stopped<R>(&mut self, work: impl FnOnce() -> R) -> R {
        let was_running = self.running_since.is_some();
        self.pause();
        let done = work();
        if was_running {
            self.resume();
        }
        done
    }

    /// Samples per second since the last call. The time keeps running, or stays stopped.
    pub(crate) fn lap(&mut self) -> f64 {
        self.settle();
        std::mem::take(&mut self.lap).samples_per_second()
    }

    /// Samples per second since the start.
    pub(crate) fn total(&mut self) -> f64 {
        self.settle();
        self.total.samples_per_second()
    }

    /// Adds up the time until now.
    fn settle(&mut self) {
        if self.running_since.is_some() {
            self.resume();
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Pace {
    time: Duration,
    samples: usize,
}

impl Pace {
    fn samples_per_second(self) -> f64 {
        if self.time.is_zero() { 0.0 } else { self.samples as f64 / self.time.as_secs_f64() }
    }
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
    fn a_loss_of_a_skipped_step_counts_only_if_it_is_finite() {
        let mut losses = LossAccumulator::default();
        losses.add(1, 0.1, outcome(f32::NAN, 4.0, true));
        let mut sums = StepSums::default();
        losses.read(&Replicas::alone(), &mut sums).unwrap().unwrap();
        assert_eq!(sums.mean_loss(), None);
        for (step, (loss, correct, is_skipped)) in
            [(1.0, 1.0, false), (f32::INFINITY, 4.0, true), (3.0, 2.0, true), (2.0, 3.0, false)]
                .into_iter()
                .enumerate()
        {
            losses.add(step, 0.1, outcome(loss, correct, is_skipped));
        }
        losses.read(&Replicas::alone(), &mut sums).unwrap().unwrap();
        assert_eq!((sums.mean_loss(), sums.accuracy()), (Some(2.0), Some(0.5)));
    }

    #[test]
    fn the_loss_of_a_step_that_was_not_skipped_must_be_finite() {
        let mut losses = LossAccumulator::default();
        losses.add(6, 0.1, outcome(f32::INFINITY, 4.0, true));
        losses.add(7, 0.1, outcome(f32::NAN, 4.0, false));
        let mut sums = StepSums::default();
        assert_eq!(losses.read(&Replicas::alone(), &mut sums).unwrap().unwrap_err().step, 7);
    }

    #[test]
    fn the_time_between_two_pauses_does_not_count() {
        let mut stopwatch = Stopwatch::default();
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
        assert!(stopwatch.total.time > trained.time);
        assert_eq!(stopwatch.lap, Pace::default());
    }
}
