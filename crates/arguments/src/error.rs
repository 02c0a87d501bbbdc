use std::path::PathBuf;

use oomph_config::ConfigError;
use oomph_runs::state::StateError;

/// Why arguments stand for nothing.
#[derive(Debug, thiserror::Error)]
pub enum ArgumentsError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The checkpoint.
    #[error(transparent)]
    State(#[from] StateError),
    /// The run directory of a configuration has no checkpoint.
    #[error("there is no checkpoint in `{}`", run.display())]
    NoCheckpoint {
        /// The run directory.
        run: PathBuf,
    },
    /// A run directory where a config belongs.
    #[error("`{}` is a run, not a config", path.display())]
    IsARun {
        /// The run directory.
        path: PathBuf,
    },
    /// A checkpoint beside another source of weights.
    #[error("the weights come from `{}` or from `{flag} {value}`, not from both", path.display())]
    TwoSources {
        /// The checkpoint.
        path: PathBuf,
        /// The flag of the other source.
        flag: &'static str,
        /// The value of the flag.
        value: String,
    },
}

impl ArgumentsError {
    /// What the user can do about it, if anything.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Config(error) => error.hint(),
            Self::State(error) => error.hint(),
            Self::TwoSources { path, flag, .. } => Some(format!(
                "leave out `{}`, which is read as a run or checkpoint, or `{flag}`",
                path.display()
            )),
            Self::IsARun { path } => {
                let [run, config] = [path.clone(), path.join("config.toml")];
                Some(format!(
                    "`oomph train --resume {}` continues it; `{}` is its config",
                    run.display(),
                    config.display()
                ))
            }
            Self::NoCheckpoint { .. } => Some(
                "train first with `oomph train` and the same config, or name another run or checkpoint"
                    .into(),
            ),
        }
    }
}
