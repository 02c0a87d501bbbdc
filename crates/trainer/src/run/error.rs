use std::path::PathBuf;

use oomph_config::ConfigError;

use crate::state::StateError;

/// What can be wrong with a run directory.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Another process trains in it.
    #[error("run directory `{}` is in use by {holder}", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process, as far as it is known.
        holder: String,
    },
    /// It holds a run already, and this is to be a new one.
    #[error("run directory `{}` already holds a run", path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// There is no run in a directory.
    #[error("`{}` is no run directory: it has no `config.toml`", path.display())]
    NotARun {
        /// The directory.
        path: PathBuf,
    },
    /// A line of the log cannot be understood.
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
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Exists { .. } => {
                Some("`--resume` goes on with it; `--set run.directory=…` names another".into())
            }
            Self::InUse { .. } => {
                Some("wait for it, stop it, or name another with `--set run.directory=…`".into())
            }
            Self::State(error) => error.hint(),
            Self::Config(error) => error.hint(),
            Self::NotARun { .. } | Self::Damaged { .. } => None,
        }
    }
}
