use std::{collections::BTreeMap, path::PathBuf};

use oomph_core::Bytes;
use oomph_memory::{Category, Split};
use oomph_trainer::{Measurement, OutOfMemoryReport, PlannedStep, Rehearsal, Session};
use serde::{Deserialize, Serialize};

/// What a child is asked to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    /// The name of the configuration, for messages.
    pub(super) name: String,
    /// The resolved configuration as TOML.
    pub(super) config: String,
    /// What to do with it.
    pub(super) work: Work,
}

/// What a child does with a configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Work {
    /// Some steps, to compare them with others.
    Measure {
        /// Optimizer steps to do.
        steps: usize,
    },
    /// The moments of a training at which most is in use.
    Rehearse {
        /// Whole steps to do.
        steps: usize,
        /// Where a report of what runs out of memory is written.
        report: Option<PathBuf>,
    },
}

/// What a child tells. An error is told as every command tells it with `--json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Message {
    Planned(Planned),
    Step {
        step: usize,
    },
    Measured(Measured),
    Rehearsed(Rehearsal),
    Error {
        message: String,
        #[serde(default)]
        causes: Vec<String>,
        hint: Option<String>,
        #[serde(default)]
        out_of_memory: Option<Box<OutOfMemoryReport>>,
    },
}

/// What was planned for a step of training.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Planned {
    /// The name of the model.
    pub(crate) model: String,
    /// Its trainable elements.
    pub(crate) parameters: usize,
    /// What the device may use, where that is known.
    pub(crate) limit_bytes: Option<Bytes>,
    /// What is in use at the planned peak, by category.
    peak: BTreeMap<Category, u64>,
    /// What the optimizer keeps for each parameter.
    pub(crate) state_bytes_per_parameter: f64,
}

impl Planned {
    pub(crate) fn new(session: &Session, step: &PlannedStep) -> Self {
        Self {
            model: session.architecture.name().to_owned(),
            parameters: step.parameters,
            limit_bytes: session.limit_bytes,
            peak: step.peak.iter().map(|(category, bytes)| (category, bytes.get())).collect(),
            state_bytes_per_parameter: step.state_bytes_per_parameter(),
        }
    }

    /// What is in use at the planned peak.
    pub(crate) fn peak(&self) -> Split {
        let mut split = Split::default();
        for (&category, &bytes) in &self.peak {
            split += (category, bytes);
        }
        split
    }

    /// The planned peak.
    pub(crate) fn peak_bytes(&self) -> Bytes {
        self.peak().total()
    }
}

/// What was measured. JSON has no numbers that are not finite: such a loss is absent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) peak_in_use_bytes: Option<Bytes>,
    pub(crate) state_bytes_per_parameter: Option<f64>,
    pub(crate) first_step_seconds: f64,
    pub(crate) step_seconds: f64,
    pub(crate) samples_per_second: f64,
    pub(crate) loss_first: Option<f64>,
    pub(crate) loss_last: Option<f64>,
}

impl From<&Measurement> for Measured {
    fn from(measurement: &Measurement) -> Self {
        let finite = |loss: f64| Some(loss).filter(|loss| loss.is_finite());
        Self {
            peak_in_use_bytes: measurement.peak_in_use_bytes,
            state_bytes_per_parameter: measurement.state_bytes_per_parameter(),
            first_step_seconds: measurement.first_step_seconds,
            step_seconds: measurement.step_seconds,
            samples_per_second: measurement.samples_per_second,
            loss_first: finite(measurement.loss_first),
            loss_last: finite(measurement.loss_last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_as_it_was_sent() {
        let sent = Planned {
            model: "lstm".into(),
            parameters: 10,
            limit_bytes: Some(Bytes::mib(1)),
            peak: [(Category::Parameters, 40), (Category::OptimizerState, u64::MAX / 2)].into(),
            state_bytes_per_parameter: 8.0,
        };
        let line = serde_json::to_string(&Message::Planned(sent.clone())).unwrap();
        assert!(line.contains(r#""event":"planned""#) && line.contains(r#""optimizer_state""#), "{line}");
        let Message::Planned(heard) = serde_json::from_str(&line).unwrap() else { panic!("{line}") };
        assert_eq!((heard.peak(), heard.limit_bytes), (sent.peak(), sent.limit_bytes));
    }

    #[test]
    fn an_error_is_heard_as_every_command_tells_it() {
        let line = r#"{"event":"error","message":"no","causes":["why"],"hint":null}"#;
        let Message::Error { message, causes, hint, .. } = serde_json::from_str(line).unwrap() else {
            panic!("{line}")
        };
        assert_eq!((message.as_str(), causes.len(), hint), ("no", 1, None));
    }
}
