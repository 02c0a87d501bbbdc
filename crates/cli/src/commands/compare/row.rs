use oomph_advice::planning::fits;
use oomph_config::Config;
use oomph_engine::session::backend;
use oomph_trainer::Session;
use serde_json::{Map, Value, json};

use super::axes::{AXES, Values};
use crate::{
    error::CliError,
    failure,
    probe::{Measured, Planned, Probed},
    verdict::Verdict,
};

/// The plan and the measurement of one combination.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) values: Values,
    /// The base learning rate; `None` if the training is impossible.
    pub(super) lr: Option<f64>,
    pub(super) planned: Option<Planned>,
    pub(super) measured: Option<Measured>,
    /// `None` without a known limit.
    pub(super) verdict: Option<Verdict>,
    pub(super) error: Option<String>,
    /// What the user can do about the error.
    pub(super) hint: Option<String>,
}

impl Row {
    /// An impossible training.
    pub(super) fn failed(values: Values, error: &CliError) -> Self {
        Self {
            values,
            verdict: Some(Verdict::Failed),
            error: Some(failure::in_words(error)),
            hint: error.hint(),
            ..Self::default()
        }
    }

    /// A training that was only planned.
    pub(super) fn planned(values: Values, session: &Session, planned: Planned) -> Self {
        let fits = |limit| fits(planned.peak_bytes(), limit, backend(session));
        let verdict =
            planned.limit_bytes.map(|limit| if fits(limit) { Verdict::Fits } else { Verdict::DoesNotFit });
        let lr = Some(session.config.optimizer.lr);
        Self { values, lr, verdict, planned: Some(planned), ..Self::default() }
    }

    /// A training that ran in a child.
    pub(super) fn measured(values: Values, config: &Config, probed: Probed) -> Self {
        let Probed { planned, measured, failure, .. } = probed;
        let verdict = match &failure {
            None => Verdict::Fits,
            Some(failure) if failure.is_out_of_memory() => Verdict::DoesNotFit,
            Some(_) => Verdict::Failed,
        };
        Self {
            values,
            lr: Some(config.optimizer.lr),
            planned,
            measured,
            verdict: Some(verdict),
            error: failure.as_ref().map(ToString::to_string),
            hint: failure.and_then(|failure| failure.hint().map(str::to_owned)),
        }
    }

    /// The value of the axis with this JSON key.
    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        AXES.iter().position(|axis| axis.key == key).map(|number| &self.values[number])
    }

    /// Bytes of optimizer state per parameter: as measured, else as planned.
    pub(super) fn state_bytes_per_parameter(&self) -> Option<f64> {
        let measured = self.measured.as_ref().and_then(|measured| measured.state_bytes_per_parameter);
        measured.or_else(|| self.planned.as_ref().map(|planned| planned.state_bytes_per_parameter))
    }

    pub(super) fn samples_per_second(&self) -> Option<f64> {
        Some(self.measured.as_ref()?.samples_per_second).filter(|rate| rate.is_finite())
    }

    /// The relative error of the plan: planned over measured, minus 1.
    pub(super) fn error_of_plan(&self) -> Option<f64> {
        let (planned, measured) = (self.planned.as_ref()?, self.measured.as_ref()?.peak_in_use_bytes?);
        Some(planned.peak_bytes().get() as f64 / measured.get().max(1) as f64 - 1.0)
    }

    /// The row as JSON.
    pub(super) fn json(&self) -> Value {
        let mut row: Map<String, Value> =
            AXES.iter().zip(&self.values).map(|(axis, value)| (axis.key.to_owned(), value.clone())).collect();
        let (planned, measured) = (self.planned.as_ref(), self.measured.as_ref());
        let rest = json!({
            "lr": self.lr,
            "planned_peak_bytes": planned.map(Planned::peak_bytes),
            "planned_categories": planned.map(Planned::peak),
            "planned_state_bytes_per_parameter": planned.map(|planned| planned.state_bytes_per_parameter),
            "planned_step_seconds": planned.and_then(|planned| planned.step_seconds),
            "peak_in_use_bytes": measured.and_then(|measured| measured.peak_in_use_bytes),
            "state_bytes_per_parameter": measured.and_then(|measured| measured.state_bytes_per_parameter),
            "first_step_seconds": measured.map(|measured| measured.first_step_seconds),
            "step_seconds": measured.map(|measured| measured.step_seconds),
            "samples_per_second": self.samples_per_second(),
            "loss_first": measured.and_then(Measured::loss_first),
            "loss_last": measured.and_then(Measured::loss_last),
            "verdict": self.verdict,
            "error": self.error,
        });
        if let Value::Object(rest) = rest {
            row.extend(rest);
        }
        Value::Object(row)
    }
}
