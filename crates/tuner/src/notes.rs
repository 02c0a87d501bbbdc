//! What the journal keeps of a trial, beside what Optuna knows of it.

use std::collections::BTreeMap;

use oomph_config as config;
use oomph_core::Bytes;
use oomph_study::{Change, StoredTrial};
use serde_json::Value;

/// The peak that was planned.
pub(crate) const PLANNED: &str = "oomph:planned_peak_bytes";
/// Settings beside the point's, which make it fit.
pub(crate) const ADAPTED: &str = "oomph:adapted";
/// The peak that was measured.
pub(crate) const MEASURED: &str = "oomph:measured_peak_bytes";
/// The run directory, within the study's folder.
pub(crate) const RUN: &str = "oomph:run";
/// Seconds that the last training took.
pub(crate) const SECONDS: &str = "oomph:seconds";

/// The notes of a trial.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrialNotes {
    /// The peak that was planned.
    pub planned_peak_bytes: Option<Bytes>,
    /// The peak that was measured.
    pub measured_peak_bytes: Option<Bytes>,
    /// Settings beside the point's, which make it fit.
    pub adapted: BTreeMap<String, Value>,
    /// Seconds that the last training took.
    pub seconds: Option<f64>,
}

impl TrialNotes {
    /// The notes of a trial. Those that are missing or of another kind are left out.
    pub fn of(trial: &StoredTrial) -> Self {
        let attribute = |key| trial.user_attributes.get(key);
        let bytes = |key| attribute(key).and_then(Value::as_u64).map(Bytes::new);
        let adapted = attribute(ADAPTED).and_then(Value::as_object);
        Self {
            planned_peak_bytes: bytes(PLANNED),
            measured_peak_bytes: bytes(MEASURED),
            adapted: adapted.into_iter().flatten().map(|(key, it)| (key.clone(), it.clone())).collect(),
            seconds: attribute(SECONDS).and_then(Value::as_f64),
        }
    }
}

impl TrialNotes {
    /// The settings beside the point's, as the configuration has them.
    pub(crate) fn settings(&self) -> Vec<(String, config::Value)> {
        let adapted = self.adapted.iter();
        adapted.filter_map(|(key, value)| Some((key.clone(), config_value(value)?))).collect()
    }
}

/// The change that notes a value.
pub(crate) fn note(key: &str, value: impl Into<Value>) -> Change {
    Change::Attribute { key: key.to_owned(), value: value.into() }
}

/// A value of the journal as the configuration has it.
fn config_value(value: &Value) -> Option<config::Value> {
    Some(match value {
        Value::Bool(boolean) => config::Value::Boolean(*boolean),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => config::Value::Integer(integer.into()),
            None => config::Value::Number(number.as_f64()?),
        },
        Value::String(text) => config::Value::of_text(text),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    })
}
