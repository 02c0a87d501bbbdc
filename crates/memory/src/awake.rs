//! Compute threads that look for work for a while before they sleep. To wake a thread takes as long as a small operation: 50 µs on a
//! virtual machine.

use std::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use oomph_core::{Account, charge};
use rayon::Yield;

/// How long a thread looks for work. The loss is read and logged in less, so threads stay awake from one step to the next.
const PATIENCE: Duration = Duration::from_micros(500);

/// The threads that are awake.
static AWAKE: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Whether this thread is awake.
    static IS_AWAKE: Cell<bool> = const { Cell::new(false) };
}

/// Wakes the threads of rayon's global pool, unless they are awake. Each sleeps again when it had no work for a while. On a thread of a
/// pool it does nothing.
pub(crate) fn keep() {
    if rayon::current_thread_index().is_none() && AWAKE.load(Relaxed) < rayon::current_num_threads() {
        charge(Account::Host, || rayon::spawn_broadcast(|_| look_for_work()));
    }
}

fn look_for_work() {
    // Two calls of `keep` at once wake a thread twice.
    if IS_AWAKE.replace(true) {
        return;
    }
    AWAKE.fetch_add(1, Relaxed);
    let mut last = Instant::now();
    while last.elapsed() < PATIENCE {
        if rayon::yield_now() == Some(Yield::Executed) {
            last = Instant::now();
        } else {
            // Other threads of the program may wait for this core.
            thread::yield_now();
        }
    }
    AWAKE.fetch_sub(1, Relaxed);
    IS_AWAKE.set(false);
}

#[cfg(test)]
mod tests {
    use rayon::prelude::*;

    use super::*;
    use crate::{running_threads, within_threads};

    #[test]
    fn threads_work_while_they_are_awake_and_sleep_again() {
        let sum = || (0..1000u64).into_par_iter().sum::<u64>();
        for _ in 0..3 {
            assert_eq!((within_threads(sum), sum()), (499_500, 499_500));
            assert_eq!(within_threads(|| within_threads(sum)), 499_500);
        }
        let begun = Instant::now();
        while AWAKE.load(Relaxed) > 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "{} threads are awake", running_threads());
            thread::sleep(PATIENCE);
        }
    }
}
