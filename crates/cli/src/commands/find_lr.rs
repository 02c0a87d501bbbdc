//! `oomph find-lr`: a learning-rate range test.

use std::path::{Path, PathBuf};

use clap::Args;
use oomph_arguments::{DeviceArguments, Flag, NamedConfigArguments, StrategyArguments, count};
use oomph_runs::{Event, Observer, Tick};
use oomph_terminal::{found_rate::FoundRate, lr_chart::lr_chart};
use oomph_trainer::{Registry, Stop, StopReason, TrainError, TrainOptions, lr_range::LrRange, open, train};

use crate::{
    error::CliError,
    exit::Exit,
    output::{self, OverwriteArguments},
    progress::{Progress, Style},
    signals,
};

#[derive(Args, Debug)]
#[command(after_help = "\
The test trains the model for some steps, and multiplies the learning rate by a constant factor at
each. Nothing of the training stays. At the suggested rate, half of the fall of the loss is done;
for a one-cycle schedule it is the highest rate.

Examples:
  oomph find-lr
  oomph find-lr lstm --svg lr.svg
  oomph find-lr resnet-folder --set data.path=photos --to 1 --steps 200")]
pub(crate) struct FindLrArguments {
    #[command(flatten)]
    config: NamedConfigArguments,
    #[command(flatten)]
    device: DeviceArguments,
    #[command(flatten)]
    strategy: StrategyArguments,
    /// The learning rate of the first step
    #[arg(long, value_name = "LR", default_value_t = 1e-6, value_parser = rate)]
    from: f64,
    /// The learning rate of the last step
    #[arg(long, value_name = "LR", default_value_t = 10.0, value_parser = rate)]
    to: f64,
    /// Optimizer steps, fewer if the loss diverges
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = count(10..=100_000))]
    steps: u32,
    /// Write the curve as a picture to FILE
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    overwrite: OverwriteArguments,
    /// Show no progress
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    let found = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    found.ok_or_else(|| "expected a number greater than 0".to_owned())
}

pub(crate) fn run(arguments: &FindLrArguments, registry: &Registry) -> Result<Exit, CliError> {
    arguments.overwrite.check(&arguments.svg)?;
    if arguments.from >= arguments.to {
        return Err(CliError::NoRange { from: arguments.from, to: arguments.to });
    }
    // It is removed with all in it. What cannot be removed stays in the folder of temporary files.
    let folder =
        tempfile::tempdir().map_err(|source| CliError::File { path: std::env::temp_dir(), source })?;
    let session = open(arguments.load(&folder.path().join("run"))?, registry)?;
    let stop = Stop::new();
    let mut watched =
        Watched { range: LrRange::new(stop.clone()), progress: Progress::new(arguments.style(), &stop) };
    let by_signal = Stop::new();
    signals::listen(&by_signal, None)?;
    watched.range.follow(by_signal.clone());
    let trained = train(&session, &TrainOptions::default(), &mut watched, &stop);
    let Watched { range, progress } = watched;
    progress.finish().map_err(CliError::EventsUnread)?;
    match trained {
        // The rate was too large: the end of the test.
        Err(TrainError::NonFiniteLoss { .. } | TrainError::NonFiniteState { .. }) => {}
        trained => drop(trained?),
    }
    match by_signal.reason() {
        Some(StopReason::Interrupt) => return Ok(Exit::Interrupted),
        Some(StopReason::Terminate) => return Ok(Exit::Terminated),
        None => {}
    }
    let [devices, limit] = arguments.device.flags();
    let flags = [devices, limit, arguments.strategy.flag()];
    let train = arguments.config.named().after("oomph train", &flags);
    let found = FoundRate::new(&range, arguments.steps as usize, arguments.svg.as_deref(), train);
    if let Some(path) = &arguments.svg {
        let chart = lr_chart(range.points(), range.suggested());
        output::write_file(path, arguments.overwrite.existing(), |out| out.write_all(chart.as_bytes()))?;
    }
    output::show(arguments.json, &found, || found.report())
}

impl FindLrArguments {
    /// Bars on a terminal. The lines of a training would be of one that stays.
    fn style(&self) -> Style {
        match Style::choose(false, self.quiet || self.json) {
            Style::Bars => Style::Bars,
            _ => Style::Quiet,
        }
    }

    /// The configuration with the schedule of the test. Nothing is evaluated, and nothing stays.
    fn load(&self, folder: &Path) -> Result<oomph_config::Config, CliError> {
        let [devices, limit] = self.device.flags();
        let [from, to, steps] = [self.from.to_string(), self.to.to_string(), self.steps.to_string()];
        let folder = folder.to_string_lossy();
        // The name that messages show.
        let of_test = |key, value| Flag { name: "find-lr", key, value: Some(value) };
        let flags = [
            devices,
            self.strategy.flag(),
            limit,
            of_test("optimizer.lr", &from),
            of_test("schedule.name", "exponential"),
            of_test("schedule.final_lr", &to),
            of_test("schedule.warmup_steps", "0"),
            of_test("train.steps", &steps),
            of_test("train.eval_every", "1000000000 steps"),
            of_test("run.log_every", "1"),
            of_test("run.save_every", "never"),
            of_test("run.tensorboard", "false"),
            of_test("run.mlflow", "false"),
            of_test("run.histograms", "never"),
            of_test("run.directory", &folder),
        ];
        Ok(self.config.named().load(&flags)?)
    }
}

/// Shows the progress of the training, and none of its words: they are about a training that stays.
struct Watched {
    range: LrRange,
    progress: Progress,
}

impl Observer for Watched {
    fn event(&mut self, event: &Event) {
        self.range.event(event);
        if matches!(event, Event::Started(_)) {
            self.progress.event(event);
        }
    }

    fn tick(&mut self, tick: Tick) {
        self.range.tick(tick);
        self.progress.tick(tick);
    }
}
