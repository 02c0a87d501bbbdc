use std::path::{Path, PathBuf};

use oomph_config::{Difference, Origin, Recompute, ScheduleKind, sections::averaging::Averaging};
use oomph_core::{Split, TargetSpec, grouped, is_within};
use oomph_data::SourceRecord;

use oomph_engine::session::{Session, steps, steps_per_epoch};
use oomph_runs::{
    RunDirectory,
    state::{Checkpoint, FoundCheckpoint, StateError},
};

use crate::{TrainError, open::SessionError};

/// Where a training starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Resume {
    /// From new parameters, in a new run directory.
    #[default]
    No,
    /// From the newest checkpoint of the run directory; from new parameters where nothing was saved there.
    Latest,
    /// From the checkpoint at this path, or the newest of the run directory at this path.
    From(PathBuf),
}

/// The run directory and the checkpoint of a [`Resume`].
pub(crate) struct StartPoint {
    pub(crate) run: RunDirectory,
    pub(crate) checkpoint: Option<Checkpoint>,
    /// The record of the data, for checkpoints.
    pub(crate) source: SourceRecord,
    pub(crate) warnings: Vec<String>,
}

impl StartPoint {
    pub(crate) fn find(session: &Session, resume: &Resume) -> Result<Self, TrainError> {
        let config = &session.config;
        let configured = config.run.directory.as_deref();
        let (run, found) = match resume {
            Resume::No => match configured {
                Some(path) => (RunDirectory::create(path)?, None),
                None => (RunDirectory::next(config.name())?, None),
            },
            Resume::Latest => {
                let path = configured.map_or_else(|| RunDirectory::last(config.name()), Path::to_owned);
                let run = RunDirectory::resume(&path)?;
                let found = run.checkpoints().newest()?;
                (run, found)
            }
            Resume::From(path) => from_path(session, path)?,
        };
        let differences = match &found {
            Some(found) => config.differences(&found.checkpoint.config()?).map_err(SessionError::from)?,
            None => Vec::new(),
        };
        if *resume == Resume::Latest {
            refuse_other(session, run.path(), &differences)?;
        }
        let mut warnings = config.ignored();
        idle_alone(session);
        idle_average(session);
        let idle = config.idle().into_iter();
        warnings.extend(idle.map(|idle| format!("`{}` has no effect: {}", idle.setting.key, idle.because)));
        warnings.extend(frozen_in_vain(session));
        warnings.extend(suspicious_data(session));
        let source = SourceRecord::of(session.source.as_ref());
        match &found {
            Some(found) => {
                refuse_other_model(&found.checkpoint, &differences)?;
                refuse_beyond_end(session, &found.checkpoint)?;
                warnings.extend(found.warnings());
                warnings.extend(changes(session, &differences));
                warnings.extend(data_changes(session, &source, &found.checkpoint)?);
            }
            None if *resume == Resume::No => {}
            None => {
                let path = run.path().display();
                warnings.push(format!("nothing was saved in `{path}` yet: starting fresh"));
            }
        }
        Ok(Self { run, checkpoint: found.map(|found| found.checkpoint), source, warnings })
    }
}

/// Notes the settings of several devices or processes that one device has no use for.
fn idle_alone(session: &Session) {
    if session.world_size() > 1 || session.config.device.devices.len() > 1 {
        return;
    }
    session.config.has_no_effect("device.timeout", "one device waits for no other");
    for key in ["device.sync_batch_norm", "device.bucket", "device.check_every", "device.shard"] {
        session.config.has_no_effect(key, "there is one replica");
    }
}

/// Notes an average that no step of the training makes.
fn idle_average(session: &Session) {
    let Some(Averaging::Swa(swa)) = session.config.train.average else { return };
    let (steps, interval) = (steps(session), swa.interval_steps(steps_per_epoch(session)));
    let last_end = steps / interval * interval;
    if last_end <= swa.first_step(steps) {
        let because = format!("no interval of `{}` ends after its start", swa.every);
        session.config.has_no_effect("train.swa", &because);
    }
}

/// Warns of data that trains, and hardly as its owner means it.
fn suspicious_data(session: &Session) -> Vec<String> {
    let mut warnings = Vec::new();
    let (batch, samples) = (session.config.train.batch, session.source.len(Split::Train));
    if batch > samples {
        let [batch, samples] = [batch, samples].map(|count| grouped(count as u64));
        warnings.push(format!(
            "`train.batch` is {batch}, and there are {samples} samples to train on: each step takes all of them"
        ));
    }
    if matches!(session.source.spec().target, TargetSpec::Class { count: 1 }) {
        warnings.push("the data has a single class, so every prediction is right".to_owned());
    }
    warnings
}

/// Warns of frozen stages in `memory.recompute`: they keep no activations.
fn frozen_in_vain(session: &Session) -> Option<String> {
    let Recompute::Named(named) = &session.config.memory.recompute else { return None };
    let leading = &session.stages[..session.leading_frozen];
    let idle = |name: &&String| {
        let all = session.stages.iter().filter(|stage| is_within(stage, name));
        all.clone().count() > 0 && all.into_iter().all(|stage| leading.contains(stage))
    };
    let idle: Vec<_> = named.iter().filter(idle).map(|name| format!("`{name}`")).collect();
    let idle = Some(idle.join(", ")).filter(|idle| !idle.is_empty())?;
    Some(format!("`memory.recompute` has no effect on {idle}: frozen stages keep no activations"))
}

