//! What a study needs of the program whose trainings it runs.

use std::process::Command;

use oomph_config::{Config, ConfigError, DeviceName, Value};
use oomph_core::Bytes;
use serde::{Deserialize, Serialize};

use crate::length::Length;

/// The program whose trainings a study runs: it plans their memory, and starts them in processes of their own.
pub trait Bench: Sync {
    /// Reads the sections of a trial's configuration that only the program knows.
    ///
    /// # Errors
    /// Why the program refuses it.
    fn check(&self, config: &Config) -> Result<(), Refusal>;

    /// Plans the memory of a training. Where it does not fit and `may_adapt`, settings that keep the mathematics make it fit.
    ///
    /// # Errors
    /// Why the program refuses the configuration.
    fn plan(&self, config: &Config, may_adapt: bool) -> Result<Fit, Refusal>;

    /// The command of a process that trains. It reads a [`Request`] as a line of JSON from stdin, writes the events of the
    /// training as lines of JSON to stdout, and saves and ends when its stdin closes.
    fn command(&self) -> Command;
}

/// Why a configuration cannot be trained, in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The error.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl From<ConfigError> for Refusal {
    fn from(error: ConfigError) -> Self {
        Self { message: error.to_string(), hint: error.hint() }
    }
}

/// Whether a training fits into memory.
#[derive(Clone, Debug, PartialEq)]
pub enum Fit {
    /// It does.
    Fits {
        /// The planned peak.
        peak_bytes: Bytes,
    },
    /// It does with other settings, which keep the mathematics.
    Adapted {
        /// The planned peak with them.
        peak_bytes: Bytes,
        /// The settings.
        settings: Vec<(String, Value)>,
    },
    /// It does not.
    TooLarge {
        /// The planned peak.
        peak_bytes: Bytes,
        /// The limit.
        limit_bytes: Bytes,
    },
}

/// Where trials are trained: a device, or several that train one trial together.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialPlace {
    /// The devices.
    pub devices: Vec<DeviceName>,
    /// The memory of each of them, if it is known.
    pub limit_bytes: Option<Bytes>,
    /// How many trials may train there at the same time, memory apart.
    pub most: usize,
    /// Compute threads of each trial; `None`: its own default.
    pub threads: Option<usize>,
}

impl TrialPlace {
    /// The settings of a trial that has the place for itself.
    pub(crate) fn settings(&self) -> Vec<(&'static str, Value)> {
        self.settings_within(self.limit_bytes)
    }

    /// The settings of a trial that may use this much memory of the place.
    pub(crate) fn settings_within(&self, limit_bytes: Option<Bytes>) -> Vec<(&'static str, Value)> {
        let names: Vec<_> = self.devices.iter().map(DeviceName::to_string).collect();
        let mut settings = vec![("device.devices", Value::from(names.join(",")))];
        // The limit of a GPU is its memory.
        if self.devices.iter().all(|device| *device == DeviceName::Cpu) {
            settings.extend(limit_bytes.map(|limit| ("memory.limit", Value::from(limit))));
        }
        settings.extend(self.threads.map(|threads| ("device.threads", Value::from(threads))));
        settings
    }
}

/// The request to a process that trains a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The name of the configuration, for messages.
    pub name: String,
    /// The resolved configuration as TOML. Its run directory is the trial's, which is resumed where it has a run.
    pub config: String,
    /// Where the training pauses; `None`: nowhere.
    pub pause_at: Option<Length>,
}
