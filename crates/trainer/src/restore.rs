use std::{collections::BTreeMap, mem};

use oomph_config::Difference;
use oomph_core::{Phase, phase};
use oomph_engine::{
    exhausted,
    optimizer::check_record,
    record::{check_carried, restore_model, restored_carried},
    session::{EpochCut, Session, steps_per_epoch},
    step::{Stepper, state},
};
use oomph_memory::{Account, charge};
use oomph_model::carried_shapes;
use oomph_runs::state::{AverageState, Checkpoint, StateError, TrainProgress, TrainState};

use crate::{
    TrainError,
    open::{SessionError, off_device, rows_of, stepper_to_restore},
};

/// Makes a stepper and restores the state of a checkpoint into it. Returns the progress of the checkpoint too.
pub(crate) fn restored(
    session: &Session,
    checkpoint: &Checkpoint,
) -> Result<(Stepper, TrainProgress), TrainError> {
    let mut stepper = stepper_to_restore(session)?;
    let _phase = phase(Phase::Init);
    charge(Account::Host, || checkpoint.check_source(session.source.as_ref()))?;
    let mut saved = charge(Account::Host, || checkpoint.state())?;
    charge(Account::Host, || check(session, &stepper, &saved))?;
    let device = session.whole_model_device();
    off_device(session, || restore_model(&mut stepper.model, mem::take(&mut saved.model), &device))?;
    if charge(Account::Host, || keeps_its_average(session, checkpoint))? {
        let restored = saved.average.take().map(|AverageState { model, updates }| {
            off_device(session, || state::restore_average(&mut stepper, model, updates, &device))
        });
        restored.transpose()?;
    }
    stepper.place_model();
    stepper.model.visit(&mut |info, _| {
        // Parameters that are frozen now need no optimizer state any more.
        if !info.trainable {
            saved.optimizer.ranks.remove(info.name);
        }
    });
    off_device(session, || state::restore_optimizer(&mut stepper, saved.optimizer))?;
    // A run that had another precision begins with a new loss scale.
    stepper.loss_scale = stepper.loss_scale.map(|new| saved.loss_scale.unwrap_or(new));
    let carried = restored_carried(&saved.carried, &session.device);
    stepper.place_carried(match session.replicas.is_alone() {
        true => carried,
        // Each rank carries the state of its own rows.
        false => carried.rows(rows_of(session, session.replicas.rank(), session.replicas.world_size())),
    });
    exhausted::check()?;
    Ok((stepper, saved.progress))
}

/// Whether the training averages its weights as that of the checkpoint did: a mean does not go on as a moving average.
fn keeps_its_average(session: &Session, checkpoint: &Checkpoint) -> Result<bool, TrainError> {
    let kind_differs = |it: &Difference| it.key == "train.swa" && it.before.is_some() != it.after.is_some();
    let differences = session.config.differences(&checkpoint.config()?).map_err(SessionError::from)?;
    Ok(!differences.iter().any(kind_differs))
}

/// Checks all that is read from a checkpoint against the session, before any of it is used. The parameters are checked where
/// they are restored.
fn check(session: &Session, stepper: &Stepper, state: &TrainState) -> Result<(), TrainError> {
    check_position(session, &state.progress)?;
    let mut shapes = BTreeMap::new();
    stepper.model.visit(&mut |info, parameter| drop(shapes.insert(info.name.to_owned(), parameter.dims())));
    check_record(&state.optimizer, &shapes, state.progress.step)?;
    // Other data carries nothing, so nothing of the checkpoint is used.
    if stepper.carried.is_some() {
        let shapes = carried_shapes(&session.architecture, session.spec(), 1)?;
        check_carried(&state.carried, &shapes)?;
    }
    Ok(())
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
