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
    /// A run directory may not be a checkpoint, of this run or of another.
    #[error("`{}` is a checkpoint: a run directory must be another", path.display())]
    IsCheckpoint {
        /// The directory.
        path: PathBuf,
    },
    /// The directory of a training is no longer there.
    #[error(
        "run directory `{}` was {} while the training ran, so the training cannot save",
        path.display(),
        if *is_replaced { "replaced" } else { "removed or moved" }
    )]
    Removed {
        /// The directory.
        path: PathBuf,
        /// Whether another directory is at the path.
        is_replaced: bool,
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
            Self::IsCheckpoint { .. } => Some(
                "name the run directory with `--set run.directory=…`, and the checkpoint with `--resume`"
                    .into(),
            ),
            Self::InUse { .. } => Some(
                "wait for that process, stop it, or name another directory with `--set run.directory=…`"
                    .into(),
            ),
            Self::Removed { is_replaced: true, .. } => {
                Some("train in a directory of its own with `--set run.directory=…`".into())
            }
            Self::Removed { is_replaced: false, .. } => {
                Some("`oomph train --resume PATH` continues a run that was moved to `PATH`".into())
            }
            Self::State(error) => error.hint(),
            Self::Config(error) => error.hint(),
            Self::NotARun { .. } | Self::Damaged { .. } => None,
        }
    }
}
