//! `oomph tune`: hyperparameter search.

mod arguments;
pub(crate) mod trial;

use std::{path::Path, time::SystemTime};

use oomph_config::Config;
use oomph_runs::host_name;
use oomph_study::read;
use oomph_terminal::study::{Best, Status, best_config, replayed, surveyed};
use oomph_trainer::Registry;
use oomph_trials::{Program, places};
use oomph_tuner::{
    Folder, QuietTune, TuneEnded, TuneError, TuneStop, Tuner, TunerOptions, best, point_of, replay_study,
    survey,
};

pub(crate) use self::arguments::TuneArguments;
use crate::{
    error::CliError,
    exit::Exit,
    notices::Notices,
    numbers::date,
    output,
    progress::{Style, TuneProgress},
    signals::{self, SIGHUP, SIGINT, SIGTERM},
};

/// The hidden command of a trial.
pub(crate) const COMMAND: &str = "tune-trial";

pub(crate) fn run(arguments: &TuneArguments, registry: &Registry) -> Result<Exit, CliError> {
    let config = arguments.load()?;
    registry.read(&config)?;
    let program = Program { registry, command: COMMAND };
    arguments.overwrite.check(arguments.html.iter().chain(arguments.best.iter().flatten()))?;
    if let Some(points) = arguments.plan {
        return plan(arguments, &program, &config, points as usize);
    }
    if arguments.only_looks() {
        return look(arguments, &program, &config);
    }
    let folder = arguments.folder(&config);
    if arguments.html.is_some() && folder.join("study.log").is_file() {
        // A page of a study that exists: nothing is trained.
        write_page(arguments, &config, &Folder::open(&folder)?)?;
        if arguments.json {
            output::print_json(&serde_json::json!({ "written": arguments.html }))?;
        }
        return Ok(Exit::Success);
    }
    search(arguments, &program, &config)
}

/// Searches until the study is over, or a signal arrives.
fn search(arguments: &TuneArguments, program: &Program<'_>, config: &Config) -> Result<Exit, CliError> {
    // Trials are planned without the data, and trained with it: one error now instead of one a trial.
    program.registry.read(config)?.open_source(config)?;
    let stop = TuneStop::new();
    let mut progress = TuneProgress::new(Style::choose(arguments.json, arguments.quiet));
    let asked = listen(&stop, progress.notices())?;
    let folder = arguments.folder(config);
    let options = TunerOptions {
        folder: folder.clone(),
        name: arguments.study(config),
        places: places(config)?,
        worker: host_name(),
    };
    let ended = {
        let tuner = Tuner::open(program, config, options, &mut progress, stop)?;
        warn_of_idle(config, arguments);
        tuner.run()
    };
    progress.finish();
    let ended = ended?;
    let folder = Folder::open(&folder)?;
    let status = Status::of(&read(&folder.journal(), None)?, config.tune.as_ref(), &folder);
    if arguments.json {
        output::print_json(&status)?;
    } else if !arguments.quiet {
        output::print(&status.text())?;
    }
    if arguments.html.is_some() {
        write_page(arguments, config, &folder)?;
    }
    if ended == TuneEnded::Stopped && !arguments.quiet {
        Notices::default().line("the study is paused; the same command continues it");
    }
    Ok(match ended {
        TuneEnded::Complete => Exit::Success,
        TuneEnded::Stopped => asked.get().copied().unwrap_or(Exit::Interrupted),
    })
}

/// Writes the page that was asked for.
fn write_page(arguments: &TuneArguments, config: &Config, folder: &Folder) -> Result<(), CliError> {
    let Some(path) = &arguments.html else { return Ok(()) };
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs());
    let page = oomph_trials::page(config, folder, date(now))?;
    output::write_file(path, arguments.overwrite.existing(), |out| oomph_tune_page::write(&page, out))?;
    if !arguments.json && !arguments.quiet {
        Notices::default().line(format!("page: {}", oomph_core::printable(path.display())));
    }
    Ok(())
}

