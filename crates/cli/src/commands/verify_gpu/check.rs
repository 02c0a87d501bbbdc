use oomph_config::DeviceName;
use oomph_core::Bytes;
use oomph_trainer::device::OpenDeviceError;
use serde::Serialize;
use serde_json::Value;

use super::{
    card, device, first_step, memory,
    numerics::{self, Numerics},
    runner::Runner,
    speed,
    trainings::Training,
};
use crate::{
    error::CliError,
    exit::Exit,
    probe::{Stopped, failure::ProbeError},
};

/// One check of the list.
#[derive(Debug)]
pub(super) enum GpuCheck {
    Device,
    Numerics(Numerics),
    Memory(&'static Training),
    /// Needs the readings of the memory checks before it.
    Card,
    FirstStep(&'static Training),
    Speed(&'static Training),
}

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

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CheckVerdict {
    Pass,
    Fail,
    Skipped,
}

/// A check with its result, as JSON.
#[derive(Debug, Serialize)]
pub(super) struct CheckRow {
    pub(super) name: &'static str,
    pub(super) training: Option<String>,
    compares: String,
    pub(super) verdict: CheckVerdict,
    pub(super) limit: Option<f64>,
    values: Value,
    /// The values in a few words, or why there are none.
    pub(super) finding: String,
    /// Why the check failed.
    error: Option<String>,
    seconds: f64,
}

impl GpuCheck {
    /// The checks, in their order.
    pub(super) fn list(is_quick: bool) -> Vec<Self> {
        let mut checks = vec![Self::Device];
        checks.extend(numerics::list(is_quick).into_iter().map(Self::Numerics));
        checks.extend(memory::list(is_quick).iter().copied().map(Self::Memory));
        checks.push(Self::Card);
        let timed = speed::list(is_quick);
        checks.extend(timed.iter().flat_map(|training| [Self::FirstStep(training), Self::Speed(training)]));
        checks
    }

    pub(super) fn run(&self, runner: &mut Runner<'_>) -> Result<Figures, CheckError> {
        match self {
            Self::Device => Ok(device::check(runner.device)),
            Self::Numerics(numerics) => numerics.check(runner),
            Self::Memory(training) => memory::check(training, runner),
            Self::Card => card::check(runner),
            Self::FirstStep(training) => first_step::check(training, runner),
            Self::Speed(training) => speed::check(training, runner),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Numerics(_) => "numerics",
            Self::Memory(_) => "memory",
            Self::Card => "card",
            Self::FirstStep(_) => "first step",
            Self::Speed(_) => "speed",
        }
    }

    fn training(&self) -> Option<String> {
        match self {
            Self::Device | Self::Card => None,
            Self::Numerics(numerics) => Some(numerics.label()),
            Self::Memory(training) | Self::FirstStep(training) | Self::Speed(training) => {
                Some(training.name.to_owned())
            }
        }
    }

    /// Name and training, for the progress.
    pub(super) fn label(&self) -> String {
        [Some(self.name().to_owned()), self.training()].into_iter().flatten().collect::<Vec<_>>().join(": ")
    }

    /// What is compared, in words.
    fn compares(&self, device: DeviceName) -> String {
        match self {
            Self::Device => format!("whether {device}, its driver and its libraries can train"),
            Self::Numerics(numerics) => numerics.compares(device),
            Self::Memory(_) if device == DeviceName::Cpu => {
                "the planned peak in use against that of the memory meter".to_owned()
            }
            Self::Memory(_) => format!("planned bytes in use and reserved against the pools of {device}"),
            Self::Card => {
                "reserved bytes of the pools against the driver's account of the process".to_owned()
            }
            Self::FirstStep(_) => {
                "time up to the end of the first step, without compiled kernels and with them".to_owned()
            }
            Self::Speed(_) => "nothing: the median time of a step after the warm-up".to_owned(),
        }
    }
}

impl CheckRow {
    pub(super) fn new(
        check: &GpuCheck,
        device: DeviceName,
        outcome: Result<Figures, CheckError>,
        seconds: f64,
    ) -> Self {
        let (verdict, figures) = match outcome {
            Ok(figures) if figures.passes => (CheckVerdict::Pass, figures),
            Ok(figures) => (CheckVerdict::Fail, figures),
            Err(CheckError::Skipped(reason)) => (CheckVerdict::Skipped, Figures::none(reason.to_string())),
            Err(error) => (CheckVerdict::Fail, Figures::none(error.with_causes())),
        };
        let Figures { limit, values, finding, .. } = figures;
        Self {
            name: check.name(),
            training: check.training(),
            compares: check.compares(device),
            error: (verdict == CheckVerdict::Fail).then(|| finding.clone()),
            verdict,
            limit,
            values,
            finding,
            seconds,
        }
    }

    /// A line of the progress: `[3/13] numerics: LSTM, digits, fp32: pass`.
    pub(super) fn line(&self, number: usize, count: usize) -> String {
        let training = self.training.as_ref().map(|name| format!(": {name}")).unwrap_or_default();
        format!("[{number}/{count}] {}{training}: {}", self.name, self.verdict.text())
    }
}

impl CheckVerdict {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Skipped => "skipped",
        }
    }
}

impl Figures {
    fn none(finding: String) -> Self {
        Self { passes: false, limit: None, values: Value::Null, finding }
    }
}

impl CheckError {
    /// The message with those of its causes.
    fn with_causes(&self) -> String {
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
