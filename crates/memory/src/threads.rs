use std::{error::Error, num::NonZeroUsize, sync::Once, thread::available_parallelism};

use oomph_core::{Account, MOST_DEVICES, at_point, charge, charge_thread, current_point, device_thread};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::{awake, keep_freed_memory};

/// The compute threads could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ThreadsError {
    /// Compute threads already run, with another number.
    #[error("{running} compute threads already run; their number cannot change to {asked}")]
    Running {
        /// The number of running threads.
        running: usize,
        /// The requested number.
        asked: usize,
    },
    /// The meter cannot count another device.
    #[error("there is no CPU device {device}: the last one is {}", MOST_DEVICES - 1)]
    Device {
        /// The requested index.
        device: usize,
    },
    /// The system starts no more threads.
    #[error("the {threads} compute threads of device {device} cannot be started")]
    Start {
        /// The index of the device.
        device: usize,
        /// The requested number.
        threads: usize,
        /// The system's error.
        #[source]
        reason: rayon::ThreadPoolBuildError,
    },
}

impl ThreadsError {
    /// A remedy, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Start { .. } => Some(
                "raise the limit of processes (`ulimit -u`, or `pids.max` of the container), or end other processes; \
                 `oomph doctor` shows the limits",
            ),
            Self::Running { .. } | Self::Device { .. } => None,
        }
    }
}

/// Starts the compute threads of the CPU device (rayon's global pool), charged to [`Account::Device`]: `count` threads, or
/// one per core. The memory that they free is [kept](keep_freed_memory). On a thread of a [pool](ComputePool) it starts none.
///
/// # Errors
/// If they already run with another number, or the system starts no more threads.
pub fn compute_threads(count: Option<NonZeroUsize>) -> Result<usize, ThreadsError> {
    static KEEP: Once = Once::new();
    KEEP.call_once(keep_freed_memory);
    let asked = count.map_or(0, NonZeroUsize::get);
    let pool = ThreadPoolBuilder::new()
        .num_threads(asked)
        .thread_name(|index| format!("oomph-compute-{index}"))
        .start_handler(|_| charge_thread(Account::Device));
    let is_built = rayon::current_thread_index().is_none()
        && match pool.build_global() {
            // Only an error of the system has a source. Without threads, asking for their number would panic.
            Err(reason) if reason.source().is_some() => {
                let threads = count.unwrap_or_else(|| threads_per_device(NonZeroUsize::MIN)).get();
                return Err(ThreadsError::Start { device: 0, threads, reason });
            }
            built => built.is_ok(),
        };
    let running = rayon::current_num_threads();
    if !is_built && asked != 0 && asked != running {
        return Err(ThreadsError::Running { running, asked });
    }
    Ok(running)
}

/// The number of compute threads for the work of this thread: those of its [pool](ComputePool), or those of
/// [`compute_threads`], which it starts if necessary, one per core.
pub fn running_threads() -> usize {
    // Asking rayon directly would start threads that are not charged to the device. Only another number is an error.
    compute_threads(None).unwrap_or_else(|_| rayon::current_num_threads())
}

/// Runs `work` on one of the [running threads](running_threads) and waits. Work of many small operations is faster there: none of them
/// wakes this thread again, and the other threads stay awake between two operations.
pub fn within_threads<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    running_threads();
    awake::keep();
    let point = current_point();
    rayon::scope(|_| at_point(point, work))
}

/// Runs `work` once on each of the [running threads](running_threads) and waits, to set up thread-local state.
pub fn on_compute_threads(work: impl Fn() + Sync) {
    running_threads();
    rayon::broadcast(|_| work());
}

/// Compute threads per device for `devices` CPU devices: together about the number of cores.
pub fn threads_per_device(devices: NonZeroUsize) -> NonZeroUsize {
    let cores = available_parallelism().map_or(1, NonZeroUsize::get);
    NonZeroUsize::new(cores / devices).unwrap_or(NonZeroUsize::MIN)
}

/// The compute threads of one of several CPU devices, separate from those of [`compute_threads`]. They are always charged
/// to [`Account::Device`] and that device.
///
/// ```
/// use std::num::NonZeroUsize;
/// use oomph_memory::{ComputePool, read_device};
/// oomph_memory::install_meter!();
///
/// # fn main() -> Result<(), oomph_memory::ThreadsError> {
/// let pool = ComputePool::new(1, NonZeroUsize::MIN)?;
/// let tensor = pool.install(|| vec![1.0f32; 1 << 20]);
/// assert!(read_device(1).in_use_bytes.get() >= 4 << 20);
/// assert!(read_device(0).in_use_bytes.get() < 4 << 20);
/// # drop(tensor);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ComputePool {
    device: usize,
    pool: ThreadPool,
}

impl ComputePool {
    /// Starts the given number of threads for the device `device`. They end when the pool is dropped and their work is done.
    ///
    /// # Errors
    /// The meter cannot count another device, or the system starts no more threads.
    pub fn new(device: usize, threads: NonZeroUsize) -> Result<Self, ThreadsError> {
        if device >= MOST_DEVICES {
            return Err(ThreadsError::Device { device });
        }
        let threads = threads.get();
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(move |index| format!("oomph-device-{device}-{index}"))
            .start_handler(move |_| {
                charge_thread(Account::Device);
                device_thread(device);
            });
        // The pool's own memory is charged to the host.
        let pool = charge(Account::Host, || pool.build());
        let pool = pool.map_err(|reason| ThreadsError::Start { device, threads, reason })?;
        Ok(Self { device, pool })
    }

    /// The index of the device.
    pub fn device(&self) -> usize {
        self.device
    }

    /// The number of threads.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Runs `work` on one of the threads and waits. Its parallel work runs on this pool, its allocations are charged to the
    /// device unless it charges the host, and it starts at the [execution point](current_point) of the caller.
    ///
    /// Call it from one thread at a time: a pool thread that waits within one piece of work may start another. Thread-local
    /// state of the caller, such as a watcher of points, does not apply.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        let point = current_point();
        self.pool.install(|| at_point(point, || charge(Account::Device, work)))
    }

    /// Runs `work` once on every thread and waits, to set up thread-local state.
    pub fn on_every_thread(&self, work: impl Fn() + Sync) {
        self.pool.broadcast(|_| work());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_share_the_cores_and_each_has_a_thread() {
        let of = |devices| threads_per_device(NonZeroUsize::new(devices).unwrap()).get();
        assert_eq!(of(1), available_parallelism().unwrap().get());
        assert_eq!(of(100_000), 1);
    }

    #[test]
    fn a_device_that_the_meter_does_not_know_has_no_threads() {
        let error = ComputePool::new(MOST_DEVICES, NonZeroUsize::MIN).unwrap_err();
        assert_eq!(error.to_string(), "there is no CPU device 64: the last one is 63");
    }
}
