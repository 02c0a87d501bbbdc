//! The hidden command that trains a trial for `oomph tune`, its parent.

use std::{
    io::{self, BufRead, Read},
    path::Path,
    thread,
    time::{Duration, Instant},
};

use oomph_config::{Config, ConfigFile, Sources};
use oomph_runs::{RunDirectory, state::Checkpoint};
use oomph_trainer::{Registry, Resume, Stop, StopReason, TrainOptions, open, steps_per_epoch, train};
use oomph_tuner::Request;

use crate::{
    error::CliError,
    exit::Exit,
    output,
    progress::{Progress, Style},
    signals,
};

/// How long a run that another process holds is waited for: the process of a worker that was killed saves before it ends.
const PATIENCE: Duration = Duration::from_secs(120);

/// Reads the parent's request from stdin, trains, and prints the events.
pub(crate) fn run(registry: &Registry) -> Result<Exit, CliError> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map_err(CliError::Request)?;
    let request: Request = serde_json::from_str(&line).map_err(|error| CliError::Request(error.into()))?;
    let stop = Stop::new();
    end_with_parent(&stop)?;
    signals::listen(&stop, None)?;
    let file = ConfigFile::from_text(request.name, request.config);
    let session = open(Config::load(&Sources::new(file))?, registry)?;
    let run = session.config.run.directory.as_deref();
    run.into_iter().for_each(|run| wait_for(run, &stop));
    let resume = if run.is_some_and(RunDirectory::is_run) { Resume::Latest } else { Resume::No };
    run.into_iter().try_for_each(tell_measured)?;
    let pause_at = request.pause_at.map(|length| length.steps(steps_per_epoch(&session)));
    let options = TrainOptions { resume, pause_at, ..TrainOptions::default() };
    let mut progress = Progress::new(Style::Json, &stop);
    let trained = train(&session, &options, &mut progress, &stop);
    progress.finish().map_err(CliError::EventsUnread)?;
    Ok(trained?.ended.into())
}

/// Waits while another process holds a run.
fn wait_for(run: &Path, stop: &Stop) {
    let begun = Instant::now();
    while RunDirectory::is_held(run) && stop.reason().is_none() && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(50));
    }
}

/// Tells what earlier processes of the trial measured: one that was killed may have told it to nobody.
fn tell_measured(run: &Path) -> Result<(), CliError> {
    // Without a checkpoint the training begins again, and measures everything again. It reports a damaged one.
    let Ok(found) = Checkpoint::find(run) else { return Ok(()) };
    let mut printed = Ok(());
    RunDirectory::measured(run, found.checkpoint.progress().step, |event| {
        if printed.is_ok() {
            printed = output::print_json(&event);
        }
    })?;
    printed
}

/// Saves and ends once stdin closes, which the parent keeps open.
fn end_with_parent(stop: &Stop) -> Result<(), CliError> {
    let stop = stop.clone();
    let watch = move || {
        let mut rest = [0; 64];
        while let Ok(1..) = io::stdin().lock().read(&mut rest) {}
        stop.request(StopReason::Terminate);
    };
    let spawned = thread::Builder::new().name("oomph-parent".into()).spawn(watch);
    spawned.map(drop).map_err(CliError::Request)
}
