use std::fmt;

use oomph_config::ConfigError;
use oomph_core::Split;
use oomph_data::DataError;
use oomph_memory::ThreadsError;
use oomph_model::{ModelError, weights::WeightsError};

use crate::DeviceError;

/// What keeps a configuration from becoming a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// In the configuration itself.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// In the data.
    #[error(transparent)]
    Data(#[from] DataError),
    /// In the model, or between model and data.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// In a file of weights, or between it and the model.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// In the device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Between the task and the data.
    #[error(transparent)]
    Task(#[from] crate::TaskError),
    /// A stage computes with another's parameters, so that both must be on one device.
    #[error("`{borrower}` has parameters in common with `{lender}`, so the model cannot be cut over devices")]
    Shared {
        /// The stage that borrows them.
        borrower: String,
        /// The stage that has them.
        lender: String,
    },
    /// Processes that are to train together are configured differently.
    #[error(
        "the configuration is not that of rank 0: it has {} where rank 0 has {}",
        shown(.here.as_ref()),
        shown(.there.as_ref())
    )]
    OtherConfig {
        /// What rank 0 does not have, such as `train.batch = 20`.
        here: Option<String>,
        /// What rank 0 has instead.
        there: Option<String>,
    },
    /// In the compute threads.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
    /// The model cannot be trained on what the micro-batches of a batch leave over.
    #[error("the model cannot be trained on a micro-batch of {samples}, which {leaves} leaves over")]
    Rest {
        /// Samples that are left over.
        samples: usize,
        /// Of what.
        leaves: Leaves,
        /// Why not.
        source: ModelError,
    },
    /// Each replica has at least one sample.
    #[error("a batch of {samples} has too few samples for {devices} devices: each has at least one")]
    TooFew {
        /// Samples of the batch.
        samples: usize,
        /// How many replicas there are.
        devices: usize,
    },
    /// Replicas would not meet in every micro-batch.
    #[error(
        "a batch of {samples} gives {world} replicas different numbers of micro-batches, in each of which \
         `device.sync_batch_norm` needs all of them"
    )]
    Uneven {
        /// Samples of the batch.
        samples: usize,
        /// How many replicas there are.
        world: usize,
    },
    /// A part of the data is empty, or becomes empty by the policy for the last batch.
    #[error("the {split} data has {samples} samples, from which no batch of {batch} can be made")]
    NoBatches {
        /// The part.
        split: Split,
        /// Samples it has.
        samples: usize,
        /// Samples of a batch.
        batch: usize,
    },
}

/// What leaves a smaller micro-batch over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// Every batch, whose size is no multiple of the micro-batch's.
    EveryBatch,
    /// The last batch of an epoch.
    LastBatch,
    /// The devices that share a batch, or the micro-batches that it is cut into for them.
    Devices,
}

impl fmt::Display for Leaves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::EveryBatch => "every batch",
            Self::LastBatch => "the last batch of an epoch",
            Self::Devices => "sharing a batch over the devices",
        })
    }
}

fn shown(setting: Option<&String>) -> String {
    setting.map_or_else(|| "nothing".into(), |setting| format!("`{setting}`"))
}

impl SessionError {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Config(error) => error.hint(),
            Self::Data(error) => error.hint(),
            Self::Model(error) => error.hint(),
            Self::Weights(error) => error.hint(),
            Self::Device(error) => error.hint(),
            Self::Task(_) => Some("without `train.task` it is the one that goes with the data".into()),
            Self::Shared { .. } => Some("set `model.tied=false`, or train replicas with `device.strategy=ddp`".into()),
            Self::OtherConfig { .. } => {
                Some("is the config file the same on all machines, and each started with the same arguments?".into())
            }
            Self::Threads(_) => None,
            Self::Rest { leaves: Leaves::EveryBatch, .. } => {
                Some("change `memory.micro_batch` so that more of `train.batch` is left".into())
            }
            Self::Rest { leaves: Leaves::Devices, .. } => Some(
                "raise `train.batch` or `memory.micro_batch`, name fewer devices, or change `device.coordinator_share`"
                    .into(),
            ),
            Self::Rest { leaves: Leaves::LastBatch, .. } => {
                Some("set `data.last_batch=drop`, or change `train.batch`".into())
            }
            Self::Uneven { .. } => Some(
                "set `data.last_batch=drop`, or change `train.batch` or `memory.micro_batch` so that all have as many"
                    .into(),
            ),
            Self::TooFew { .. } => Some("raise the batch, or name fewer devices".into()),
            Self::NoBatches { .. } => Some("lower `train.batch`, or set `data.last_batch=keep`".into()),
        }
    }
}
