//! The metrics of a run over its steps.

use oomph_core::Bytes;

use super::RunEvaluation;

/// Readings of the training metrics that are kept. A log may have millions.
const MOST_POINTS: usize = 4_096;

/// The metrics of a run over its steps, in the order of the steps. Steps that a resumed run repeated are there once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunCurves {
    /// Readings of the training metrics, at most some thousands: of a longer log, every second, fourth … and the last.
    pub training: Vec<TrainingPoint>,
    /// All evaluations with a finite loss.
    pub evaluations: Vec<EvaluationPoint>,
    /// Readings between two that are kept: a power of two, less one.
    skipped: usize,
    /// Readings since the last one that was kept.
    since: usize,
    /// The newest reading, if it was not kept.
    newest: Option<TrainingPoint>,
}

/// The training metrics at a step. What the log lacks, or what is not finite, is `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainingPoint {
    /// Optimizer steps done.
    pub step: usize,
    /// Seconds of all processes of the run so far.
    pub seconds: f64,
    /// Mean loss since the reading before.
    pub loss: Option<f64>,
    /// The share of correct predictions.
    pub accuracy: Option<f64>,
    /// The learning rate.
    pub lr: Option<f64>,
    /// Samples per second, without evaluation and saving.
    pub samples_per_second: f64,
    /// Bytes in use on the device, if measured.
    pub in_use_bytes: Option<Bytes>,
}

/// An evaluation, with the time of the reading before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvaluationPoint {
    /// The evaluation.
    pub evaluation: RunEvaluation,
    /// Whether the run called it the best so far.
    pub is_best: bool,
    /// Seconds of all processes of the run so far.
    pub seconds: f64,
}

impl RunCurves {
    /// The training losses that are finite.
    pub fn losses(&self) -> impl Iterator<Item = f64> {
        self.training.iter().filter_map(|point| point.loss)
    }

    /// Adds a reading.
    pub(super) fn train(&mut self, point: TrainingPoint) {
        if self.since < self.skipped {
            self.since += 1;
            self.newest = Some(point);
            return;
        }
        (self.since, self.newest) = (0, None);
        self.training.push(point);
        if self.training.len() > MOST_POINTS {
            let mut index = 0;
            self.training.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.skipped = self.skipped * 2 + 1;
        }
    }

    /// Adds an evaluation.
    pub(super) fn evaluate(&mut self, point: EvaluationPoint) {
        self.evaluations.push(point);
    }

    /// Drops what a run that resumes at `step` repeats.
    pub(super) fn resume(&mut self, step: usize) {
        self.end();
        self.training.retain(|point| point.step <= step);
        self.evaluations.retain(|point| point.evaluation.step <= step);
    }

    /// Keeps the newest reading, at the end of a process.
    pub(super) fn end(&mut self) {
        self.training.extend(self.newest.take());
        self.since = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(step: usize) -> TrainingPoint {
        let (loss, seconds) = (Some(1.0 / step as f64), step as f64);
        TrainingPoint {
            step,
            seconds,
            loss,
            accuracy: None,
            lr: None,
            samples_per_second: 1.0,
            in_use_bytes: None,
        }
    }

    #[test]
    fn a_long_log_is_thinned_out_evenly_and_keeps_its_ends() {
        let mut curves = RunCurves::default();
        (1..=50_001).for_each(|step| curves.train(point(step)));
        curves.end();
        let steps: Vec<_> = curves.training.iter().map(|point| point.step).collect();
        assert!((2_000..=4_097).contains(&steps.len()), "{}", steps.len());
        assert_eq!((steps[0], steps[steps.len() - 1]), (1, 50_001));
        let apart: Vec<_> = steps.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(apart[..apart.len() - 1].iter().all(|it| *it == apart[0]), "{apart:?}");
    }

    #[test]
    fn a_resumed_run_has_each_step_once() {
        let mut curves = RunCurves::default();
        (1..=6).for_each(|step| curves.train(point(step)));
        curves.resume(4);
        (5..=7).for_each(|step| curves.train(point(step)));
        curves.end();
        let steps: Vec<_> = curves.training.iter().map(|point| point.step).collect();
        assert_eq!(steps, [1, 2, 3, 4, 5, 6, 7]);
    }
}
