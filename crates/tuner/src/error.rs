use std::{io, path::PathBuf};

use oomph_config::ConfigError;
use oomph_search::SearchError;
use oomph_study::StudyError;

/// Why a study cannot be begun or continued.
#[derive(Debug, thiserror::Error)]
pub enum TuneError {
    /// The configuration, or a value of its space.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The program refuses a value of the space.
    #[error("{}", refusal.message)]
    Refused {
        /// Why.
        refusal: crate::bench::Refusal,
    },
    /// The configuration has no `[tune]`.
    #[error("`{name}` has no section `[tune]`")]
    NoTune {
        /// The configuration.
        name: String,
    },
    /// A study that repeats needs to know how many trials run at the same time.
    #[error("`tune.deterministic` needs a number in `tune.parallel`")]
    DeterministicAuto,
    /// The space, or the lengths of trials.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// The journal.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// A folder or file of the study.
    #[error("cannot {action} `{}`", path.display())]
    File {
        /// What failed.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no study.
    #[error("there is no study in `{}`", folder.display())]
    NoStudy {
        /// The folder.
        folder: PathBuf,
    },
    /// No trial is complete.
    #[error("no trial of `{study}` is complete yet")]
    NoBest {
        /// The study.
        study: String,
    },
    /// A point that is to be enqueued.
    #[error("`{text}` is no point: {expected} was expected")]
    Point {
        /// As it was given.
        text: String,
        /// What was expected.
        expected: String,
    },
    /// Trials cannot be started.
    #[error("cannot start the process of a trial")]
    Start(#[source] io::Error),
}

impl TuneError {
    /// What the user can do about it, if anything.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Config(error) => error.hint(),
            Self::Refused { refusal } => refusal.hint.clone(),
            Self::NoTune { .. } => Some(
                "`oomph tune --config tune-digits` searches an example; in your own config, `[tune.space]` has the keys to search"
                    .into(),
            ),
            Self::DeterministicAuto => {
                Some("`--set tune.parallel=2` runs two trials at the same time, over all workers".into())
            }
            Self::Study(StudyError::Differs { .. }) => Some(
                "undo the change, or begin another study with `--name`; `tune.trials`, `tune.lease` and `tune.checkpoints` may change"
                    .into(),
            ),
            Self::NoStudy { .. } => Some("`oomph tune --config CONFIG` begins one".into()),
            Self::NoBest { study } => {
                Some(format!("`oomph tune --name {} --status` shows how far it is", oomph_core::printable(study)))
            }
            Self::Start(_) => Some("`ulimit -u` limits the number of processes; `oomph doctor` shows it".into()),
            Self::Search(_) | Self::Study(_) | Self::File { .. } | Self::Point { .. } => None,
        }
    }
}
