use std::{collections::BTreeMap, path::Path};

use oomph_config::{Interval, sections::eval_metric::EvalMetric};
use oomph_engine::{loss_scale::LossScale, record::Scalar, session::EpochCut};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::{
    StateError,
    consistency::{Contradiction, check},
};

/// How far a training has come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrainProgress {
    /// Optimizer steps done.
    pub step: usize,
    /// Epochs done.
    pub epoch: usize,
    /// Batches done in the current epoch.
    pub batch: usize,
    /// Batches of an epoch.
    pub batches_per_epoch: usize,
    /// How an epoch is cut into batches. Missing in older checkpoints.
    #[serde(default)]
    pub cut: Option<EpochCut>,
    /// Whether a due evaluation has not finished.
    pub evaluation_due: bool,
    /// Mean training loss of the last line of metrics, or of the steps in `window`.
    pub loss: Option<f64>,
    /// Sums over the steps since the last multiple of `run.log_every`. A resumed run adds to them, so its means are those of
    /// a run without a stop. Missing in older checkpoints.
    #[serde(default)]
    pub window: StepSums,
    /// Loss of the last evaluation.
    pub eval_loss: Option<f64>,
    /// Accuracy of the last evaluation.
    pub eval_accuracy: Option<f64>,
    /// The best evaluation, and the number of evaluations since.
    pub early_stopping: EarlyStopping,
    /// Seconds of training, earlier processes included.
    pub seconds: f64,
}

impl TrainProgress {
    /// Counts an optimizer step. Returns whether it ended an epoch.
    pub fn count_step(&mut self) -> bool {
        self.step += 1;
        self.batch += 1;
        let is_over = self.batch == self.batches_per_epoch;
        if is_over {
            self.epoch += 1;
            self.batch = 0;
        }
        is_over
    }

    /// The epoch of the last step, from 1.
    pub fn last_epoch(&self) -> usize {
        self.epoch + usize::from(self.batch > 0)
    }

    /// Whether the last step was evaluated, and no evaluation before was better.
    pub fn is_best(&self) -> bool {
        let EarlyStopping { best_step, without_improvement, .. } = self.early_stopping;
        best_step == Some(self.step) && without_improvement == 0
    }

    /// Whether an interval of epochs or steps ends here.
    pub fn ends(&self, interval: Interval) -> bool {
        match interval {
            Interval::Epochs(every) => self.batch == 0 && self.epoch.is_multiple_of(every),
            Interval::Steps(every) => self.step.is_multiple_of(every),
            Interval::Minutes(_) | Interval::Never => false,
        }
    }
}

/// The file of the average of the weights. Absent without one.
pub(super) const AVERAGE: &str = "average.safetensors";

/// The format version that this version of oomph reads and writes.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// The state in `state.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) format_version: u32,
    pub(crate) oomph_version: String,
    /// The number of the save within the run, from 1. 0 in older checkpoints, which have none.
    #[serde(default)]
    pub(crate) save_number: u64,
    pub(crate) progress: TrainProgress,
    pub(crate) optimizer_scalars: BTreeMap<String, Scalar>,
    pub(crate) optimizer_ranks: BTreeMap<String, usize>,
    /// Missing in older checkpoints, and without fp16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) loss_scale: Option<LossScale>,
    /// Updates of the average of the weights, which is in a file of its own. Missing without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) average_updates: Option<u64>,
    /// SHA-256 of each other file, in hexadecimal digits.
    pub(crate) files: BTreeMap<String, String>,
}

/// `state.json`: the state and its checksum.
#[derive(Serialize, Deserialize)]
struct Sealed {
    sha256: String,
    state: Box<RawValue>,
}

impl Manifest {
    pub(crate) fn encode(&self, path: &Path) -> Result<Vec<u8>, StateError> {
        let seal = || {
            let state = serde_json::value::to_raw_value(self)?;
            serde_json::to_vec(&Sealed { sha256: sha256(state.get().as_bytes()), state })
        };
        seal().map_err(|error| StateError::malformed(path, error))
    }

    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Self, StateError> {
        let sealed: Sealed =
            serde_json::from_slice(bytes).map_err(|error| StateError::malformed(path, error))?;
        if sha256(sealed.state.get().as_bytes()) != sealed.sha256 {
            return Err(StateError::Checksum { path: path.to_owned() });
        }
        // The version is read first, since another format may have other fields.
        #[derive(Deserialize)]
        struct ManifestVersion {
            format_version: u32,
        }
        let ManifestVersion { format_version: found } =
            serde_json::from_str(sealed.state.get()).map_err(|error| StateError::malformed(path, error))?;
        if found != FORMAT_VERSION {
            let checkpoint = path.parent().unwrap_or(path).to_owned();
            return Err(StateError::Version { checkpoint, found, known: FORMAT_VERSION });
        }
        let manifest: Self =
            serde_json::from_str(sealed.state.get()).map_err(|error| StateError::malformed(path, error))?;
        check(&manifest).map_err(|Contradiction { field, found, expected }| StateError::Contradiction {
            path: path.to_owned(),
            field,
            found,
            expected,
        })?;
        Ok(manifest)
    }
}

