use std::num::NonZeroUsize;

use oomph_advice::planning::{choose, split_stages};
use oomph_config::DeviceName;
use oomph_core::{Phase, phase};
use oomph_engine::{
    exhausted,
    layout::{DeviceSlot, Layout, Role},
    session::{Session, SplitKey, backend, largest_train_batch, threads_of_each},
    step::{StepSettings, Stepper, state},
};
use oomph_memory::{Account, ComputePool, charge};
use oomph_model::Stages;

use super::{LoadedWeights, SessionError, initial_model};
use crate::{
    TrainError,
    device::{open_device, prepare_pool},
};

/// Opens the devices that share the session's steps. CPU devices after the first get their own threads.
///
/// # Errors
/// Where the model cannot be split, or a device cannot be opened.
pub fn open_layout(session: &Session) -> Result<Layout, TrainError> {
    let devices = &session.config.device.devices;
    let all = 0..session.stages.len();
    // The plan of a split is host memory.
    let (stages, roles): (_, Vec<Role>) = match (session.pipeline_order(), session.scatter()) {
        (Some(order), _) => {
            let role = |device| Role::Stages { device, devices: devices.len(), order };
            let stages = charge(Account::Host, || split_stages(session))?;
            (stages, (0..devices.len()).map(role).collect())
        }
        (None, Some(scatter)) => {
            let replica = |device| Role::Replica { device, scatter };
            let roles = std::iter::once(Role::Coordinator(scatter)).chain((1..devices.len()).map(replica));
            (vec![all; devices.len()], roles.collect())
        }
        (None, None) => (vec![all], vec![Role::alone()]),
    };
    let mut slots = Vec::new();
    for (index, ((stages, role), name)) in stages.into_iter().zip(roles).zip(devices).enumerate() {
        let pool = if index > 0 { own_pool(session, *name, index)? } else { None };
        let opened = || open_device(*name).map_err(SessionError::from);
        let device = if index == 0 { session.device.clone() } else { opened()? };
        slots.push(DeviceSlot::new(index, name.to_string(), session.tracked(&device), stages, role));
        slots[index].pool = pool;
    }
    Ok(Layout::new(slots, session.config.device.timeout))
}

/// The compute threads of a device, if it is a share of the CPU.
pub(crate) fn own_pool(
    session: &Session,
    name: DeviceName,
    index: usize,
) -> Result<Option<ComputePool>, SessionError> {
    if name != DeviceName::Cpu {
        return Ok(None);
    }
    let threads = threads_of_each(&session.config).and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN);
    let pool = ComputePool::new(index, threads)?;
    prepare_pool(&pool);
    Ok(Some(pool))
}

/// Makes tensors of a whole model. No device holds all of a split model, so its tensors are made in host memory.
pub(crate) fn off_device<T>(session: &Session, make: impl FnOnce() -> T) -> T {
    if session.is_split() { charge(Account::Host, make) } else { make() }
}

/// Makes a stepper with a new model, and an optimizer without state. If `model.weights` is set, the model has those
/// weights, and the notices about them are returned too.
///
/// # Errors
/// Where the model cannot be made, its weights cannot be read, a device cannot be opened, or memory runs out.
pub fn new_stepper(session: &Session) -> Result<(Stepper, Option<LoadedWeights>), TrainError> {
    let _phase = phase(Phase::Init);
    let (model, weights) = off_device(session, || initial_model(session))?;
    let mut stepper = stepper_of(session, model)?;
    state::shard_parameters(&mut stepper);
    Ok((stepper, weights))
}

/// Makes a stepper whose model is about to be restored: initialised, without `model.weights`.
pub(crate) fn stepper_to_restore(session: &Session) -> Result<Stepper, TrainError> {
    let _phase = phase(Phase::Init);
    stepper_of(session, off_device(session, || session.build())?)
}

fn stepper_of(session: &Session, model: Stages) -> Result<Stepper, TrainError> {
    exhausted::check()?;
    let backend = backend(session);
    let batch = largest_train_batch(session);
    let split = choose(session, SplitKey { batch, backend, limit_bytes: session.limit_bytes })?;
    let settings = StepSettings::new(session, session.policy(backend), split);
    let layout = open_layout(session)?;
    Ok(Stepper::new(settings, layout, model, session.replicas.clone()))
}
