//! `oomph train --seeds`: one training for each seed, one after the other, each in a process of its own.

use std::{
    collections::HashSet,
    path::PathBuf,
    process::Command,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use oomph_arguments::Seeds;
use oomph_config::{Change, Config};
use oomph_core::system::this_program;
use oomph_runs::{Adapted, Event, RunDirectory};
use oomph_terminal::seeds::{SeedResult, SeedResults};
use oomph_trainer::{Registry, open};
use oomph_tuner::{
    Request,
    child::{Child, ChildExit, Stopper},
};
use serde_json::Value;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    low_level,
};

use super::arguments::TrainArguments;
use crate::{
    commands::tune,
    echo,
    error::CliError,
    exit::Exit,
    notices::Notices,
    numbers::{decimal, grouped, percent},
    output, signals,
};

/// Trains all seeds. A seed that fails is reported, and the others train all the same.
pub(super) fn run(arguments: &TrainArguments, seeds: &Seeds, registry: &Registry) -> Result<Exit, CliError> {
    if let Some(Some(path)) = &arguments.resume {
        return Err(CliError::SeedsOfOneRun { run: path.clone() });
    }
    // What all seeds would be refused for is refused here, once. The session is dropped before the first seed trains.
    let (session, adapted) = arguments.adapted(open(arguments.load()?, registry)?)?;
    let config = session.config.clone();
    drop(session);
    let runs: Vec<_> = seeds.0.iter().map(|seed| SeedResult::new(*seed, directory(&config, *seed))).collect();
    if arguments.resume.is_none()
        && let Some(run) = runs.iter().find(|run| RunDirectory::is_run(&run.run_dir))
    {
        return Err(CliError::SeedExists { run: run.run_dir.clone() });
    }
    let mut trainer = SeedTrainer {
        config,
        stop: SeedStop::start()?,
        json: arguments.json,
        is_quiet: arguments.quiet || arguments.json,
        warned: HashSet::new(),
    };
    if let Some(adapted) = adapted {
        trainer.adapted(adapted)?;
    }
    let count = runs.len();
    let mut trained = Vec::new();
    for (index, run) in runs.into_iter().enumerate() {
        trainer.line(|| format!("seed {} ({} of {count}): {}", run.seed, index + 1, run.run_dir.display()));
        match trainer.train(run)? {
            Some(result) => trained.push(result),
            None => break,
        }
        if trainer.stop.exit().is_some() {
            break;
        }
    }
    trainer.line(String::new);
    let results = SeedResults::new(trained);
    if arguments.json {
        output::print_json(&results)?;
    } else if !arguments.quiet {
        output::print(&results.report())?;
    }
    match (trainer.stop.exit(), results.failed()) {
        (Some(exit), _) => Ok(exit),
        (None, 0) => Ok(Exit::Success),
        (None, failed) => Err(CliError::SeedsFailed { failed, count }),
    }
}

/// The run directory of a seed: that of the configuration, or `runs/` and its name, with the seed.
fn directory(config: &Config, seed: u64) -> PathBuf {
    let configured = config.run.directory.clone();
    let mut name = configured.unwrap_or_else(|| RunDirectory::first(config.name())).into_os_string();
    name.push(format!("-seed{seed}"));
    name.into()
}

/// Trains one seed after the other.
struct SeedTrainer {
    config: Config,
    stop: SeedStop,
    json: bool,
    is_quiet: bool,
    /// The warnings that were shown. Most seeds have the same.
    warned: HashSet<String>,
}

impl SeedTrainer {
    /// Trains a seed to its end; `None` if a signal came before it began.
    fn train(&mut self, mut result: SeedResult) -> Result<Option<SeedResult>, CliError> {
        let changes = [Change::Seed(result.seed), Change::RunDirectory(result.run_dir.clone())];
        let config = self.config.changed(&changes)?;
        let name = config.name().to_owned();
        let request = Request { name, config: config.to_toml(), pause_at: None };
        let mut command = Command::new(this_program());
        command.arg(tune::COMMAND);
        let mut child = match self.stop.spawn(|| Child::start(command, &request)) {
            None => return Ok(None),
            Some(Ok(child)) => child,
            Some(Err(error)) => {
                result.error = Some(format!("cannot start a process: {error}"));
                self.failed(&result);
                return Ok(Some(result));
            }
        };
        while let Some(line) = child.line() {
            // A user's model may print too.
            let Ok(event) = serde_json::from_str::<Value>(&line) else { continue };
            result.hear(&event);
            self.show(result.seed, event)?;
        }
        let ended = child.wait();
        self.stop.ended();
        // A training that was stopped exits with a code of its own, after its last event.
        if result.ended.is_none() && result.error.is_none() {
            result.error = Some(match ended {
                ChildExit::Failed(words) => words,
                ChildExit::Success | ChildExit::OutOfMemory => "its process told no result".to_owned(),
            });
        }
        self.failed(&result);
        Ok(Some(result))
    }

