use std::path::{Path, PathBuf};

use clap::Args;
use oomph_config::Config;
use oomph_core::Bytes;
use oomph_trainer::{
    Evaluation, Registry, RunDirectory, Session, Stop, evaluate_checkpoint,
    state::{Checkpoint, Found, StateError},
};
use serde::Serialize;

use crate::{
    configuration::{ConfigArguments, DeviceArguments},
    error::CliError,
    exit::Exit,
    numbers::{decimal, elapsed, grouped, measured, percent, rate},
    output,
    progress::{Progress, Style},
    table::pairs,
};

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  oomph evaluate                                 the newest checkpoint of runs/resnet
  oomph evaluate --checkpoint runs/resnet/checkpoints/best
  oomph evaluate --checkpoint runs/photos --set data.path=other-photos")]
pub(crate) struct EvaluateArguments {
    /// A checkpoint, or a run directory, whose newest one it is; its own config holds unless --config
    /// names another [default: the config's run directory]
    #[arg(long, value_name = "PATH")]
    checkpoint: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten)]
    device: DeviceArguments,
    /// No progress on standard error
    #[arg(long, conflicts_with = "json")]
    pub(crate) quiet: bool,
    /// One JSON line on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &EvaluateArguments, registry: &Registry) -> Result<Exit, CliError> {
    let stop = Stop::new();
    let mut progress = Progress::new(Style::choose(arguments.json, arguments.quiet), &stop);
    let (config, found) = arguments.find()?;
    for warning in found.warnings() {
        progress.warn(warning);
    }
    let session = Session::open(config, registry)?;
    // Its config is called as that of every run.
    let run = found.checkpoint.run_directory();
    let name = run.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let report = output::report_directory(&name.unwrap_or_else(|| session.config.name().to_owned()));
    let evaluation = evaluate_checkpoint(&session, &found.checkpoint, Some(report), &mut progress, &stop)?;
    // Nothing asks it to stop, so it comes to its end.
    let evaluation = evaluation.ok_or(CliError::Interrupted)?;
    for error in &evaluation.skipped {
        progress.warn(error.to_string());
    }
    progress.finish()?;
    let evaluated = Evaluated::new(&evaluation, &found.checkpoint);
    if arguments.json {
        output::print_json(&evaluated)?
    } else {
        output::print(&evaluated.report())?
    }
    Ok(Exit::Success)
}

impl EvaluateArguments {
    fn find(&self) -> Result<(Config, Found), CliError> {
        let flags = self.device.flags();
        if let Some(path) = &self.checkpoint {
            let found = Checkpoint::find(path)?;
            return Ok((self.config.load_for(&found.checkpoint, &flags)?, found));
        }
        let config = self.config.load(&flags)?;
        let run = config.run.directory.clone().unwrap_or_else(|| RunDirectory::last(config.name()));
        match Checkpoint::find(&run) {
            Err(StateError::NotACheckpoint { path: run }) => Err(CliError::NothingTrained { run }),
            found => Ok((config, found?)),
        }
    }
}

/// What `--json` says.
#[derive(Serialize)]
#[serde(tag = "event", rename = "done")]
struct Evaluated<'a> {
    step: usize,
    eval_loss: f64,
    eval_accuracy: Option<f64>,
    samples: usize,
    /// Samples that were unreadable.
    skipped: usize,
    samples_per_second: f64,
    eval_seconds: f64,
    peak_in_use_bytes: Bytes,
    checkpoint: &'a Path,
}

impl<'a> Evaluated<'a> {
    fn new(evaluation: &Evaluation, checkpoint: &'a Checkpoint) -> Self {
        let seconds = evaluation.seconds;
        let samples_per_second = if seconds > 0.0 { evaluation.samples as f64 / seconds } else { 0.0 };
        Self {
            step: checkpoint.progress().step,
            eval_loss: evaluation.loss,
            eval_accuracy: evaluation.accuracy,
            samples: evaluation.samples,
            skipped: evaluation.skipped.len(),
            samples_per_second,
            eval_seconds: seconds,
            peak_in_use_bytes: oomph_memory::read().peak_in_use_bytes,
            checkpoint: checkpoint.path(),
        }
    }

    fn report(&self) -> String {
        let skipped = (self.skipped > 0).then(|| format!("{}, unreadable", grouped(self.skipped)));
        pairs([
            ("checkpoint", Some(self.checkpoint.display().to_string())),
            ("step", Some(grouped(self.step))),
            ("eval loss", Some(decimal(self.eval_loss))),
            ("eval accuracy", self.eval_accuracy.map(percent)),
            ("samples", Some(grouped(self.samples))),
            ("left out", skipped),
            ("speed", Some(format!("{} samples/s", rate(self.samples_per_second)))),
            ("peak in use", Some(measured(self.peak_in_use_bytes))),
            ("time", Some(elapsed(self.eval_seconds))),
        ])
    }
}
