use std::num::NonZeroUsize;

use crate::account::{Account, charge_thread};

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
}

/// Starts the threads that compute for the CPU device (rayon's global pool), charged to [`Account::Device`]: `count`
/// of them, or one a core.
///
/// # Errors
/// Where they were started before with another number; the same number is fine.
pub fn compute_threads(count: Option<NonZeroUsize>) -> Result<usize, ThreadsError> {
    let asked = count.map_or(0, NonZeroUsize::get);
    let built = rayon::ThreadPoolBuilder::new()
        .num_threads(asked)
        .thread_name(|index| format!("oomph-compute-{index}"))
        .start_handler(|_| charge_thread(Account::Device))
        .build_global();
    let running = rayon::current_num_threads();
    match built {
        Err(_) if asked != 0 && asked != running => Err(ThreadsError::Running { running, asked }),
        _ => Ok(running),
    }
}

/// How many compute threads there are; starts them, one a core, where nobody did.
pub fn running_threads() -> usize {
    // Asking rayon alone would start threads that are charged to nobody. Only another number is refused.
    compute_threads(None).unwrap_or_else(|_| rayon::current_num_threads())
}

/// Runs `work` once on every compute thread and waits for it: for what a thread sets up for itself.
pub fn on_compute_threads(work: impl Fn() + Sync) {
    running_threads();
    rayon::broadcast(|_| work());
}
