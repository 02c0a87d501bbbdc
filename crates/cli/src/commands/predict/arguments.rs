use std::path::{Path, PathBuf};

use clap::Args;
use oomph_config::Config;
use oomph_data::SourceRecord;
use oomph_runs::state::{Checkpoint, CheckpointStore, FoundCheckpoint, Which};

use crate::{
    configuration::{ConfigArguments, DeviceArguments},
    error::CliError,
};

#[derive(Args, Debug)]
#[command(after_help = "\
The checkpoint contains the image size, channels, normalisation and class names, or the vocabulary
of a language model. The training data is not needed.

Examples:
  oomph predict photo.jpg                        with the newest checkpoint of runs/resnet
  oomph predict --run runs/photos --checkpoint best holiday/ --top 3
  oomph predict --run runs/photos --json holiday/ > predictions.jsonl
  oomph predict --run runs/lstm-lm --prompt \"ROMEO:\" --length 500 --temperature 0.8")]
pub(crate) struct PredictArguments {
    /// JPEG or PNG files, or folders to search for them
    #[arg(value_name = "FILE|FOLDER", required_unless_present = "prompt", conflicts_with = "prompt")]
    pub(super) inputs: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) text: TextArguments,
    /// The run directory [default: the config's]
    #[arg(long, value_name = "DIR")]
    pub(super) run: Option<PathBuf>,
    /// The checkpoint of the run: `latest`, `best`, or the number of a step
    #[arg(long, value_name = "WHICH", default_value = "latest", value_parser = which)]
    pub(super) checkpoint: Which,
    /// Number of classes shown per image, the most likely first
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) top: u32,
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten)]
    device: DeviceArguments,
    /// Print JSON lines, one per file
    #[arg(long)]
    pub(crate) json: bool,
}

/// The settings of text generation.
#[derive(Args, Debug)]
pub(super) struct TextArguments {
    /// A text for a language model to continue
    #[arg(long, value_name = "TEXT")]
    pub(super) prompt: Option<String>,
    /// Number of generated tokens
    #[arg(long, value_name = "N", default_value_t = 200, requires = "prompt")]
    pub(super) length: usize,
    /// Sampling temperature: below 1 favours likely tokens, 0 always takes the most likely one
    #[arg(
        long,
        value_name = "T",
        default_value_t = 1.0,
        value_parser = temperature,
        requires = "prompt",
        allow_negative_numbers = true
    )]
    pub(super) temperature: f64,
    /// Sample from the K most likely tokens only [default: from all]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..), requires = "prompt")]
    pub(super) top_k: Option<u32>,
    /// Random seed; the same seed generates the same text
    #[arg(long, value_name = "N", default_value_t = 0, requires = "prompt")]
    pub(super) seed: u64,
}

/// A trained model with its configuration and the record of its training data.
pub(super) struct TrainedModel {
    pub(super) config: Config,
    pub(super) checkpoint: Checkpoint,
    pub(super) source: SourceRecord,
}

impl TrainedModel {
    /// The error for inputs that the model cannot take.
    pub(super) fn unsupported_input(&self) -> CliError {
        let SourceRecord { spec, level, .. } = &self.source;
        CliError::UnsupportedInput { input: spec.input.clone(), takes_text: level.is_some() }
    }
}

fn temperature(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|found: &f64| found.is_finite() && *found >= 0.0);
    found.ok_or_else(|| "expected a number of at least 0".to_owned())
}

fn which(text: &str) -> Result<Which, String> {
    match text {
        "latest" => Ok(Which::Latest),
        "best" => Ok(Which::Best),
        step => step.parse().map(Which::Step).map_err(|_| "expected `latest`, `best` or a step".to_owned()),
    }
}

impl PredictArguments {
    /// The configuration and the checkpoint.
    pub(super) fn find(&self) -> Result<(Config, FoundCheckpoint), CliError> {
        let find = |run: &Path| match self.checkpoint {
            // Accepts the directory of a checkpoint too, as other commands do.
            Which::Latest => Checkpoint::find(run),
            which => CheckpointStore::at(run.join(CheckpointStore::DIRECTORY)).get(which),
        };
        self.config.load_with_checkpoint(self.run.as_deref(), &self.device.flags(), find)
    }
}
