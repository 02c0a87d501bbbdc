use std::{collections::BTreeMap, path::Path};

use oomph_config::Interval;
use oomph_engine::{loss_scale::LossScale, record::Scalar, session::EpochCut};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::StateError;
use crate::early_stopping::EarlyStopping;

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
    /// Mean training loss at the last reading.
    pub loss: Option<f64>,
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

    /// Whether an interval of epochs or steps ends here.
    pub fn ends(&self, interval: Interval) -> bool {
        match interval {
            Interval::Epochs(every) => self.batch == 0 && self.epoch.is_multiple_of(every),
            Interval::Steps(every) => self.step.is_multiple_of(every),
            Interval::Minutes(_) | Interval::Never => false,
        }
    }
}

/// The format version that this version of oomph reads and writes.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// The state in `state.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) format_version: u32,
    pub(crate) oomph_version: String,
    pub(crate) progress: TrainProgress,
    pub(crate) optimizer_scalars: BTreeMap<String, Scalar>,
    pub(crate) optimizer_ranks: BTreeMap<String, usize>,
    /// Missing in older checkpoints, and without fp16.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) loss_scale: Option<LossScale>,
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
        serde_json::from_str(sealed.state.get()).map_err(|error| StateError::malformed(path, error))
    }
}

/// The SHA-256 of `bytes`, in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
