use std::{io, path::PathBuf};

use crate::state::StateError;

/// What can be wrong with a run directory.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The system refused.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
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
    /// In a checkpoint or in writing a file.
    #[error(transparent)]
    State(#[from] StateError),
}

impl RunError {
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

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
            Self::Io { .. } => None,
        }
    }
}
