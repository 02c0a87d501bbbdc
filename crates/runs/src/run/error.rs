use std::path::PathBuf;

use oomph_config::ConfigError;

use crate::state::StateError;

/// Errors of a run directory.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Another process trains in it.
    #[error("run directory `{}` is in use by {holder}", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process that holds it, if known.
        holder: String,
    },
    /// A new run needs a directory without a run.
    #[error("run directory `{}` already holds a run", path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// The directory holds no run.
    #[error("`{}` is not a run directory: it has no `config.toml`", path.display())]
    NotARun {
        /// The directory.
        path: PathBuf,
    },
    /// A line of the log is malformed.
    #[error("line {line} of `{}` is damaged at column {column}: {reason}", path.display())]
    Damaged {
        /// The log.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// Why.
        reason: String,
    },
    /// In the configuration of a run.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// In a checkpoint, or where the system refuses a file.
    #[error(transparent)]
    State(#[from] StateError),
}

impl RunError {
    /// A command or a setting that helps, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Exists { .. } => {
                Some("use `--resume` to continue it, or `--set run.directory=…` to name another".into())
            }
            Self::InUse { .. } => Some(
                "wait for that process, stop it, or name another directory with `--set run.directory=…`"
                    .into(),
            ),
            Self::State(error) => error.hint(),
            Self::Config(error) => error.hint(),
            Self::NotARun { .. } | Self::Damaged { .. } => None,
        }
    }
}
