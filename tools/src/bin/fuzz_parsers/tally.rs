//! What became of the inputs of a parser.

use std::{
    env, fs,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// How an input failed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failure {
    /// It made the parser panic.
    Panic,
    /// It took too long.
    Hang,
    /// It took too much memory.
    BeyondBound,
}

/// The results of one parser, or of a part of its inputs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) inputs: u64,
    pub(crate) accepted: u64,
    /// By [`Failure`].
    pub(crate) failures: [u64; 3],
    /// Processor time, that of making the inputs included.
    pub(crate) time_in_all: Duration,
    pub(crate) largest: usize,
    /// The worst allocation as a share of its bound, with its bytes and those of the input.
    pub(crate) memory: Worst,
    /// The longest time as a share of what is allowed, with its microseconds and the bytes of the input.
    pub(crate) time: Worst,
}

/// The worst of something bounded.
#[derive(Clone, Copy, Default)]
pub(crate) struct Worst {
    pub(crate) share: f64,
    pub(crate) amount: u64,
    pub(crate) size: usize,
}

impl Worst {
    pub(crate) fn consider(&mut self, other: Self) {
        if other.share > self.share {
            *self = other;
        }
    }
}

/// The results of one parser, from all threads.
#[derive(Default)]
pub(crate) struct Tally {
    counts: Mutex<Counts>,
    kept: AtomicU64,
}

impl Tally {
    pub(crate) fn counts(&self) -> MutexGuard<'_, Counts> {
        // Only additions happen under the lock.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the results of a part of the inputs.
    pub(crate) fn add(&self, part: &Counts) {
        let mut all = self.counts();
        all.inputs += part.inputs;
        all.accepted += part.accepted;
        all.time_in_all += part.time_in_all;
        all.largest = all.largest.max(part.largest);
        all.failures.iter_mut().zip(part.failures).for_each(|(all, part)| *all += part);
        all.memory.consider(part.memory);
        all.time.consider(part.time);
    }

    /// Writes the first few inputs that failed to files, and tells of them.
    pub(crate) fn keep(&self, name: &str, input: &[u8], what: &str) {
        const KEPT: u64 = 10;
        let number = self.kept.fetch_add(1, Ordering::Relaxed);
        if number < KEPT {
            let name_of_file = name.replace([' ', '/'], "-");
            let path = env::temp_dir().join(format!("fuzz-{name_of_file}-{number}.bin"));
            let written = fs::write(&path, input).map_or_else(|error| error.to_string(), |()| String::new());
            eprintln!("failure: {name} {what} at {} bytes: {} {written}", input.len(), path.display());
        }
    }
}
