use std::{
    num::NonZeroUsize,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    thread,
};

use oomph_config::DeviceName;
use oomph_core::on_device;
use oomph_memory::ComputePool;
use oomph_parallel::group::{Group, threads};

use super::{Replicas, collective::Collective, follower::follow};
use crate::{Session, SessionError, Stop, TrainError, cpu::prepare_pool, held::Held, open_device};

/// Trains on all devices of the session, each with a replica of its own in a thread of its own: `lead` is rank 0, in the
/// caller's thread. The others note into `held` which tensors are what, where there is one.
///
/// # Errors
/// That of the rank that failed first; the others end with it.
pub(crate) fn train_on_replicas<T>(
    session: &Session,
    stop: &Stop,
    held: Option<Held>,
    lead: impl FnOnce(&Session) -> Result<T, TrainError>,
) -> Result<T, TrainError> {
    let devices = session.config.device.devices.clone();
    let timeout = session.config.device.timeout;
    let mut groups = threads(devices.len(), Some(timeout))?.into_iter();
    let opened = devices.iter().map(|name| open_device(*name)).collect::<Result<Vec<_>, _>>();
    let opened = opened.map_err(SessionError::from)?;
    let collective = Collective::new(&devices, &opened);
    let mut replica = |rank: usize| {
        // There are as many as devices.
        let group: Arc<dyn Group> = Arc::new(groups.next().expect("a group end for every device"));
        let replicas = Replicas::new(group, collective.clone());
        session.replica(devices[rank], opened[rank].clone(), replicas)
    };
    let first = replica(0);
    let others: Vec<_> = (1..devices.len()).map(&mut replica).collect();
    thread::scope(|scope| {
        let followers: Vec<_> = others
            .into_iter()
            .map(|session| {
                let held = held.clone();
                let name = format!("oomph-rank-{}", session.replicas.rank());
                let failed = session.replicas.clone();
                let follower = thread::Builder::new().name(name).spawn_scoped(scope, move || {
                    guarded(&session, |session| on_own_threads(session, || follow(session, stop, held)))
                });
                follower.map_err(|error| {
                    failed.group().abort(&error.to_string());
                    TrainError::Thread(error)
                })
            })
            .collect();
        let led = guarded(&first, lead);
        // Leaving the group ends the others, if they still wait for this rank.
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

/// Computes on threads that belong to the rank's device alone, where that is the CPU: so that what they allocate is
/// counted as its.
fn on_own_threads<T: Send>(
    session: &Session,
    work: impl FnOnce() -> Result<T, TrainError> + Send,
) -> Result<T, TrainError> {
    let rank = session.replicas.rank();
    if session.config.device.devices != [DeviceName::Cpu] {
        return on_device(rank, work);
    }
    let threads = session.config.device.threads.and_then(NonZeroUsize::new).unwrap_or(NonZeroUsize::MIN);
    let pool = ComputePool::new(rank, threads).map_err(SessionError::from)?;
    prepare_pool(&pool);
    pool.install(work)
}

/// Has the others end with this rank, and know why.
pub(crate) fn guarded<T>(
    session: &Session,
    work: impl FnOnce(&Session) -> Result<T, TrainError>,
) -> Result<T, TrainError> {
    let group = session.replicas.group();
    match catch_unwind(AssertUnwindSafe(|| work(session))) {
        Ok(done) => done.inspect_err(|error| {
            if !matches!(error, TrainError::Group(_)) {
                group.abort(&error.to_string());
            }
        }),
        Err(panic) => {
            group.abort("it panicked");
            resume_unwind(panic)
        }
    }
}

/// Of several errors that which is not a consequence of another.
fn first_cause<T>(
    led: Result<T, TrainError>,
    failed: Vec<(usize, TrainError)>,
    devices: &[DeviceName],
) -> Result<T, TrainError> {
    let is_consequence = |error: &TrainError| matches!(error, TrainError::Group(_));
    match led {
        Err(error) if !is_consequence(&error) => Err(error),
        led => {
            let cause = failed.into_iter().find(|(_, error)| !is_consequence(error));
            match cause {
                Some((rank, source)) => {
                    Err(TrainError::Rank { rank, device: devices[rank], source: Box::new(source) })
                }
                None => led,
            }
        }
    }
}
