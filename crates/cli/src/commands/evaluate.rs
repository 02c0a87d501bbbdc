//! `oomph evaluate`: loss and accuracy of a checkpoint or a weights file.

use std::path::{Path, PathBuf};

use clap::Args;
use oomph_arguments::{CheckpointArguments, ConfigArguments, DeviceArguments, WeightsArguments};
use oomph_config::Config;
use oomph_core::Bytes;
use oomph_runs::state::{Checkpoint, FoundCheckpoint};
use oomph_terminal::scores::NamedScores;
use oomph_trainer::{Evaluation, Registry, Stop, evaluate_checkpoint, evaluate_weights, open_to_evaluate};
use serde::Serialize;

use crate::{
    error::CliError,
    exit::Exit,
    numbers::{decimal, elapsed, grouped, measured, percent, plural, rate},
    output::{self, AVERAGED, OverwriteArguments},
    progress::{Progress, Style},
    table::pairs,
};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  oomph evaluate                    the newest checkpoint of runs/resnet
  oomph evaluate runs/resnet/best   the checkpoint with the best evaluation
  oomph evaluate runs/photos --set data.path=other-photos
  oomph evaluate --config resnet50-imagenet --weights resnet50.pth")]
pub(crate) struct EvaluateArguments {
    #[command(flatten)]
    checkpoint: CheckpointArguments,
    /// Use the weights of the last step, where the training kept an average of the weights (`train.ema`, `train.swa`)
    #[arg(long, conflicts_with = "weights")]
    raw: bool,
    #[command(flatten)]
    weights: WeightsArguments,
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten)]
    device: DeviceArguments,
    /// Write the confusion matrix of a classifier as an SVG picture to FILE
    #[arg(long, value_name = "FILE")]
    confusion: Option<PathBuf>,
    #[command(flatten)]
    overwrite: OverwriteArguments,
    /// Show no progress
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Print one JSON line
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &EvaluateArguments, registry: &Registry) -> Result<Exit, CliError> {
    arguments.overwrite.check(&arguments.confusion)?;
    let stop = Stop::new();
    let mut progress = Progress::new(Style::choose(arguments.json, arguments.quiet), &stop);
    let (config, found) = arguments.find()?;
    for warning in found.iter().flat_map(FoundCheckpoint::warnings) {
        progress.warn(warning);
    }
    let checkpoint = found.map(|found| found.checkpoint.raw(arguments.raw));
    let session = open_to_evaluate(checkpoint.as_ref(), config, registry)?;
    // The config of every run has the same file name, so the run directory names the report.
    let run = checkpoint.as_ref().and_then(Checkpoint::run_directory);
    let name = run.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let report = Some(output::report_directory(&name.unwrap_or_else(|| session.config.name().to_owned())));
    let evaluation = match &checkpoint {
        Some(checkpoint) => evaluate_checkpoint(&session, checkpoint, report, &mut progress, &stop)?,
        None => evaluate_weights(&session, report, &mut progress, &stop)?,
    };
    // Nothing requests a stop, so the evaluation finishes.
    let evaluation = evaluation.ok_or(CliError::Interrupted)?;
    for error in &evaluation.skipped {
        progress.warn(error.to_string());
    }
    progress.finish().map_err(CliError::EventsUnread)?;
    let weights = session.weights.as_deref().filter(|_| checkpoint.is_none());
    let names = session.source.class_names();
    let scores = evaluation.scores.as_ref().map(|scores| NamedScores { scores, names });
    let mut evaluated = Evaluated::new(&evaluation, checkpoint.as_ref(), weights);
    if let Some(path) = &arguments.confusion {
        let picture = scores.as_ref().and_then(NamedScores::picture).ok_or(CliError::NoConfusion)?;
        output::write_file(path, arguments.overwrite.existing(), |out| out.write_all(picture.as_bytes()))?;
        evaluated.picture = Some(path);
    }
    evaluated.scores = scores.as_ref();
    output::show(arguments.json, &evaluated, || evaluated.report())
}

