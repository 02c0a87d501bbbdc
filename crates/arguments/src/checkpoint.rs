//! A trained model: a run directory, or one of its checkpoints.

use std::path::{Path, PathBuf};

use clap::Args;
use oomph_config::Config;
use oomph_runs::state::FoundCheckpoint;

use crate::{config::ConfigArguments, error::ArgumentsError, flags::Flag};

/// A trained model, by one path: a run directory stands for its newest checkpoint, `RUN/best` and `RUN/400` for another one.
/// A checkpoint's own directory works too, and a config stands for its newest run, with that run's own settings.
#[derive(Args, Clone, Debug)]
pub struct CheckpointArguments {
    /// A run directory such as runs/resnet (its newest checkpoint), runs/resnet/best, runs/resnet/400
    /// (a step), or a checkpoint; with its own config unless --config is given. Or a config, for its
    /// newest run [default: the newest run of resnet.toml, or of --config]
    #[arg(value_name = "RUN", conflicts_with = "checkpoint")]
    path: Option<PathBuf>,
    /// The same
    #[arg(long, value_name = "RUN", hide = true)]
    checkpoint: Option<PathBuf>,
}

impl CheckpointArguments {
    /// The path.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref().or(self.checkpoint.as_deref())
    }

    /// The arguments of the configuration beside a flag that names another source of the weights. The path may name a config.
    ///
    /// # Errors
    /// The path names no config, or `--config` names one too.
    pub fn config_beside(
        &self,
        flag: &'static str,
        value: &str,
        config: &ConfigArguments,
    ) -> Result<ConfigArguments, ArgumentsError> {
        let Some(path) = self.path() else { return Ok(config.clone()) };
        match path.to_str() {
            Some(name) if config.config.is_none() && config.is_named_by(path) => Ok(config.with_name(name)),
            _ => Err(ArgumentsError::TwoSources { path: path.to_owned(), flag, value: value.to_owned() }),
        }
    }

    /// The checkpoint with its configuration.
    ///
    /// # Errors
    /// There is no checkpoint, or a setting is refused.
    pub fn load(
        &self,
        config: &ConfigArguments,
        flags: &[Flag<'_>],
    ) -> Result<(Config, FoundCheckpoint), ArgumentsError> {
        config.load_with_checkpoint(self.path(), flags)
    }
}
