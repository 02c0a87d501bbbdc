use oomph_config::{Config, ConfigError};

use crate::TrainError;

/// Why steps could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// Training failed.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// No sample can be read.
    #[error("none of the training samples can be read, so there is no step to measure")]
    NoSteps,
}

impl MeasureError {
    /// A command or a setting that helps, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Train(error) => error.hint(),
            Self::NoSteps => None,
        }
    }
}

/// Checks that the configuration names one device: steps are measured and compared on one device.
///
/// # Errors
/// Where it names more.
pub fn check_alone(config: &Config) -> Result<(), ConfigError> {
    match config.device.devices.len() {
        1 => Ok(()),
        _ => Err(config.invalid(
            "device.devices",
            "one device, on which steps are compared: `oomph profile` measures several",
        )),
    }
}