    /// Shows that settings were changed for all seeds, to fit.
    fn adapted(&mut self, adapted: Adapted) -> Result<(), CliError> {
        if self.json {
            return output::print_json(&Event::Adapted(adapted));
        }
        self.warn(Some(adapted.to_string()));
        Ok(())
    }

    /// Shows an event of a seed.
    fn show(&mut self, seed: u64, mut event: Value) -> Result<(), CliError> {
        if self.json {
            if let Some(event) = event.as_object_mut() {
                event.insert("seed".to_owned(), seed.into());
            }
            return output::print_json(&event);
        }
        match event["event"].as_str() {
            Some("warning") => {
                self.warn(event["message"].as_str().map(str::to_owned));
            }
            Some("eval") => self.line(|| evaluated(seed, &event)),
            _ => {}
        }
        Ok(())
    }

    fn failed(&self, result: &SeedResult) {
        if let Some(error) = result.error.as_ref().filter(|_| !self.json) {
            Notices::default().warning(format!("seed {} failed: {error}", result.seed));
        }
    }

    /// Warns once of each message.
    fn warn(&mut self, message: Option<String>) {
        if let Some(message) = message.filter(|_| !self.json)
            && self.warned.insert(message.clone())
        {
            Notices::default().warning(message);
        }
    }

    fn line(&self, text: impl FnOnce() -> String) {
        if !self.is_quiet {
            Notices::default().line(text());
        }
    }
}

/// An evaluation in one line.
fn evaluated(seed: u64, event: &Value) -> String {
    let number = |key: &str| event[key].as_u64().map(|it| grouped(it as usize)).unwrap_or_default();
    let shown = |name: &str, key: &str, shown: fn(f64) -> String| {
        event[key].as_f64().map(|value| format!("  {name} {}", shown(value))).unwrap_or_default()
    };
    format!(
        "seed {seed}  epoch {}  step {}{}{}{}",
        number("epoch"),
        number("step"),
        shown("eval loss", "eval_loss", decimal),
        shown("eval perplexity", "eval_perplexity", decimal),
        shown("eval accuracy", "eval_accuracy", percent),
    )
}

/// Ends the seeds when a signal arrives. The running one finishes its step and saves; a second signal exits at once.
struct SeedStop {
    state: Arc<Mutex<StopState>>,
}

#[derive(Default)]
struct StopState {
    running: Option<Stopper>,
    /// The exit code of the program, once a signal arrived.
    exit: Option<Exit>,
}

impl SeedStop {
    /// Installs the signal handlers.
    fn start() -> Result<Self, CliError> {
        let state = Arc::<Mutex<StopState>>::default();
        let shared = state.clone();
        signals::handle(&[SIGINT, SIGTERM], move |signal| {
            let exit = if signal == SIGINT { Exit::Interrupted } else { Exit::Terminated };
            let mut state = lock(&shared);
            if state.exit.is_some() {
                echo::restore();
                low_level::exit(exit as i32);
            }
            state.exit = Some(exit);
            state.running.iter().for_each(Stopper::stop);
        })?;
        Ok(Self { state })
    }

    /// Starts a training that a signal ends; `None` after a signal. The lock is held meanwhile, so that the signal thread
    /// finds the training.
    fn spawn(&self, start: impl FnOnce() -> std::io::Result<Child>) -> Option<std::io::Result<Child>> {
        let mut state = lock(&self.state);
        if state.exit.is_some() {
            return None;
        }
        let started = start();
        state.running = started.as_ref().ok().map(Child::stopper);
        Some(started)
    }

    /// No training runs any more.
    fn ended(&self) {
        lock(&self.state).running = None;
    }

    fn exit(&self) -> Option<Exit> {
        lock(&self.state).exit
    }
}

/// Ignores poisoning: every change is a single assignment, so a panic leaves no half-changed state.
fn lock(state: &Mutex<StopState>) -> MutexGuard<'_, StopState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
