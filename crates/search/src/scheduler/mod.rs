//! Schedulers: which trial is worked on next, and how far.

mod brackets;
mod median;
mod rungs;

use std::collections::BTreeSet;

pub use brackets::{Asha, Hyperband};
pub use median::{Median, ToTheEnd};
pub use rungs::Rungs;

use crate::{Trial, TrialState};

/// Distributes work over trials. A function of the trials that it sees, whose order does not matter.
///
/// A trial whose worker was interrupted is still [`TrialState::Running`], and continues before a scheduler is asked.
pub trait Scheduler {
    /// What a free worker does. `new` is the number that a trial gets which begins now; `None` where the study may begin no more.
    fn next(&self, trials: &[Trial], new: Option<usize>) -> Next;

    /// Whether trial `number` continues, whose value after `step` is among its [`Trial::steps`].
    fn at_step(&self, trials: &[Trial], number: usize, step: u64) -> Verdict;

    /// The paused trials that may still continue, where at most `left` trials, waiting ones among them, may yet begin. The others
    /// are over: nothing that happens from now on promotes them, so their checkpoints are not needed.
    fn promotable(&self, trials: &[Trial], left: usize) -> BTreeSet<usize>;
}

/// What a free worker does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It continues a paused trial.
    Resume {
        /// The trial.
        number: usize,
        /// The step at which the trial is asked about next.
        until: u64,
    },
    /// It begins a trial.
    Begin {
        /// The step at which the trial is asked about first.
        until: u64,
    },
    /// Nothing now; what running trials tell may change that.
    Wait,
    /// Nothing any more. Paused trials end as [`TrialState::Pruned`].
    Finished,
}

/// What becomes of a running trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It continues.
    Continue {
        /// The step at which the trial is asked about next.
        until: u64,
    },
    /// It is paused, and its worker is free.
    Pause,
    /// It is pruned, and its worker is free.
    Stop,
}

/// What is left to do where no trial may continue: to begin one, to wait, or nothing.
fn begin_or_wait(trials: &[Trial], until: Option<u64>) -> Next {
    let is_open = |trial: &Trial| matches!(trial.state, TrialState::Running | TrialState::Waiting);
    match until {
        Some(until) => Next::Begin { until },
        None if trials.iter().any(is_open) => Next::Wait,
        None => Next::Finished,
    }
}
