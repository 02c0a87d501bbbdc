//! `oomph predict`: asks a trained model about inputs of one's own.

mod images;
mod scores;
mod text;

use std::path::{Path, PathBuf};

use clap::Args;
use oomph_config::{Config, Entry, Origin};
use oomph_data::SourceRecord;
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
saved with the checkpoint, and the names of the classes; of a language model the vocabulary. The
training data need not be there.

Examples:
  oomph predict photo.jpg                        with the newest checkpoint of runs/resnet
  oomph predict --run runs/photos --checkpoint best holiday/ --top 3
  oomph predict --run runs/photos --json holiday/ > predictions.jsonl
  oomph predict --run runs/lstm-lm --prompt \"ROMEO:\" --length 500 --temperature 0.8")]
pub(crate) struct PredictArguments {
    /// Image files, JPEG or PNG; of a folder all images in it and below
    #[arg(value_name = "FILE|FOLDER", required_unless_present = "prompt", conflicts_with = "prompt")]
    inputs: Vec<PathBuf>,
    #[command(flatten)]
    text: TextArguments,
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

/// How a text is continued.
#[derive(Args, Debug)]
struct TextArguments {
    /// The start of a text for a language model to continue
    #[arg(long, value_name = "TEXT")]
    prompt: Option<String>,
    /// So many tokens
    #[arg(long, value_name = "N", default_value_t = 200, requires = "prompt")]
    length: usize,
    /// Below 1 likely tokens get likelier; at 0 it is always the likeliest
    #[arg(
        long,
        value_name = "T",
        default_value_t = 1.0,
        value_parser = temperature,
        requires = "prompt",
        allow_negative_numbers = true
    )]
    temperature: f64,
    /// Of so many of the likeliest tokens alone [default: of all]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..), requires = "prompt")]
    top_k: Option<u32>,
    /// The same seed continues in the same way
    #[arg(long, value_name = "N", default_value_t = 0, requires = "prompt")]
    seed: u64,
}

fn temperature(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|found: &f64| found.is_finite() && *found >= 0.0);
    found.ok_or_else(|| "expected a number from 0 on".to_owned())
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
    let checkpoint = found.checkpoint;
    let source = checkpoint.source()?;
    let inputs = if source.level.is_some() { "a text is" } else { "images are" };
    for key in without_effect(&config) {
        Notices::default().warning(format!("`{key}` has no effect: {inputs} read as in training"));
    }
    if arguments.run.is_none() {
        let step = checkpoint.progress().step;
        Notices::default()
            .note(format!("the model is that of `{}`, step {step}", checkpoint.path().display()));
    }
    // What a model can be asked about follows from what it was trained on.
    match (&arguments.text.prompt, &source) {
        (Some(prompt), SourceRecord { level: Some(_), .. }) => {
            text::run(arguments, prompt, registry, config, &checkpoint, &source)
        }
        (None, SourceRecord { images: Some(_), .. }) => {
            images::run(arguments, registry, config, &checkpoint, &source)
        }
        _ => Err(CliError::NothingToAsk { input: source.spec.input, has_texts: source.level.is_some() }),
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
            return Ok((config, CliError::of_run(self.checkpoint_of(&run))?));
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
