use std::path::PathBuf;

use oomph_advice::PlanError;
use oomph_config::ConfigError;
use oomph_core::Bytes;
use oomph_data::DataError;
use oomph_trainer::{SessionError, TrainError};

/// Why there is no config to propose.
#[derive(Debug, thiserror::Error)]
pub enum ProposalError {
    /// A setting, such as a model that does not exist.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data cannot be opened.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Model and data do not fit each other.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// No batch can be planned or trained.
    #[error(transparent)]
    Plan(#[from] TrainError),
    /// The class folders are in the working directory.
    #[error("`{}` holds class folders, and a training here writes its folder `runs` between them", path.display())]
    ClassesHere {
        /// The folder.
        path: PathBuf,
    },
    /// The model does not fit.
    #[error("not even the smallest batch of `{model}` fits the {limit_bytes} of memory")]
    TooLarge {
        /// The model.
        model: String,
        /// The memory.
        limit_bytes: Bytes,
    },
}

impl ProposalError {
    /// What the user can do about it, if anything.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Config(error) => error.hint(),
            Self::Data(error) => error.hint(),
            Self::Session(error) => error.hint(),
            Self::Plan(error) => error.hint(),
            Self::ClassesHere { .. } => {
                Some("run `oomph init` in the folder above, and name this one".into())
            }
            Self::TooLarge { .. } => {
                Some("choose smaller images with `--size`, or another model with `--model`".into())
            }
        }
    }
}

impl From<PlanError> for ProposalError {
    fn from(error: PlanError) -> Self {
        Self::Plan(error.into())
    }
}
