use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    thread,
};

use oomph_config::DeviceName;
use oomph_core::on_device;
use oomph_parallel::group::{Group, threads};

use oomph_engine::{
    EngineError, device_failure,
    ranks::{Collective, Replicas},
    session::Session,
};

use super::follower::follow;
use crate::{
    Stop, TrainError,
    device::{has_nccl, open_device},
    open::{SessionError, are_different_gpus, own_pool, rank_session},
    tensor_log::TensorLog,
};

/// Trains on all devices of the session. Each rank has its own replica and thread: `lead` is rank 0, in the caller's
/// thread. With `log`, the other ranks note their tensors in it.
///
/// # Errors
/// The error of the rank that failed first. The other ranks end with it.
pub(crate) fn train_on_ranks<T>(
    session: &Session,
    stop: &Stop,
    log: Option<TensorLog>,
    lead: impl FnOnce(&Session) -> Result<T, TrainError>,
) -> Result<T, TrainError> {
    let devices = session.config.device.devices.clone();
    let timeout = session.config.device.timeout;
    let mut groups = threads(devices.len(), Some(timeout)).map_err(TrainError::from)?.into_iter();
    let opened = devices.iter().map(|name| open_device(*name)).collect::<Result<Vec<_>, _>>();
    let opened = opened.map_err(SessionError::from)?;
    // Burn panics where NCCL is missing.
    let can_use_nccl = are_different_gpus(&devices) && has_nccl();
    let collective = can_use_nccl.then(|| Collective::new(&opened));
    let mut replica = |rank: usize| {
        // `threads` made one group end for each device.
        let group: Arc<dyn Group> = Arc::new(groups.next().expect("a group end for every device"));
        let replicas = Replicas::new(group, collective.clone());
        rank_session(session, devices[rank], opened[rank].clone(), replicas)
    };
    let first = replica(0);
    let others: Vec<_> = (1..devices.len()).map(&mut replica).collect();
    thread::scope(|scope| {
        let followers: Vec<_> = others
            .into_iter()
            .map(|session| {
                let log = log.clone();
                let name = format!("oomph-rank-{}", session.replicas.rank());
                let failed = session.replicas.clone();
                let follower = thread::Builder::new().name(name).spawn_scoped(scope, move || {
                    guarded(&session, |session| on_own_threads(session, || follow(session, stop, log)))
                });
                follower.map_err(|error| {
                    failed.group().abort(&error.to_string());
                    TrainError::Thread(error)
                })
            })
            .collect();
        let led = guarded(&first, lead);
        // Leaving the group ends ranks that still wait for rank 0.
        drop(first);
        let mut failed = Vec::new();
        for (rank, follower) in (1..).zip(followers) {
            let ended =
                follower.and_then(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            failed.extend(ended.err().map(|error| (rank, error)));
        }
        first_cause(led, failed, &devices)
    })
}

/// Computes on threads of the rank's own, if its device is the CPU: their allocations count as the rank's.
fn on_own_threads<T: Send>(
    session: &Session,
    work: impl FnOnce() -> Result<T, TrainError> + Send,
) -> Result<T, TrainError> {
    let rank = session.replicas.rank();
    match own_pool(session, session.config.device.devices[0], rank)? {
        Some(pool) => pool.install(work),
        None => on_device(rank, work),
    }
}

/// Does `work` of a rank, which failures of other GPUs do not end. Where it fails or panics, the other ranks end too and
/// receive the reason.
pub(crate) fn guarded<T>(
    session: &Session,
    work: impl FnOnce(&Session) -> Result<T, TrainError>,
) -> Result<T, TrainError> {
    let group = session.replicas.group();
    let devices = &session.config.device.devices;
    match catch_unwind(AssertUnwindSafe(|| device_failure::on(devices, || work(session)))) {
        Ok(done) => done.inspect_err(|error| {
            if !is_consequence(error) {
                group.abort(&error.to_string());
            }
        }),
        Err(panic) => {
            group.abort("it panicked");
            resume_unwind(panic)
        }
    }
}

/// Whether the error is a consequence of another rank's failure.
fn is_consequence(error: &TrainError) -> bool {
    matches!(error, TrainError::Engine(EngineError::Group(_)))
}

/// The error that caused the others.
fn first_cause<T>(
    led: Result<T, TrainError>,
    failed: Vec<(usize, TrainError)>,
    devices: &[DeviceName],
) -> Result<T, TrainError> {
    if led.as_ref().is_err_and(|error| !is_consequence(error)) {
        return led;
    }
    match failed.into_iter().find(|(_, error)| !is_consequence(error)) {
        Some((rank, source)) => {
            Err(TrainError::Rank { rank, device: devices[rank], source: Box::new(source) })
        }
        None => led,
    }
}
