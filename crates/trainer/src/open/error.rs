use oomph_calibration::CalibrationError;
use oomph_config::ConfigError;
use oomph_data::DataError;
use oomph_hub::HubError;
use oomph_memory::ThreadsError;
use oomph_model::{ModelError, weights::WeightsError};

use crate::device::OpenDeviceError;

/// Why a session cannot be opened.
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
    /// In the `config.json` of Hugging Face beside a file of weights, or between it and the configuration.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// In the device.
    #[error(transparent)]
    Device(#[from] OpenDeviceError),
    /// Between the task and the data.
    #[error(transparent)]
    Task(#[from] oomph_engine::task::TaskError),
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
    /// The data or the weights of this rank differ from those of rank 0.
    #[error("this rank has {}, rank 0 has {}", here.as_deref().unwrap_or("nothing"), there.as_deref().unwrap_or("nothing"))]
    OtherFiles {
        /// What rank 0 does not have, such as the digest of the data.
        here: Option<String>,
        /// What rank 0 has instead.
        there: Option<String>,
    },
    /// In the calibration that `device.calibration` names.
    #[error(transparent)]
    Calibration(#[from] CalibrationError),
    /// In the compute threads.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
}

fn shown(setting: Option<&String>) -> String {
    setting.map_or_else(|| "nothing".into(), |setting| format!("`{setting}`"))
}

impl SessionError {
    /// A command or a setting that helps, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Config(error) => error.hint(),
            Self::Data(error) => error.hint(),
            Self::Model(error) => error.hint(),
            Self::Weights(error) => error.hint(),
            Self::Hub(error) => error.hint(),
            Self::Device(error) => error.hint(),
            Self::Task(_) => Some("without `train.task` it is the one that goes with the data".into()),
            Self::OtherConfig { .. } => Some(
                "is the config file the same on all machines, and each started with the same arguments?"
                    .into(),
            ),
            Self::OtherFiles { .. } => {
                Some("are `data.path` and `model.weights` the same files on all machines?".into())
            }
            Self::Calibration(error) => error.hint().map(str::to_owned),
            Self::Threads(error) => error.hint().map(str::to_owned),
        }
    }
}
