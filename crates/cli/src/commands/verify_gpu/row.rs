use oomph_config::DeviceName;
use serde::Serialize;
use serde_json::Value;

use super::{
    check::GpuCheck,
    figures::{CheckError, Figures},
};

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
