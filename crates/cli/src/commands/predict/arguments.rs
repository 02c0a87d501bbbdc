use std::{ffi::OsStr, path::PathBuf};

use clap::Args;
use oomph_arguments::{ConfigArguments, DeviceArguments, count};
use oomph_config::Config;
use oomph_data::SourceRecord;
use oomph_runs::state::{Checkpoint, FoundCheckpoint, Which};

use crate::error::CliError;

#[derive(Args, Debug)]
#[command(after_help = "\
The checkpoint contains the image size, channels, normalisation and class names, or the vocabulary
of a language model. The training data is not needed.

Examples:
  oomph predict photo.jpg   with the newest checkpoint of runs/resnet
  oomph predict runs/photos/best holiday/ --top 3
  oomph predict runs/photos --json holiday/ > predictions.jsonl
  oomph predict runs/lstm-lm --prompt \"ROMEO:\" --length 500 --temperature 0.8")]
pub(crate) struct PredictArguments {
    /// First the run or checkpoint of the model, as runs/photos, runs/photos/best or runs/photos/400 (a
    /// step), or a config, for its newest run [default: the newest run of resnet.toml, or of --config].
    /// Then JPEG, PNG or WebP files, or folders to search for them
    #[arg(value_name = "RUN|FILE|FOLDER")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) text: TextArguments,
    /// The run directory
    #[arg(long, value_name = "RUN", hide = true)]
    run: Option<PathBuf>,
    /// The checkpoint of the run: `latest`, `best`, or the number of a step
    #[arg(long, value_name = "WHICH", requires = "run", hide = true)]
    checkpoint: Option<Which>,
    /// Number of classes shown per image, the most likely first. Labels are all shown, with ✓ from 50 % on
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = count(1..))]
    pub(super) top: u32,
    /// Use the weights of the last step, where the training kept an average of the weights (`train.ema`, `train.swa`)
    #[arg(long)]
    pub(super) raw: bool,
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
    /// Number of generated tokens; a text whose document ends before has fewer
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
    #[arg(long, value_name = "K", value_parser = count(1..), requires = "prompt")]
    pub(super) top_k: Option<u32>,
    /// Sample from the most likely tokens whose probabilities add up to P [default: from all]
    #[arg(long, value_name = "P", value_parser = share, requires = "prompt", allow_negative_numbers = true)]
    pub(super) top_p: Option<f64>,
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
        let source = &self.source;
        CliError::UnsupportedInput { input: source.spec.input.clone(), takes_text: source.is_text() }
    }
}

fn share(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|found: &f64| *found > 0.0 && *found <= 1.0);
    found.ok_or_else(|| "expected a number greater than 0 and at most 1".to_owned())
}

fn temperature(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|found: &f64| found.is_finite() && *found >= 0.0);
    found.ok_or_else(|| "expected a number of at least 0".to_owned())
}

impl PredictArguments {
    /// The run, the checkpoint or the config that is named, if one is.
    pub(super) fn model(&self) -> Result<Option<PathBuf>, CliError> {
        let named = match (&self.run, self.checkpoint) {
            (Some(run), Some(which)) => Some(run.join(which.to_string())),
            (Some(run), None) => Some(run.clone()),
            (None, _) => self.split()?.0.cloned(),
        };
        Ok(named)
    }

    /// The images and folders.
    pub(super) fn inputs(&self) -> Result<&[PathBuf], CliError> {
        Ok(self.split()?.1)
    }

    /// The model and the inputs among the positional arguments.
    fn split(&self) -> Result<(Option<&PathBuf>, &[PathBuf]), CliError> {
        let Some((first, rest)) = self.paths.split_first().filter(|_| self.run.is_none()) else {
            return Ok((None, &self.paths));
        };
        let is_config = |path: &PathBuf| !path.is_dir() && self.config.is_named_by(path);
        let is_model = |path: &PathBuf| Checkpoint::is_named(path) || is_config(path);
        if let Some(path) = rest.iter().find(|path| is_model(path)) {
            return Err(CliError::ModelBehind { path: path.clone() });
        }
        // A run that is not there, before images or a text: another model must not answer. Digits behind a dot are a version.
        let is_digits = |ending: &OsStr| ending.as_encoded_bytes().iter().all(u8::is_ascii_digit);
        let is_before = !rest.is_empty() || self.text.prompt.is_some();
        let is_missing = || is_before && !first.exists() && first.extension().is_none_or(is_digits);
        Ok(if is_model(first) || is_missing() { (Some(first), rest) } else { (None, &self.paths) })
    }

    /// The configuration and the checkpoint.
    pub(super) fn find(&self) -> Result<(Config, FoundCheckpoint), CliError> {
        Ok(self.config.load_with_checkpoint(self.model()?.as_deref(), &self.device.flags())?)
    }
}
