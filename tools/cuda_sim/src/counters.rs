//! What was asked of a card.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use crate::traffic::Traffic;

/// Counts since the process began.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) launches: AtomicU64,
    pub(crate) modules: AtomicU64,
    pub(crate) refused_modules: AtomicU64,
    pub(crate) refused_launches: AtomicU64,
    pub(crate) allocations: AtomicU64,
    pub(crate) frees: AtomicU64,
    pub(crate) copies_to_device: AtomicU64,
    pub(crate) bytes_to_device: AtomicU64,
    pub(crate) copies_to_host: AtomicU64,
    pub(crate) bytes_to_host: AtomicU64,
    pub(crate) copies_on_device: AtomicU64,
    pub(crate) bytes_on_device: AtomicU64,
    pub(crate) fills: AtomicU64,
    pub(crate) bytes_filled: AtomicU64,
    /// Launches of kernels whose text could not be read for the buffers that they access.
    pub(crate) launches_without_bytes: AtomicU64,
    pub(crate) synchronisations: AtomicU64,
    /// Of kernels that ran: instructions of warps, bytes that they read and wrote.
    pub(crate) warp_instructions: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    /// Of the launches: most bytes of shared memory of a block, fixed and dynamic.
    pub(crate) most_shared_bytes: AtomicU64,
    kernels: Mutex<BTreeMap<String, Traffic>>,
}

/// Counts of the compiler, which is that of all cards.
#[derive(Debug, Default)]
pub(crate) struct Compiler {
    pub(crate) programs: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) microseconds: AtomicU64,
}

/// Adds one and returns the new count.
pub(crate) fn count(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Relaxed) + 1
}

impl Counters {
    /// A launch of the kernel of that name; returns how many launches there were.
    pub(crate) fn launch(&self, kernel: &str) -> u64 {
        self.add(kernel, Traffic { launches: 1, ..Traffic::default() });
        count(&self.launches)
    }

    /// What a launch of the kernel of that name moved.
    pub(crate) fn add(&self, kernel: &str, traffic: Traffic) {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        match kernels.get_mut(kernel) {
            Some(all) => *all += traffic,
            None => drop(kernels.insert(kernel.to_owned(), traffic)),
        }
    }

    /// A kernel ran to its end.
    pub(crate) fn ran(&self, ran: oomph_ptx::Executed) {
        self.warp_instructions.fetch_add(ran.warp_instructions, Relaxed);
        self.bytes_read.fetch_add(ran.global_bytes_read, Relaxed);
        self.bytes_written.fetch_add(ran.global_bytes_written, Relaxed);
    }

    /// The launches of each kernel.
    pub(crate) fn kernels(&self) -> BTreeMap<String, Traffic> {
        self.kernels.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
