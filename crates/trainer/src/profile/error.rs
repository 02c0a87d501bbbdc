use oomph_config::DeviceName;

use crate::TrainError;

/// What can keep a profile from being made.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// In training itself.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// There is no recorder for that device.
    #[error("allocations on `{device}` cannot be recorded, only those on `cpu`")]
    Device {
        /// The device that was asked for.
        device: DeviceName,
    },
    /// Without the meter nobody sees the allocations.
    #[error("this program does not count its allocations: its meter is not installed")]
    NoMeter,
    /// No batch had a sample in it.
    #[error("none of the training samples can be read, so there is no step to profile")]
    NoSteps,
}

impl ProfileError {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Train(error) => error.hint(),
            Self::Device { .. } => Some(
                "`--devices cpu` profiles the same model on the CPU; `oomph monitor` shows what is held on a GPU"
                    .into(),
            ),
            Self::NoMeter => {
                Some("write `oomph::install_meter!();` once, at the root of its `main.rs`".into())
            }
            Self::NoSteps => None,
        }
    }
}
