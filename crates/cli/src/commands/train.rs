mod again;
#[cfg(feature = "mpi")]
mod ranks;

use std::path::PathBuf;

use clap::Args;
use oomph_config::Config;
use oomph_trainer::{
    Adapted, Done, Ended, Registry, Resume, RunDirectory, Session, Stop, TrainOptions, adapt,
    state::{Checkpoint, StateError},
    train,
};

use crate::{
    configuration::{ConfigArguments, DeviceArguments, StrategyArguments},
    error::CliError,
    exit::Exit,
    numbers::{decimal, elapsed, grouped, measured, percent, plural, rate},
    output,
    progress::{Progress, Style},
    signals,
    table::{Align, Table, pairs},
};

#[derive(Args, Debug)]
#[command(after_help = "\
Ctrl-C finishes the step, saves and exits with 130 (SIGTERM: 143); a second one stops at once.
SIGUSR1 saves and goes on; SIGUSR2 writes what is in memory as a page of the run directory.
What cannot fit is refused before it begins; where memory runs out it exits with 75 and a report.

Examples:
  oomph train
  oomph train --config lstm --set optimizer.lr=0.002
  oomph train --config resnet-folder --set data.path=photos --devices cuda:0
  oomph train --resume runs/resnet
  oomph train --memory-limit 8GiB --set memory.on_oom=adapt")]
pub(crate) struct TrainArguments {
    #[command(flatten)]
    config: ConfigArguments,
    #[command(flatten)]
    device: DeviceArguments,
    #[command(flatten)]
    strategy: StrategyArguments,
    /// Go on from a checkpoint: of this run directory or checkpoint, with its config unless --config
    /// names another; without PATH the newest one of the config's run directory. From the start where
    /// nothing was saved yet
    #[arg(long, value_name = "PATH", num_args = 0..=1)]
    resume: Option<Option<PathBuf>>,
    /// Try it even where the plan says that it cannot fit
    #[arg(long)]
    no_plan_check: bool,
    /// Only warnings and errors, on standard error
    #[arg(long, conflicts_with = "json")]
    pub(crate) quiet: bool,
    /// What happens as JSON lines on standard output; the last one is `done` or `error`
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(arguments: &TrainArguments, registry: &Registry) -> Result<Exit, CliError> {
    #[cfg(feature = "mpi")]
    if let Some(world_size) = crate::ranks::several() {
        return ranks::run(arguments, registry, world_size);
    }
    let (session, adapted) = arguments.adapted(Session::open(arguments.load()?, registry)?)?;
    lead(arguments, &session, adapted)
}

/// Trains, and shows it.
fn lead(arguments: &TrainArguments, session: &Session, adapted: Option<Adapted>) -> Result<Exit, CliError> {
    let stop = Stop::new();
    let style = Style::choose(arguments.json, arguments.quiet);
    let mut progress = Progress::new(style, &stop);
    let talks = style.talks();
    signals::listen(&stop, talks.then(|| progress.notices()))?;
    let trained = train(session, &arguments.options(session, adapted), &mut progress, &stop);
    let notices = progress.finish()?;
    let done = match trained {
        Err(error) if stop.reason().is_none() => {
            return Err(again::go_on(arguments, &session.config, error));
        }
        trained => trained?,
    };
    if talks {
        notices.line("");
        output::print(&report(&done, session))?;
        if let Some(goes_on) = goes_on(&done) {
            notices.line(goes_on);
        }
    }
    Ok(done.ended.into())
}

impl TrainArguments {
    fn load(&self) -> Result<Config, CliError> {
        let [devices, limit] = self.device.flags();
        let flags = [devices, self.strategy.flag(), limit];
        match &self.resume {
            Some(Some(path)) if self.config.config.is_none() => match Checkpoint::find(path) {
                // Nothing was saved yet, so it starts fresh, as the run was configured.
                Err(StateError::NotACheckpoint { .. }) if RunDirectory::is_run(path) => {
                    self.config.load_for_run(path, &flags)
                }
                found => self.config.load_for(&found?.checkpoint, &flags),
            },
            _ => self.config.load(&flags),
        }
    }

