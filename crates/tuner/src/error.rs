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
    #[error("no trial of `{study}` {}", if *is_over { "came to its end" } else { "is complete yet" })]
    NoBest {
        /// The study.
        study: String,
        /// Whether all its trials have ended.
        is_over: bool,
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
            Self::Study(StudyError::Differs { .. }) => Some(
                "undo the change, or begin another study with `--name`; `tune.trials`, `tune.lease` and `tune.checkpoints` may change"
                    .into(),
            ),
            Self::NoStudy { folder } => {
                let name = folder.file_name().unwrap_or_default();
                let name = oomph_core::printable(name.display());
                Some(format!("`oomph tune --config CONFIG --name {name}` begins one"))
            }
            Self::NoBest { study, is_over } => {
                let shows = if *is_over { "why" } else { "how far it is" };
                Some(format!("`oomph tune --name {} --status` shows {shows}", oomph_core::printable(study)))
            }
            Self::Start(_) => Some("`ulimit -u` limits the number of processes; `oomph doctor` shows it".into()),
            Self::Search(_) | Self::Study(_) | Self::File { .. } | Self::Point { .. } => None,
        }
    }
}
