use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use oomph_config::{Recompute, ScheduleKind};
use oomph_core::{Phase, is_within, phase};
use oomph_data::SourceRecord;
use oomph_memory::{Account, charge};

use oomph_engine::{
    exhausted,
    record::{restore_model, restored_carried},
    session::{EpochCut, Session},
    step::Stepper,
};
use oomph_runs::{
    RunDirectory,
    state::{Checkpoint, FoundCheckpoint, StateError, TrainProgress},
};

use crate::{
    TrainError,
    lr_schedule::steps_per_epoch,
    open::{SessionError, off_device, rows_of, stepper_to_restore},
};

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
        let mut warnings: Vec<_> = config
            .set_aside()
            .iter()
            .map(|aside| format!("`{}` has no effect beside `{}`", aside.setting.key, aside.by.key))
            .collect();
        warnings.extend(frozen_in_vain(session));
        let source = SourceRecord::of(session.source.as_ref());
        match &found {
            Some(found) => {
                warnings.extend(found.warnings());
                warnings.extend(changes(session, &found.checkpoint)?);
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

/// Warns of settings that changed since the checkpoint. `run.*` does not matter.
fn changes(session: &Session, checkpoint: &Checkpoint) -> Result<Vec<String>, TrainError> {
    let differences = session.config.differences(&checkpoint.config()?).map_err(SessionError::from)?;
    // A schedule over the whole run stretches with its length, so the learning rate jumps.
    let kind = &session.config.schedule.kind;
    let stretches = matches!(kind, ScheduleKind::Cosine { .. } | ScheduleKind::OneCycle { .. });
    let is_length = |key: &str| key == "train.epochs" || key == "train.steps";
    let matters = |key: &str| !key.starts_with("run.") && (stretches || !is_length(key));
    let value = |value: &Option<oomph_config::Value>| {
        value.as_ref().map_or_else(|| "not set".to_owned(), |value| format!("`{value}`"))
    };
    Ok(differences
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
        .collect())
}

/// Warns of data that changed since the checkpoint.
fn data_changes(
    session: &Session,
    now: &SourceRecord,
    checkpoint: &Checkpoint,
) -> Result<impl Iterator<Item = String>, StateError> {
    let before = if checkpoint.has_source() { Some(checkpoint.source()?) } else { None };
    let changes =
        before.map(|before| [before.other_data(now), before.other_statistics(session.source.as_ref())]);
    Ok(changes.into_iter().flatten().flatten())
}

/// Makes a stepper and restores the state of a checkpoint into it. Returns the progress of the checkpoint too.
pub(crate) fn restored(
    session: &Session,
    checkpoint: &Checkpoint,
) -> Result<(Stepper, TrainProgress), TrainError> {
    let mut stepper = stepper_to_restore(session)?;
    let _phase = phase(Phase::Init);
    charge(Account::Host, || checkpoint.check_source(session.source.as_ref()))?;
    let mut state = charge(Account::Host, || checkpoint.state())?;
    check_position(session, &state.progress)?;
    let device = session.whole_model_device();
    off_device(session, || restore_model(&mut stepper.model, &state.model, &device))?;
    stepper.place_model();
    // Each part of a split model has its own device.
    let mut devices = HashMap::new();
    stepper.model.visit(&mut |info, parameter| {
        devices.insert(info.name.to_owned(), parameter.device().inner());
        // Parameters that are frozen now need no optimizer state any more.
        if !info.trainable {
            state.optimizer.ranks.remove(info.name);
        }
    });
    let device_of = |parameter: &str| devices.get(parameter).unwrap_or(&device).clone();
    off_device(session, || {
        // Copied into memory of the current account, one at a time: on the CPU the optimizer keeps the buffers that it is
        // given, and the buffers of the record are the host's.
        for tensor in state.optimizer.tensors.values_mut() {
            tensor.values = tensor.values.as_slice().to_vec();
        }
        stepper.optimizer.restore(state.optimizer, device_of)
    })?;
    // A run that had another precision begins with a new loss scale.
    stepper.loss_scale = stepper.loss_scale.map(|new| state.loss_scale.unwrap_or(new));
    let carried = restored_carried(&state.carried, &session.device);
    stepper.place_carried(match session.replicas.is_alone() {
        true => carried,
        // Each rank carries the state of its own rows.
        false => carried.rows(rows_of(session, session.replicas.rank(), session.replicas.world_size())),
    });
    exhausted::check()?;
    Ok((stepper, state.progress))
}

/// Checks that a position within an epoch still means the same: epochs must be cut into the same batches.
fn check_position(session: &Session, progress: &TrainProgress) -> Result<(), StateError> {
    let TrainProgress { batch, batches_per_epoch: before, cut, .. } = *progress;
    let now = steps_per_epoch(session);
    if batch == 0 {
        return Ok(());
    }
    if before != now {
        return Err(StateError::EpochChanged { batch, before, now });
    }
    let now = EpochCut::of(session);
    match cut.filter(|before| *before != now) {
        Some(before) => Err(StateError::CutChanged { batch, before, now }),
        None => Ok(()),
    }
}
