use oomph_config::DeviceName;

use crate::TrainError;

/// Why a profile could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// Training failed.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// Allocations of the device cannot be recorded.
    #[error("allocations on `{device}` cannot be recorded, only those on `cpu`")]
    Device {
        /// The requested device.
        device: DeviceName,
    },
    /// The meter, which sees allocations, is not installed.
    #[error("this program cannot record allocations: its meter is not installed")]
    NoMeter,
    /// No sample can be read.
    #[error("none of the training samples can be read, so there is no step to profile")]
    NoSteps,
}

impl ProfileError {
    /// A command or a setting that helps, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Train(error) => error.hint(),
            Self::Device { .. } => Some(
                "use `--devices cpu` to profile the same model on the CPU, or `oomph monitor` to watch a GPU"
                    .into(),
            ),
            Self::NoMeter => {
                Some("write `oomph::install_meter!();` once, at the root of its `main.rs`".into())
            }
            Self::NoSteps => None,
        }
    }
}
