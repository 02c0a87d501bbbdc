use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::process::ProcessName;

/// The attribute of a trial that holds its [`Lease`].
pub(crate) const LEASE: &str = "oomph:lease";
/// The attribute of a trial that stands at a rung: a [`Pause`].
pub(crate) const PAUSED: &str = "oomph:paused";

/// Who works on a trial, as the trial's attribute `oomph:lease` says.
///
/// The attempt fences: whoever claims the trial raises the number, and a worker whose attempt is not the newest is refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lease {
    /// The worker.
    pub worker: String,
    /// How often the trial was claimed, counted from 1.
    pub attempt: u64,
    /// How often this claim was renewed.
    pub beat: u64,
    /// How often the trial was claimed from a worker that gave no sign of life.
    pub lost: u64,
    /// For how long a beat holds, in seconds.
    pub seconds: f64,
    /// The process of the worker: once it is gone, the lease is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessName>,
}

impl Lease {
    pub(crate) fn time(&self) -> Duration {
        // A foreign record may hold any number; a year is for ever.
        Duration::try_from_secs_f64(self.seconds).unwrap_or(Duration::from_secs(31_536_000))
    }

    /// Whether nobody works on the trial, as far as can be told without waiting: it was given back, or the process is gone.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.seconds == 0.0 || self.process.as_ref().is_some_and(ProcessName::is_gone)
    }

    /// Whether `next` may follow this lease. A stopped worker that writes late does not get the trial back.
    pub(crate) fn accepts(&self, next: &Self) -> bool {
        next.attempt > self.attempt
            || next.attempt == self.attempt && next.worker == self.worker && next.beat >= self.beat
    }
}

/// Where a trial was paused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pause {
    /// After how many steps.
    pub(crate) step: u64,
    /// The attempt that ended here. A later attempt continues the trial.
    pub(crate) attempt: u64,
}
