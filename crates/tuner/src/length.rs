//! How long trials are trained.

use oomph_config::{
    Config, ConfigError,
    sections::tune::{MinLength, Scheduler, Tune},
};
use serde::{Deserialize, Serialize};

/// What a trial's progress is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Passes over the training data.
    Epochs,
    /// Optimizer steps.
    Steps,
}

/// A length of a training.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Length {
    /// The unit.
    pub unit: Unit,
    /// How many of them.
    pub count: u64,
}

impl Length {
    /// The same in optimizer steps.
    pub fn steps(self, steps_per_epoch: usize) -> usize {
        let count = usize::try_from(self.count).unwrap_or(usize::MAX);
        match self.unit {
            Unit::Epochs => count.saturating_mul(steps_per_epoch),
            Unit::Steps => count,
        }
    }

    /// The length of a trial that is trained to its end, and the one after which trials are first compared.
    ///
    /// # Errors
    /// One is in epochs and the other in steps: how many steps an epoch has depends on the batch, which may differ from trial
    /// to trial.
    pub(crate) fn whole_and_first(config: &Config, tune: &Tune) -> Result<[Self; 2], ConfigError> {
        let length = config.train.length;
        let (unit, whole) = match (length.steps, length.epochs) {
            (Some(steps), _) => (Unit::Steps, steps),
            (None, Some(epochs)) => (Unit::Epochs, epochs),
            (None, None) => (Unit::Epochs, 1),
        };
        let of = |count: usize| Self { unit, count: count as u64 };
        match (unit, tune.min_length) {
            (Unit::Epochs, MinLength::Epochs(first)) | (Unit::Steps, MinLength::Steps(first)) => {
                Ok([of(whole), of(first.min(whole))])
            }
            _ if tune.scheduler == Scheduler::None => Ok([of(whole), of(whole)]),
            (Unit::Epochs, MinLength::Steps(_)) => {
                Err(config.invalid("tune.min_steps", "`min_epochs`, since `train.epochs` counts epochs"))
            }
            (Unit::Steps, MinLength::Epochs(_)) => Err(config
                .invalid("train.steps", "`tune.min_steps` beside it, since trials are counted in steps")),
        }
    }
}