impl EvaluateArguments {
    /// The configuration and the checkpoint; no checkpoint with `--weights`.
    fn find(&self) -> Result<(Config, Option<FoundCheckpoint>), CliError> {
        let [devices, limit] = self.device.flags();
        let flags = [devices, limit, self.weights.flag()];
        if let Some(weights) = &self.weights.weights {
            let config = self.checkpoint.config_beside("--weights", weights, &self.config)?;
            return Ok((config.load(&flags)?, None));
        }
        let (config, found) = self.checkpoint.load(&self.config, &flags)?;
        Ok((config, Some(found)))
    }
}

/// The evaluation as JSON.
#[derive(Serialize)]
#[serde(tag = "event", rename = "done")]
struct Evaluated<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<usize>,
    eval_loss: f64,
    eval_accuracy: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eval_perplexity: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eval_bits_per_byte: Option<f64>,
    samples: usize,
    /// Unreadable samples.
    skipped: usize,
    samples_per_second: f64,
    eval_seconds: f64,
    peak_in_use_bytes: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint: Option<&'a Path>,
    /// Whether the weights are averages over steps.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    averaged: bool,
    /// The weights file, without a checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    weights: Option<&'a Path>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scores: Option<&'a NamedScores<'a>>,
    /// The picture of the confusion matrix.
    #[serde(skip_serializing_if = "Option::is_none")]
    picture: Option<&'a Path>,
}

impl<'a> Evaluated<'a> {
    fn new(evaluation: &Evaluation, checkpoint: Option<&'a Checkpoint>, weights: Option<&'a Path>) -> Self {
        let seconds = evaluation.seconds;
        let samples_per_second = if seconds > 0.0 { evaluation.samples as f64 / seconds } else { 0.0 };
        Self {
            step: checkpoint.map(|checkpoint| checkpoint.progress().step),
            eval_loss: evaluation.loss,
            eval_accuracy: evaluation.accuracy,
            eval_perplexity: evaluation.perplexity,
            eval_bits_per_byte: evaluation.bits_per_byte,
            samples: evaluation.samples,
            skipped: evaluation.skipped.len(),
            samples_per_second,
            eval_seconds: seconds,
            peak_in_use_bytes: oomph_memory::read().peak_in_use_bytes,
            checkpoint: checkpoint.map(Checkpoint::path),
            averaged: checkpoint.is_some_and(Checkpoint::has_average),
            weights,
            scores: None,
            picture: None,
        }
    }

    fn report(&self) -> String {
        let skipped = (self.skipped > 0).then(|| plural(self.skipped, "sample"));
        let mut rows = vec![
            ("checkpoint", self.checkpoint.map(|path| path.display().to_string())),
            ("weights", self.weights.map(|path| path.display().to_string())),
            ("weights", self.averaged.then(|| AVERAGED.to_owned())),
            ("step", self.step.map(grouped)),
            ("eval loss", Some(decimal(self.eval_loss))),
            ("eval perplexity", self.eval_perplexity.map(decimal)),
            ("bits per byte", self.eval_bits_per_byte.map(decimal)),
            ("eval accuracy", self.eval_accuracy.map(percent)),
        ];
        rows.extend(self.scores.into_iter().flat_map(NamedScores::rows));
        rows.extend([
            ("samples", Some(grouped(self.samples))),
            ("unreadable", skipped),
            ("speed", Some(format!("{} samples/s", rate(self.samples_per_second)))),
            ("peak in use", Some(measured(self.peak_in_use_bytes))),
            ("time", Some(elapsed(self.eval_seconds))),
            ("picture", self.picture.map(|path| path.display().to_string())),
        ]);
        pairs(rows) + &self.scores.map(NamedScores::tables).unwrap_or_default()
    }
}
