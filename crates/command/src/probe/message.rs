use std::{collections::BTreeMap, path::PathBuf};

use oomph_advice::out_of_memory::OutOfMemoryReport;
use oomph_core::Bytes;
use oomph_timeline::{Category, Split};
use oomph_trainer::{
    Session,
    measure::{Measurement, PlannedStep, Rehearsal},
};
use serde::{Deserialize, Serialize};

use super::profiled::Profiled;

/// The request to a child.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    /// The name of the configuration, for messages.
    pub(super) name: String,
    /// The resolved configuration as TOML.
    pub(super) config: String,
    pub(super) work: Work,
}

/// The work of a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Trains some steps and measures memory, time and loss.
    Measure {
        /// The number of optimizer steps.
        steps: usize,
    },
    /// Trains some steps and compares their memory with the plan.
    Profile {
        /// Steps before those that are looked at.
        warmup: usize,
        /// The number of steps that are looked at.
        steps: usize,
    },
    /// Runs the phases of a training that use the most memory.
    Rehearse {
        /// The number of whole steps.
        steps: usize,
        /// The directory of an out-of-memory report.
        report: Option<PathBuf>,
    },
}

/// A message of a child. Errors have the format of every command with `--json`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Message {
    /// Its plan.
    Planned(Planned),
    /// A step has ended.
    Step {
        /// Its number, from 1.
        step: usize,
    },
    /// A measurement.
    Measured(Measured),
    /// Planned and measured memory.
    Profiled(Profiled),
    /// A rehearsal.
    Rehearsed(Rehearsal),
    /// An error, which ends the child.
    Error {
        /// What went wrong.
        message: String,
        /// The causes, the nearest first.
        #[serde(default)]
        causes: Vec<String>,
        /// What the user can do about it.
        hint: Option<String>,
        /// The report of a child that ran out of memory.
        #[serde(default)]
        out_of_memory: Option<Box<OutOfMemoryReport>>,
    },
}

/// The plan of a training step.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Planned {
    /// The name of the model.
    pub model: String,
    /// The number of trainable parameters.
    pub parameters: usize,
    /// The memory limit of the device, if known.
    pub limit_bytes: Option<Bytes>,
    /// The bytes of each category at the planned peak.
    peak: BTreeMap<Category, u64>,
    /// Bytes of optimizer state per parameter.
    pub state_bytes_per_parameter: f64,
    /// Seconds of a step, if the speed of the device is known.
    pub step_seconds: Option<f64>,
}

impl Planned {
    /// The plan of a step of this session.
    pub fn new(session: &Session, step: &PlannedStep) -> Self {
        Self {
            model: session.architecture.name().to_owned(),
            parameters: step.parameters,
            limit_bytes: session.limit_bytes,
            peak: step.peak.iter().map(|(category, bytes)| (category, bytes.get())).collect(),
            state_bytes_per_parameter: step.state_bytes_per_parameter(),
            step_seconds: step.step_seconds,
        }
    }

    /// The bytes of each category at the planned peak.
    pub fn peak(&self) -> Split {
        let mut split = Split::default();
        for (&category, &bytes) in &self.peak {
            split += (category, bytes);
        }
        split
    }

    /// The planned peak.
    pub fn peak_bytes(&self) -> Bytes {
        self.peak().total()
    }
}

/// A measurement. A loss that is not finite is `None`, since JSON has no such numbers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    /// The peak, if the program has a meter.
    pub peak_in_use_bytes: Option<Bytes>,
    /// Bytes of optimizer state for each parameter, if measured.
    pub state_bytes_per_parameter: Option<f64>,
    /// The time of the first step.
    pub first_step_seconds: f64,
    /// The median time of the steps after the warm-up.
    pub step_seconds: f64,
    /// Samples a second at that time.
    pub samples_per_second: f64,
    /// Of each step.
    pub losses: Vec<Option<f64>>,
    /// Seconds from the configuration to the model on the device, plans left out.
    pub opening_seconds: f64,
    /// GPU kernels that were compiled up to the end of the first step.
    pub compiled_kernels: u64,
}

impl Measured {
    /// Adds the time of opening the session, and the kernels that were compiled up to the end of the first step.
    pub(super) fn new(measurement: &Measurement, open_seconds: f64, compiled_kernels: u64) -> Self {
        let finite = |loss: &f64| Some(*loss).filter(|loss| loss.is_finite());
        Self {
            peak_in_use_bytes: measurement.peak_in_use_bytes,
            state_bytes_per_parameter: measurement.state_bytes_per_parameter(),
            first_step_seconds: measurement.first_step_seconds,
            step_seconds: measurement.step_seconds,
            samples_per_second: measurement.samples_per_second,
            losses: measurement.losses.iter().map(finite).collect(),
            opening_seconds: open_seconds + measurement.build_seconds,
            compiled_kernels,
        }
    }

    /// The loss of the first step, if it is finite.
    pub fn loss_first(&self) -> Option<f64> {
        *self.losses.first()?
    }

    /// The loss of the last step, if it is finite.
    pub fn loss_last(&self) -> Option<f64> {
        *self.losses.last()?
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
            step_seconds: Some(0.5),
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