/// The checkpoint at `path`, and the run directory to continue in: the configured one, or that of the checkpoint.
fn from_path(session: &Session, path: &Path) -> Result<(RunDirectory, Option<FoundCheckpoint>), TrainError> {
    let configured = session.config.run.directory.as_deref();
    let found = match Checkpoint::find(path) {
        // A job that was killed before its first save starts again.
        Err(StateError::NotACheckpoint { .. }) if RunDirectory::is_run(path) => {
            return Ok((RunDirectory::resume(configured.unwrap_or(path))?, None));
        }
        result => result?,
    };
    let run = match (configured, found.checkpoint.run_directory()) {
        (Some(path), _) => RunDirectory::resume(path)?,
        (None, Some(path)) => RunDirectory::resume(&path)?,
        (None, None) => RunDirectory::next(session.config.name())?,
    };
    Ok((run, Some(found)))
}

/// Refuses to continue the newest run of a configuration that computes something else than this one. Whoever typed the
/// difference wants it, and is warned; whoever named the run is warned too.
fn refuse_other(session: &Session, run: &Path, differences: &[Difference]) -> Result<(), TrainError> {
    let config = &session.config;
    let resolved = config.resolved();
    let origin = |key: &str| resolved.iter().find(|entry| entry.key == key).map(|entry| &entry.origin);
    let is_other = |difference: &&Difference| {
        // A key that older versions did not have is absent there, and has its default here.
        let is_new = difference.before.is_none() && origin(&difference.key) == Some(&Origin::Default);
        let is_typed = matches!(origin(&difference.key), Some(Origin::Set | Origin::Flag(_)));
        difference.is_of_mathematics() && !is_new && !is_typed
    };
    match differences.iter().find(is_other) {
        None => Ok(()),
        Some(difference) => {
            Err(TrainError::OtherTraining { run: run.to_owned(), difference: Box::new(difference.clone()) })
        }
    }
}

/// Refuses to continue another model, whose parameters are not those of this one.
fn refuse_other_model(checkpoint: &Checkpoint, differences: &[Difference]) -> Result<(), TrainError> {
    let other = differences.iter().find(|difference| difference.key == "model.name");
    match other.and_then(|other| Some((other.before.as_ref()?, other.after.as_ref()?))) {
        Some((before, now)) => {
            let run = checkpoint.run_directory().unwrap_or_else(|| checkpoint.path().to_owned());
            Err(TrainError::OtherModel { run, before: before.shown(), now: now.shown() })
        }
        None => Ok(()),
    }
}

/// Refuses to continue a training that is beyond its end: the run would be recorded as complete, and is not.
fn refuse_beyond_end(session: &Session, checkpoint: &Checkpoint) -> Result<(), TrainError> {
    let (done, steps) = (checkpoint.progress().step, steps(session));
    if done <= steps {
        return Ok(());
    }
    let run = checkpoint.run_directory().unwrap_or_else(|| checkpoint.path().to_owned());
    Err(TrainError::BeyondEnd { run, done, steps })
}

/// Warns of settings that changed since the checkpoint. `run.*` does not matter.
fn changes(session: &Session, differences: &[Difference]) -> Vec<String> {
    // A schedule over the whole run stretches with its length, so the learning rate jumps.
    let kind = &session.config.schedule.kind;
    let stretches = !matches!(kind, ScheduleKind::Constant | ScheduleKind::Step { .. });
    let is_length = |key: &str| key == "train.epochs" || key == "train.steps";
    let matters = |key: &str| !key.starts_with("run.") && (stretches || !is_length(key));
    let value = |value: &Option<oomph_config::Value>| {
        value.as_ref().map_or_else(|| "not set".to_owned(), |value| format!("`{value}`"))
    };
    differences
        .iter()
        .filter(|difference| matters(&difference.key))
        .map(|difference| {
            let (before, after) = (value(&difference.before), value(&difference.after));
            let what_of_it = match difference.key.as_str() {
                key if is_length(key) => ": the learning rate jumps to the new schedule",
                "model.weights" => {
                    ": only a new training starts from it, a resumed one keeps the parameters of the checkpoint"
                }
                _ => "",
            };
            format!("`{}` was {before} in the checkpoint and is {after} now{what_of_it}", difference.key)
        })
        .collect()
}

/// Warns of data that changed since the checkpoint.
fn data_changes(
    session: &Session,
    now: &SourceRecord,
    checkpoint: &Checkpoint,
) -> Result<impl Iterator<Item = String>, StateError> {
    let before = checkpoint.recorded_source()?;
    let changes =
        before.map(|before| [before.other_data(now), before.other_statistics(session.source.as_ref())]);
    Ok(changes.into_iter().flatten().flatten())
}
