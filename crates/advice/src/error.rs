use std::fmt;

use oomph_config::ConfigError;
use oomph_core::Split;
use oomph_engine::EngineError;
use oomph_model::ModelError;
use oomph_parallel::CutError;

use crate::out_of_memory::OutOfMemory;

/// An error of planning: there is no plan, or the plan does not fit.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The engine refused the step.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The configuration contradicts itself, or the model.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The model cannot be split over the devices.
    #[error(transparent)]
    Cut(#[from] CutError),
    /// The plan exceeds the limit by more than the planner's error.
    #[error(transparent)]
    OutOfMemory(#[from] Box<OutOfMemory>),
    /// A stage shares the parameters of another stage, so both must be on one device.
    #[error("`{borrower}` shares parameters with `{lender}`, so the model cannot be split over devices")]
    SharedParameters {
        /// The stage that borrows the parameters.
        borrower: String,
        /// The stage that owns the parameters.
        lender: String,
    },
    /// The model cannot be trained on the smaller last micro-batch.
    #[error("the model cannot be trained on a micro-batch of {samples}, the rest of {leaves}")]
    Rest {
        /// Samples of the last micro-batch.
        samples: usize,
        /// Where the smaller micro-batch comes from.
        leaves: Leaves,
        /// The reason.
        source: ModelError,
    },
    /// Each replica needs at least one sample.
    #[error(
        "a batch of {samples} has too few samples for {devices} devices (`device.devices`): each needs at least one"
    )]
    TooFew {
        /// Samples of the batch.
        samples: usize,
        /// The number of replicas.
        devices: usize,
    },
    /// Replicas would have different numbers of micro-batches.
    #[error(
        "a batch of {samples} gives {world} replicas different numbers of micro-batches, but \
         `device.sync_batch_norm` needs all replicas in each"
    )]
    Uneven {
        /// Samples of the batch.
        samples: usize,
        /// The number of replicas.
        world: usize,
    },
    /// The training set or the held-out set is empty, or too small for one batch.
    #[error("the {split} data has {samples} samples, too few for one batch of {batch}")]
    NoBatches {
        /// The training set or the held-out set.
        split: Split,
        /// Its samples.
        samples: usize,
        /// Samples of a batch.
        batch: usize,
    },
}

/// Where a smaller last micro-batch comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// Every batch: its size is not a multiple of the micro-batch.
    EveryBatch,
    /// The last batch of an epoch.
    LastBatch,
    /// The shares of the devices, or the rounds of `dp`.
    Devices,
}

impl fmt::Display for Leaves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::EveryBatch => "every batch",
            Self::LastBatch => "the last batch of an epoch",
            Self::Devices => "a batch shared by the devices",
        })
    }
}

impl From<ModelError> for PlanError {
    fn from(error: ModelError) -> Self {
        EngineError::from(error).into()
    }
}

impl PlanError {
    /// A command or a setting that may fix the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Engine(error) => error.hint(),
            Self::Config(error) => error.hint(),
            Self::OutOfMemory(error) => error.hint(),
            Self::Cut(CutError::TooFewStages { stages, .. }) => {
                Some(format!("name at most {stages} devices, or train replicas with `device.strategy=ddp`"))
            }
            Self::Cut(_) => None,
            Self::SharedParameters { .. } => {
                Some("set `model.tied=false`, or train replicas with `device.strategy=ddp`".into())
            }
            Self::Rest { leaves: Leaves::EveryBatch, .. } => {
                Some("change `memory.micro_batch` so that the last micro-batch of `train.batch` is larger".into())
            }
            Self::Rest { leaves: Leaves::Devices, .. } => Some(
                "raise `train.batch` or `memory.micro_batch`, name fewer devices, or change `device.coordinator_share`"
                    .into(),
            ),
            Self::Rest { leaves: Leaves::LastBatch, .. } => {
                Some("set `data.last_batch=drop`, or change `train.batch`".into())
            }
            Self::Uneven { .. } => Some(
                "set `data.last_batch=drop`, or change `train.batch` or `memory.micro_batch` so that all replicas have \
                 the same number of micro-batches"
                    .into(),
            ),
            Self::TooFew { .. } => Some("raise the batch (`train.batch`, `--batch`), or name fewer devices (`device.devices`, `--devices`)".into()),
            Self::NoBatches { split: Split::Test, samples: 0, .. } => {
                Some("hold out a share of the data, or set `train.eval_every=never` to train without evaluations".into())
            }
            Self::NoBatches { .. } => Some("lower `train.batch`, or set `data.last_batch=keep`".into()),
        }
    }
}
