use std::cmp::{Ordering, Reverse};

use clap::ValueEnum;
use oomph_runs::RunSummary;

/// The order of runs, the best first. Runs without the value come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Sort {
    // The newest first
    Date,
    // By name
    Name,
    // The lowest evaluation loss first
    Best,
    // The lowest loss of the last evaluation first
    Last,
    // The highest accuracy of the best evaluation first
    Accuracy,
    // The lowest peak first
    Peak,
    // The fastest first
    Speed,
    // The shortest first
    Time,
}

impl Sort {
    pub(super) fn apply(self, runs: &mut [RunSummary]) {
        match self {
            Self::Name => runs.sort_by(|one, other| one.run_dir.cmp(&other.run_dir)),
            Self::Date => runs.sort_by_key(|run| Reverse(run.started_unix_seconds)),
            Self::Best => by_number(runs, |run| Some(run.best?.eval_loss)),
            Self::Last => by_number(runs, |run| Some(run.last?.eval_loss)),
            Self::Accuracy => by_number(runs, |run| Some(-run.best?.eval_accuracy?)),
            Self::Peak => by_number(runs, |run| Some(run.peak_in_use_bytes?.get() as f64)),
            Self::Speed => by_number(runs, |run| Some(-run.samples_per_second?)),
            Self::Time => by_number(runs, |run| Some(run.seconds)),
        }
    }
}

/// Sorts by a number, the smallest first.
fn by_number(runs: &mut [RunSummary], number: impl Fn(&RunSummary) -> Option<f64>) {
    runs.sort_by(|one, other| match (number(one), number(other)) {
        (Some(one), Some(other)) => one.total_cmp(&other),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    });
}
