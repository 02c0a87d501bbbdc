use oomph_config::Change;
use oomph_core::Bytes;
use serde::{Deserialize, Serialize};

/// Settings that lower the planned peak, and their cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// The names of the levers, such as `micro-batch`.
    pub levers: Vec<String>,
    /// Configuration keys with their new values.
    pub settings: Vec<(String, String)>,
    /// The settings as changes of a configuration. The JSON of a report does not have them.
    #[serde(skip)]
    pub changes: Vec<Change>,
    /// The planned peak with the settings.
    pub planned_peak_bytes: Bytes,
    /// The additional time per sample as a share: 0.1 means 10 % longer. Estimated from the operations of a step.
    pub slowdown: f64,
    /// Whether batch, gradients and optimizer stay the same.
    pub keeps_mathematics: bool,
    /// Other effects, in a few words.
    pub about: String,
}

impl Advice {
    /// The settings as command-line arguments: `--set`, `memory.micro_batch=8` …
    pub fn flags(&self) -> Vec<String> {
        let settings = self.settings.iter();
        settings.flat_map(|(key, value)| ["--set".to_owned(), format!("{key}={value}")]).collect()
    }
}

/// All advice for a training that does not fit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Advised {
    /// Advice that makes the training fit. Advice that keeps the mathematics comes first, sorted by time.
    pub levers: Vec<Advice>,
    /// The advice with the lowest planned peak, if none makes the training fit.
    pub least: Option<Advice>,
}