    /// The session, changed where it does not fit and may be.
    fn adapted(&self, session: Session) -> Result<(Session, Option<Adapted>), CliError> {
        if self.no_plan_check {
            return Ok((session, None));
        }
        Ok(match adapt(&session)? {
            Some((session, adapted)) => (session, Some(adapted)),
            None => (session, None),
        })
    }

    fn options(&self, session: &Session, adapted: Option<Adapted>) -> TrainOptions {
        let resume = match &self.resume {
            None => Resume::No,
            Some(None) => Resume::Latest,
            Some(Some(path)) => Resume::From(path.clone()),
        };
        let report = Some(output::report_directory(session.config.name()));
        TrainOptions { resume, skip_plan_check: self.no_plan_check, adapted, report }
    }
}

/// The table at the end of a training.
fn report(done: &Done, session: &Session) -> String {
    let epochs = done.step as f64 / session.steps_per_epoch().max(1) as f64;
    let ended = match done.ended {
        Ended::Complete => None,
        Ended::EarlyStopping => Some("early, as evaluation stopped improving".into()),
        Ended::Interrupted => Some("interrupted (SIGINT)".into()),
        Ended::Terminated => Some("terminated (SIGTERM)".into()),
    };
    let best = done.best_eval_loss.zip(done.best_step);
    let best = best.map(|(loss, step)| format!("{} at step {}", decimal(loss), grouped(step)));
    let skipped = (done.skipped_samples > 0)
        .then(|| format!("{}, unreadable", plural(done.skipped_samples, "training sample")));
    let overflowed = done.skipped_steps.filter(|skipped| *skipped > 0);
    let overflowed =
        overflowed.map(|skipped| format!("{}, whose gradients overflowed", plural(skipped, "step")));
    let steps = format!("{} of {}", grouped(done.step), plural(session.steps(), "step"));
    let table = pairs([
        ("ended", ended),
        ("trained", Some(format!("{steps}, {}", in_epochs(epochs)))),
        ("train loss", done.loss.map(decimal)),
        ("eval loss", done.eval_loss.map(decimal)),
        ("eval perplexity", done.eval_perplexity.map(decimal)),
        ("eval accuracy", done.eval_accuracy.map(percent)),
        ("best eval loss", best),
        ("left out", skipped),
        ("skipped", overflowed),
        ("speed", Some(format!("{} samples/s", rate(done.samples_per_second)))),
        ("peak in use", Some(measured(done.peak_in_use_bytes))),
        ("time", Some(elapsed(done.seconds))),
        ("run directory", Some(done.run_dir.display().to_string())),
        ("checkpoint", Some(done.checkpoint.display().to_string())),
    ]);
    match devices(done) {
        Some(devices) => format!("{table}\n{devices}"),
        None => table,
    }
}

/// Each of several devices.
fn devices(done: &Done) -> Option<Table<5>> {
    let missing = || "–".to_owned();
    let mut table = Table::new([Align::Right, Align::Left, Align::Left, Align::Right, Align::Right]);
    table.heading(["", "device", "stages", "peak in use", "idle"]);
    for (index, device) in done.devices.iter().enumerate() {
        let stages = device.stages.as_ref().map(|[first, last]| match first == last {
            true => first.clone(),
            false => format!("{first} … {last}"),
        });
        table.row([
            index.to_string(),
            device.device.clone(),
            stages.unwrap_or_default(),
            device.peak_in_use_bytes.map_or_else(missing, |bytes| bytes.to_string()),
            device.idle_share.map(percent).unwrap_or_default(),
        ]);
    }
    (!done.devices.is_empty()).then(|| table.without_empty_columns())
}

/// `1 epoch`, `2.5 epochs`.
fn in_epochs(epochs: f64) -> String {
    let text = format!("{epochs:.1}");
    match text.strip_suffix(".0").unwrap_or(&text) {
        "1" => "1 epoch".into(),
        count => format!("{count} epochs"),
    }
}

/// How to go on with a training that was stopped.
fn goes_on(done: &Done) -> Option<String> {
    let stopped = matches!(done.ended, Ended::Interrupted | Ended::Terminated);
    stopped.then(|| format!("the state is saved; `oomph train --resume {}` goes on", done.run_dir.display()))
}