/// The SHA-256 of `bytes`, in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

/// The digits of `bytes`.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Sums over some steps, for their means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepSums {
    /// The sum of the samples' losses.
    pub loss: f64,
    /// The number of samples.
    pub samples: usize,
    /// The number of samples that were classified right, where that is counted.
    pub correct: Option<f64>,
}

impl StepSums {
    /// The mean loss; `None` without samples.
    pub fn mean_loss(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.loss / self.samples as f64)
    }

    /// The share of samples that were classified right.
    pub fn accuracy(&self) -> Option<f64> {
        self.correct.filter(|_| self.samples > 0).map(|correct| correct / self.samples as f64)
    }
}

/// The best evaluation so far, and the number of evaluations since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EarlyStopping {
    /// The measure that evaluations are compared by. Missing in older checkpoints, which compared losses.
    #[serde(default)]
    pub metric: EvalMetric,
    /// Its best value so far.
    #[serde(alias = "best_loss")]
    pub best: Option<f64>,
    /// The step of that evaluation.
    pub best_step: Option<usize>,
    /// Evaluations since then without improvement.
    pub without_improvement: usize,
}

impl EarlyStopping {
    /// Compares evaluations by `metric` from now on. Values of another measure are forgotten.
    pub fn by(self, metric: EvalMetric) -> Self {
        if self.metric == metric { self } else { Self { metric, ..Self::default() } }
    }

    /// Counts an evaluation with this value of the measure. Returns whether it improves on the best value by more than
    /// `min_delta`.
    pub fn observe(&mut self, value: f64, step: usize, min_delta: f64) -> bool {
        // A value that is not finite is never better. The first finite value always is.
        let better =
            value.is_finite() && self.best.is_none_or(|best| self.metric.gain(value, best) > min_delta);
        if better {
            *self = Self { best: Some(value), best_step: Some(step), without_improvement: 0, ..*self };
        } else {
            self.without_improvement += 1;
        }
        better
    }

    /// Whether the last `patience` evaluations did not improve.
    pub fn is_over(&self, patience: Option<usize>) -> bool {
        patience.is_some_and(|patience| self.without_improvement >= patience)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observe(values: &[f64], min_delta: f64) -> EarlyStopping {
        observe_by(EvalMetric::Loss, values, min_delta)
    }

    fn observe_by(metric: EvalMetric, values: &[f64], min_delta: f64) -> EarlyStopping {
        let mut stopping = EarlyStopping::default().by(metric);
        for (index, value) in values.iter().enumerate() {
            stopping.observe(*value, index + 1, min_delta);
        }
        stopping
    }

    #[test]
    fn the_best_is_the_lowest_by_more_than_the_delta() {
        let stopping = observe(&[1.0, 0.5, 0.49, 0.6], 0.05);
        assert_eq!((stopping.best, stopping.best_step), (Some(0.5), Some(2)));
        assert_eq!(stopping.without_improvement, 2);
        assert!(stopping.is_over(Some(2)));
        assert!(!stopping.is_over(Some(3)));
        assert!(!stopping.is_over(None));
    }

    #[test]
    fn an_accuracy_is_best_where_it_is_highest() {
        let stopping = observe_by(EvalMetric::Accuracy, &[0.5, 0.7, 0.6, 0.72], 0.05);
        assert_eq!(
            (stopping.best, stopping.best_step, stopping.without_improvement),
            (Some(0.7), Some(2), 2)
        );
    }

    #[test]
    fn values_of_another_measure_are_forgotten() {
        let stopping = observe(&[1.0, 0.5], 0.0);
        assert_eq!(stopping.by(EvalMetric::Loss), stopping);
        let by_accuracy = EarlyStopping { metric: EvalMetric::Accuracy, ..EarlyStopping::default() };
        assert_eq!(stopping.by(EvalMetric::Accuracy), by_accuracy);
    }

    #[test]
    fn older_checkpoints_compared_losses() {
        let text = r#"{"best_loss":0.5,"best_step":3,"without_improvement":1}"#;
        let stopping: EarlyStopping = serde_json::from_str(text).expect("an older checkpoint");
        let expected = EarlyStopping {
            metric: EvalMetric::Loss,
            best: Some(0.5),
            best_step: Some(3),
            without_improvement: 1,
        };
        assert_eq!(stopping, expected);
    }

    #[test]
    fn a_loss_that_is_no_number_is_never_best() {
        let stopping = observe(&[f64::NAN, f64::INFINITY, 2.0, f64::NAN], 0.0);
        assert_eq!((stopping.best, stopping.best_step), (Some(2.0), Some(3)));
        assert_eq!(stopping.without_improvement, 1);
    }
}
