use oomph_core::{Phase, phase};
use oomph_memory::{Account, charge};
use oomph_model::Carried;

use crate::{
    Session, Stepper, TrainError, out_of_memory,
    state::{Checkpoint, Progress, StateError, restore_model},
};

/// A stepper in the state of a checkpoint, and how far that is.
pub(crate) fn restored(
    session: &Session,
    checkpoint: &Checkpoint,
) -> Result<(Stepper, Progress), TrainError> {
    let mut stepper = Stepper::to_restore(session)?;
    let _phase = phase(Phase::Init);
    charge(Account::Host, || checkpoint.check_classes(session.source.as_ref()))?;
    let mut state = charge(Account::Host, || checkpoint.state())?;
    check_place(session, &state.progress)?;
    let device = session.whole_model_device();
    session.off_device(|| restore_model(&mut stepper.model, &state.model, &device))?;
    stepper.place_again();
    // What was trained before and is frozen now needs no state any more.
    stepper.model.visit(&mut |info, _| {
        if !info.trainable {
            state.optimizer.ranks.remove(info.name);
        }
    });
    // What a device's parameters need of it goes there with the next step.
    session.off_device(|| stepper.optimizer.restore(state.optimizer, &device))?;
    // A training that was in another precision begins with a new one.
    stepper.loss_scale = stepper.loss_scale.map(|new| state.loss_scale.unwrap_or(new));
    let carried = state.carried.iter();
    let carried: Carried =
        carried.map(|(name, tensor)| (name.clone(), tensor.to_tensor(&session.device))).collect();
    stepper.place_carried(match session.replicas.is_alone() {
        true => carried,
        // Each has its own streams.
        false => carried.rows(session.own_rows()),
    });
    out_of_memory::check()?;
    Ok((stepper, state.progress))
}

/// A place in the middle of an epoch is one only while epochs are cut into the same batches.
fn check_place(session: &Session, progress: &Progress) -> Result<(), StateError> {
    let Progress { batch, batches_per_epoch: before, cut, .. } = *progress;
    let now = session.steps_per_epoch();
    if batch == 0 {
        return Ok(());
    }
    if before != now {
        return Err(StateError::EpochChanged { batch, before, now });
    }
    let now = session.epoch_cut();
    match cut.filter(|before| *before != now) {
        Some(before) => Err(StateError::CutChanged { batch, before, now }),
        None => Ok(()),
    }
}
