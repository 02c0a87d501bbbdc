use std::path::{Path, PathBuf};

use clap::Args;
use oomph_arguments::{DeviceArguments, NamedConfigArguments, StrategyArguments, count};
use oomph_config::Config;
use oomph_tuner::Folder;

use crate::{error::CliError, output::OverwriteArguments};

#[derive(Args, Debug)]
#[command(after_help = "\
Without an option the command begins the study of a config, joins it from another machine, or
resumes it. The study is in tunes/NAME, and each trial in tunes/NAME/trials is a run like any other.
Ctrl-C pauses the running trials. `optuna-dashboard tunes/NAME/study.log` shows the study too.

Examples:
  oomph tune --config tune-digits --plan   how much of the space fits
  oomph tune --config tune-digits
  oomph tune --name tune-digits --status
  oomph tune --name tune-digits --best best.toml
  oomph train --config best.toml           trains with the best settings
  oomph tune --config tune-digits --enqueue optimizer.lr=0.01,train.batch=32
  oomph tune --name tune-digits --html study.html")]
pub(crate) struct TuneArguments {
    #[command(flatten)]
    pub(super) config: NamedConfigArguments,
    #[command(flatten)]
    pub(super) device: DeviceArguments,
    #[command(flatten)]
    pub(super) strategy: StrategyArguments,
    /// The study's name, and its folder in tunes/ [default: the config's]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Plan points of the space, and show how many fit; nothing is trained
    #[arg(
        long,
        value_name = "POINTS",
        num_args = 0..=1,
        default_missing_value = "64",
        group = "action",
        value_parser = count(1..=1_000_000)
    )]
    pub(super) plan: Option<u32>,
    /// Show how far the study is
    #[arg(long, group = "action")]
    pub(super) status: bool,
    /// Show the best trial, and write a config to train with its settings to FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, group = "action")]
    pub(super) best: Option<Option<PathBuf>>,
    /// Add a trial with these values of searched keys; the others are sampled; may be repeated
    #[arg(long, value_name = "KEY=VALUE,…", group = "action")]
    pub(super) enqueue: Vec<String>,
    /// Make all decisions of the study again, and fail where one differs
    #[arg(long, group = "action")]
    pub(super) replay: bool,
    /// Write a page of the study to FILE
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    #[command(flatten)]
    pub(super) overwrite: OverwriteArguments,
    /// Print only warnings and errors
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Print the result, or the events of the study, as JSON lines
    #[arg(long)]
    pub(crate) json: bool,
}

impl TuneArguments {
    /// The configuration: that of `--config`, else that of the study `--name`.
    pub(super) fn load(&self) -> Result<Config, CliError> {
        let [devices, limit] = self.device.flags();
        let flags = [devices, self.strategy.flag(), limit];
        let config = self.config.named();
        match &self.name {
            Some(name) if config.config.is_none() => {
                let file = Folder::open(&folder(name))?.config_file()?;
                Ok(config.load_file(file, &flags)?)
            }
            _ => Ok(config.load(&flags)?),
        }
    }

    /// The name of the study.
    pub(super) fn study(&self, config: &Config) -> String {
        self.name.clone().unwrap_or_else(|| config.name().to_owned())
    }

    /// The folder of the study.
    pub(super) fn folder(&self, config: &Config) -> PathBuf {
        folder(&self.study(config))
    }

    /// Whether the study is only looked at.
    pub(super) fn only_looks(&self) -> bool {
        self.status || self.best.is_some() || self.replay || !self.enqueue.is_empty()
    }
}

fn folder(name: &str) -> PathBuf {
    Path::new("tunes").join(name)
}
