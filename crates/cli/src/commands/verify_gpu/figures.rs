use oomph_config::DeviceName;
use oomph_core::Bytes;
use oomph_trainer::device::OpenDeviceError;
use serde_json::Value;

use crate::{
    error::CliError,
    exit::Exit,
    probe::{Stopped, failure::ProbeError},
};

/// The figures of a check.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) passes: bool,
    /// The largest difference that passes, as a share.
    pub(super) limit: Option<f64>,
    pub(super) values: Value,
    /// The values in a few words.
    pub(super) finding: String,
}

/// Why a check has no figures.
#[derive(Debug, thiserror::Error)]
pub(super) enum CheckError {
    #[error("a signal arrived")]
    Stopped(Exit),
    #[error(transparent)]
    Skipped(#[from] SkipReason),
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[error(transparent)]
    Cli(#[from] CliError),
    #[error("its process ended without the figures")]
    NoFigures,
}

/// Why a check is skipped.
#[derive(Debug, thiserror::Error)]
pub(super) enum SkipReason {
    #[error(transparent)]
    Precision(OpenDeviceError),
    #[error("by plan it needs {planned_bytes} of the {limit_bytes} that are free")]
    DoesNotFit { planned_bytes: Bytes, limit_bytes: Bytes },
    #[error("no driver counts the memory of `{device}` by process")]
    NoAccount { device: DeviceName },
    #[error("the driver does not list this process, as in a container with its own process ids")]
    Unlisted,
}

impl Figures {
    /// No figures, and why there are none.
    pub(super) fn none(finding: String) -> Self {
        Self { passes: false, limit: None, values: Value::Null, finding }
    }
}

impl CheckError {
    /// The message with those of its causes.
    pub(super) fn with_causes(&self) -> String {
        let causes = std::iter::successors(std::error::Error::source(self), |error| error.source());
        std::iter::once(self.to_string())
            .chain(causes.map(ToString::to_string))
            .collect::<Vec<_>>()
            .join(": ")
    }
}

impl From<Stopped> for CheckError {
    fn from(Stopped(exit): Stopped) -> Self {
        Self::Stopped(exit)
    }
}