/// Says which keys of the configuration have no effect.
fn warn_of_idle(config: &Config, arguments: &TuneArguments) {
    let notices = Notices::default();
    for idle in config.idle().iter().filter(|idle| !arguments.json && idle.setting.key.starts_with("tune.")) {
        notices.warning(format!("`{}` has no effect: {}", idle.setting.key, idle.because));
    }
}

/// Signals ask the study to end: trials save and pause. A second one ends this process at once; its trials save all the same.
fn listen(stop: &TuneStop, notices: Notices) -> Result<std::sync::Arc<std::sync::OnceLock<Exit>>, CliError> {
    let (stop, asked) = (stop.clone(), std::sync::Arc::new(std::sync::OnceLock::new()));
    let exit = asked.clone();
    signals::handle(&[SIGINT, SIGTERM, SIGHUP], move |signal| {
        let code = if signal == SIGINT { Exit::Interrupted } else { Exit::Terminated };
        if stop.is_requested() && signal != SIGHUP {
            crate::echo::restore();
            signal_hook::low_level::exit(code as i32);
        }
        // The first signal decides.
        let _ = exit.set(code);
        notices.line("pausing the running trials; a second signal ends this process at once");
        stop.request();
    })?;
    Ok(asked)
}

/// `--plan`.
fn plan(
    arguments: &TuneArguments,
    program: &Program<'_>,
    config: &Config,
    points: usize,
) -> Result<Exit, CliError> {
    let places = places(config)?;
    let Some(place) =
        places.iter().max_by_key(|place| place.limit_bytes.map_or(u64::MAX, |bytes| bytes.get()))
    else {
        return Err(CliError::from(TuneError::NoTune { name: config.name().to_owned() }));
    };
    let mut progress = TuneProgress::new(Style::choose(arguments.json, arguments.quiet));
    let survey = survey(program, config, place, points, |done, of| {
        progress.planned(done, of);
        true
    });
    progress.finish();
    let survey = survey?;
    output::show(arguments.json, &survey, || surveyed(&survey))
}

/// `--status`, `--best`, `--enqueue`, `--replay`.
fn look(arguments: &TuneArguments, program: &Program<'_>, config: &Config) -> Result<Exit, CliError> {
    let path = arguments.folder(config);
    if !arguments.enqueue.is_empty() {
        return enqueue(arguments, program, config, &path);
    }
    let folder = Folder::open(&path)?;
    if arguments.replay {
        let report = replay_study(program, config, &folder)?;
        output::show(arguments.json, &replayed(&report), || replayed(&report).text())?;
        return Ok(if report.differences.is_empty() { Exit::Success } else { Exit::Failure });
    }
    let state = read(&folder.journal(), None)?;
    if let Some(file) = &arguments.best {
        let (trial, best) = best(program, config, &state)?;
        if let Some(file) = file {
            let text = best_config(&state, &trial, &best);
            output::write_file(file, arguments.overwrite.existing(), |out| out.write_all(text.as_bytes()))?;
        }
        let status = Best::of(&state, &trial, file.as_deref());
        return output::show(arguments.json, &status, || status.text());
    }
    if arguments.html.is_some() {
        write_page(arguments, config, &folder)?;
    }
    let status = Status::of(&state, config.tune.as_ref(), &folder);
    output::show(arguments.json, &status, || status.text())
}

/// `--enqueue`: the study is begun where there is none.
fn enqueue(
    arguments: &TuneArguments,
    program: &Program<'_>,
    config: &Config,
    folder: &Path,
) -> Result<Exit, CliError> {
    let entries = config.check_space(|point| program.registry.read(point).map(drop))?;
    let points: Result<Vec<_>, _> = arguments.enqueue.iter().map(|text| point_of(&entries, text)).collect();
    let points = points?;
    let options = TunerOptions {
        folder: folder.to_owned(),
        name: arguments.study(config),
        places: places(config)?,
        worker: host_name(),
    };
    let mut quiet = QuietTune;
    let numbers = Tuner::open(program, config, options, &mut quiet, TuneStop::new())?.enqueue(points)?;
    output::show(arguments.json, &serde_json::json!({ "enqueued": numbers }), || {
        let numbers: Vec<_> = numbers.iter().map(usize::to_string).collect();
        format!("enqueued trial {}\n", numbers.join(", "))
    })
}
