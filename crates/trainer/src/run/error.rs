use std::path::PathBuf;

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
        }
    }
}
