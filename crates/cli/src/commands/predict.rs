//! `oomph predict`: asks a trained model about inputs of one's own.

mod images;
mod scores;

use std::path::{Path, PathBuf};

use clap::Args;
use oomph_config::{Config, Entry, Origin};
use oomph_trainer::{
    Registry, RunDirectory,
    state::{Checkpoint, CheckpointStore, Found, StateError, Which},
};

use crate::{
    configuration::{ConfigArguments, DeviceArguments},
    error::CliError,
    exit::Exit,
    notices::Notices,
};

#[derive(Args, Debug)]
#[command(after_help = "\
Images are read as those that the model was trained on: their size, channels and normalisation are
saved with the checkpoint, and the names of the classes. The training data need not be there.

Examples:
  oomph predict photo.jpg                        with the newest checkpoint of runs/resnet
  oomph predict --run runs/photos --checkpoint best holiday/ --top 3
  oomph predict --run runs/photos --json holiday/ > predictions.jsonl")]
pub(crate) struct PredictArguments {
    /// Image files, JPEG or PNG; of a folder all images in it and below
    #[arg(value_name = "FILE|FOLDER", required = true)]
    inputs: Vec<PathBuf>,
    /// The run directory [default: that of the config]
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Which checkpoint of the run: `latest`, `best`, or a step
    #[arg(long, value_name = "WHICH", default_value = "latest", value_parser = which)]
    checkpoint: Which,
    /// So many classes of each image, the likeliest first
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten)]
    device: DeviceArguments,
    /// JSON lines on standard output: one a file
    #[arg(long)]
    pub(crate) json: bool,
}

fn which(text: &str) -> Result<Which, String> {
    match text {
        "latest" => Ok(Which::Latest),
        "best" => Ok(Which::Best),
        step => step.parse().map(Which::Step).map_err(|_| "expected `latest`, `best` or a step".to_owned()),
    }
}

pub(crate) fn run(arguments: &PredictArguments, registry: &Registry) -> Result<Exit, CliError> {
    let (config, found) = arguments.find()?;
    for warning in found.warnings() {
        Notices::default().warning(warning);
    }
    for key in without_effect(&config) {
        Notices::default().warning(format!("`{key}` has no effect: images are read as in training"));
    }
    let checkpoint = found.checkpoint;
    let source = checkpoint.source()?;
    // What a model can be asked about follows from what it was trained on.
    match source.images {
        Some(_) => images::run(arguments, registry, config, &checkpoint, &source),
        None => Err(CliError::NothingToAsk { input: source.spec.input }),
    }
}

/// What of the data was set for this command alone. How many threads read is no matter of what they read.
fn without_effect(config: &Config) -> Vec<String> {
    let is_set = |entry: &Entry| entry.origin == Origin::Set && entry.key.starts_with("data.");
    let works = |key: &str| matches!(key, "data.workers" | "data.prefetch");
    let set = config.resolved().into_iter().filter(is_set).map(|entry| entry.key);
    set.filter(|key| !works(key)).collect()
}

impl PredictArguments {
    fn find(&self) -> Result<(Config, Found), CliError> {
        let flags = self.device.flags();
        let Some(run) = &self.run else {
            let config = self.config.load(&flags)?;
            let run = config.run.directory.clone().unwrap_or_else(|| RunDirectory::last(config.name()));
            return match self.checkpoint_of(&run) {
                Err(StateError::NotACheckpoint { path: run }) => {
                    Err(CliError::NothingTrained { run, flag: "--run" })
                }
                found => Ok((config, found?)),
            };
        };
        let found = self.checkpoint_of(run)?;
        Ok((self.config.load_for(&found.checkpoint, &flags)?, found))
    }

    fn checkpoint_of(&self, run: &Path) -> Result<Found, StateError> {
        match self.checkpoint {
            // Also takes the directory of a checkpoint itself, as elsewhere.
            Which::Latest => Checkpoint::find(run),
            which => CheckpointStore::at(run.join(CheckpointStore::DIRECTORY)).get(which),
        }
    }
}
