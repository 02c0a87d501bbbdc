use std::{fmt, num::NonZeroUsize, thread::available_parallelism};

use oomph_core::{MOST_DEVICES, at_place, device_thread, place};
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::account::{Account, charge, charge_thread};

/// The compute threads could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ThreadsError {
    /// Another part of the program started them before.
    #[error("the compute threads run already, as {running}, and cannot become {asked}")]
    Running {
        /// How many run.
        running: usize,
        /// How many were asked for.
        asked: usize,
    },
    /// The meter does not count so many devices apart.
    #[error("there is no CPU device {device}: the last one is {}", MOST_DEVICES - 1)]
    Device {
        /// The index that was asked for.
        device: usize,
    },
    /// The system has no more threads.
    #[error("the {threads} compute threads of device {device} cannot be started")]
    Start {
        /// The index of the device.
        device: usize,
        /// How many were asked for.
        threads: usize,
        /// What the system says.
        #[source]
        reason: rayon::ThreadPoolBuildError,
    },
}

/// Starts the threads that compute for the CPU device (rayon's global pool), charged to [`Account::Device`]: `count`
/// of them, or one a core. From a thread that computes it starts none: there are those of its [pool](ComputePool).
///
/// # Errors
/// Where they were started before with another number; the same number is fine.
pub fn compute_threads(count: Option<NonZeroUsize>) -> Result<usize, ThreadsError> {
    let asked = count.map_or(0, NonZeroUsize::get);
    let is_built = !computes() && build_global(asked);
    let running = rayon::current_num_threads();
    if !is_built && asked != 0 && asked != running {
        return Err(ThreadsError::Running { running, asked });
    }
    Ok(running)
}

fn build_global(count: usize) -> bool {
    let pool = ThreadPoolBuilder::new()
        .num_threads(count)
        .thread_name(|index| format!("oomph-compute-{index}"))
        .start_handler(|_| charge_thread(Account::Device));
    pool.build_global().is_ok()
}

/// Whether this thread is one of rayon's.
fn computes() -> bool {
    rayon::current_thread_index().is_some()
}

/// How many compute threads there are for what this thread does: those of its [pool](ComputePool), where it computes
/// in one, and else those that [`compute_threads`] starts, one a core, where nobody did.
pub fn running_threads() -> usize {
    // Asking rayon alone would start threads that are charged to nobody. Only another number is refused.
    compute_threads(None).unwrap_or_else(|_| rayon::current_num_threads())
}

/// Runs `work` once on every one of the [running threads](running_threads) and waits for it: for what a thread sets up
/// for itself.
pub fn on_compute_threads(work: impl Fn() + Sync) {
    running_threads();
    rayon::broadcast(|_| work());
}

/// How many threads each of so many CPU devices computes with, so that together they are about as many as the cores.
pub fn threads_per_device(devices: NonZeroUsize) -> NonZeroUsize {
    let cores = available_parallelism().map_or(1, NonZeroUsize::get);
    NonZeroUsize::new(cores / devices).unwrap_or(NonZeroUsize::MIN)
}

/// The threads that compute for one of several CPU devices, apart from those of [`compute_threads`]. All their lives
/// they are charged to [`Account::Device`] and to that device.
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
pub struct ComputePool {
    device: usize,
    pool: ThreadPool,
}

impl ComputePool {
    /// Starts so many threads for the device of that index. They end when the pool is dropped and nothing is left to
    /// do.
    ///
    /// # Errors
    /// Where the meter does not know so many devices, or the system starts no more threads.
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
        // The pool itself is the program's, whoever starts it.
        let pool = charge(Account::Host, || pool.build());
        let pool = pool.map_err(|reason| ThreadsError::Start { device, threads, reason })?;
        Ok(Self { device, pool })
    }

    /// The index of the device.
    pub fn device(&self) -> usize {
        self.device
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    /// Runs `work` on one of the threads and waits for it. What it computes in parallel is done by this pool, what it
    /// allocates is the device's, but where it says that it is the host's, and it begins at the [`place`] of the
    /// caller.
    ///
    /// Work of one thread at a time: a thread that waits in the middle of one piece of work may begin another. What
    /// belongs to the calling thread alone, such as a watcher of places, is not there.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        let place = place();
        self.pool.install(|| at_place(place, || charge(Account::Device, work)))
    }

    /// Runs `work` once on every thread and waits for it: for what a thread sets up for itself.
    pub fn on_every_thread(&self, work: impl Fn() + Sync) {
        self.pool.broadcast(|_| work());
    }
}

impl fmt::Debug for ComputePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ComputePool")
            .field("device", &self.device)
            .field("threads", &self.threads())
            .finish_non_exhaustive()
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
