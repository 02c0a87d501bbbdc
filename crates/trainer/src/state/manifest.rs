use std::{collections::BTreeMap, fmt, path::Path};

use oomph_config::Interval;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::{Scalar, StateError};
use crate::{LossScale, early_stopping::EarlyStopping};

/// How an epoch is cut into batches: where one of these changes, a place in an epoch means nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochCut {
    /// Samples of a batch.
    pub batch: usize,
    /// Samples of the training part.
    pub samples: usize,
    /// Whether samples follow one another as in the data, and a recurrent model carries its state.
    pub carry: bool,
}

impl fmt::Display for EpochCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = if self.carry { "in the order of the data" } else { "shuffled" };
        write!(f, "{} samples, {order}, in batches of {}", self.samples, self.batch)
    }
}

/// How far a training is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Optimizer steps done.
    pub step: usize,
    /// Epochs done.
    pub epoch: usize,
    /// Batches done in the epoch that follows.
    pub batch: usize,
    /// Batches of an epoch.
    pub batches_per_epoch: usize,
    /// How an epoch is cut into them. Missing in checkpoints of the versions before it.
    #[serde(default)]
    pub cut: Option<EpochCut>,
    /// Whether an evaluation was due and did not come to its end.
    pub evaluation_due: bool,
    /// Mean training loss when it was last read.
    pub loss: Option<f64>,
    /// Loss of the last evaluation.
    pub eval_loss: Option<f64>,
    /// Accuracy of the last evaluation.
    pub eval_accuracy: Option<f64>,
    /// The best evaluation, and how many since were no better.
    pub early_stopping: EarlyStopping,
    /// Seconds that training took, earlier processes included.
    pub seconds: f64,
}

impl Progress {
    /// Counts one more optimizer step; whether an epoch is over with it.
    pub(crate) fn count_step(&mut self) -> bool {
        self.step += 1;
        self.batch += 1;
        let is_over = self.batch == self.batches_per_epoch;
        if is_over {
            self.epoch += 1;
            self.batch = 0;
        }
        is_over
    }

    /// Whether an interval of epochs or steps ends here.
    pub(crate) fn ends(&self, interval: Interval) -> bool {
        match interval {
            Interval::Epochs(every) => self.batch == 0 && self.epoch.is_multiple_of(every),
            Interval::Steps(every) => self.step.is_multiple_of(every),
            Interval::Minutes(_) | Interval::Never => false,
        }
    }
}

/// The format that this version writes, and the only one it reads.
pub(crate) const FORMAT_VERSION: u32 = 1;

/// What `state.json` holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) format_version: u32,
    pub(crate) oomph_version: String,
    pub(crate) progress: Progress,
    pub(crate) optimizer_scalars: BTreeMap<String, Scalar>,
    pub(crate) optimizer_ranks: BTreeMap<String, usize>,
    /// Missing in checkpoints of the versions before it, and of trainings in other precisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) loss_scale: Option<LossScale>,
    /// SHA-256 of each other file, in hex.
    pub(crate) files: BTreeMap<String, String>,
}

/// `state.json`: the state beside its own checksum.
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
        seal().map_err(|error| malformed(path, &error))
    }

    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Self, StateError> {
        let sealed: Sealed = serde_json::from_slice(bytes).map_err(|error| malformed(path, &error))?;
        if sha256(sealed.state.get().as_bytes()) != sealed.sha256 {
            return Err(StateError::Checksum { path: path.to_owned() });
        }
        // The version first: another format may have other fields.
        #[derive(Deserialize)]
        struct Version {
            format_version: u32,
        }
        let Version { format_version: found } =
            serde_json::from_str(sealed.state.get()).map_err(|error| malformed(path, &error))?;
        if found != FORMAT_VERSION {
            let checkpoint = path.parent().unwrap_or(path).to_owned();
            return Err(StateError::Version { checkpoint, found, known: FORMAT_VERSION });
        }
        serde_json::from_str(sealed.state.get()).map_err(|error| malformed(path, &error))
    }
}

/// The SHA-256 of `bytes` in hex.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn malformed(path: &Path, error: &serde_json::Error) -> StateError {
    StateError::Malformed { path: path.to_owned(), reason: error.to_string() }
}
