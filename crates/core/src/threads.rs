//! Work on all cores, for work that a command does not measure. Under a limit of the address space (`ulimit -v`) it is done
//! by this thread alone, since each thread reserves some for its stack and its allocator.

use std::{
    num::NonZeroUsize,
    panic::resume_unwind,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

#[cfg(unix)]
use rustix::process::{Resource, getrlimit};

/// The results of `work` for all items, in their order, by as many threads as there are cores. Where the system gives no
/// thread, this one does all the work.
///
/// # Panics
/// If `work` panics.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(items.len())));
    let take = || loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(item) = items.get(index) else { return };
        let result = work(item);
        done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
    };
    let cores = if is_limited() { 1 } else { thread::available_parallelism().map_or(1, NonZeroUsize::get) };
    thread::scope(|scope| {
        for _ in 1..cores.min(items.len()) {
            let _ = builder("oomph-map").spawn_scoped(scope, take);
        }
        take();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The results of both. The second one has a thread of its own, if the system gives one.
///
/// # Panics
/// If one of them panics.
pub fn both<A, B: Send>(first: impl FnOnce() -> A, second: impl Fn() -> B + Sync) -> (A, B) {
    if is_limited() {
        return (first(), second());
    }
    let (first, of_thread) = thread::scope(|scope| {
        let started = builder("oomph-both").spawn_scoped(scope, &second);
        let first = first();
        (first, started.ok().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))))
    });
    (first, of_thread.unwrap_or_else(second))
}

/// A thread with the stack of a main thread, whatever `RUST_MIN_STACK` says.
fn builder(name: &str) -> thread::Builder {
    const STACK: usize = 8 << 20;
    thread::Builder::new().name(name.to_owned()).stack_size(STACK)
}

/// Whether the address space of this process has a limit.
#[cfg(unix)]
fn is_limited() -> bool {
    getrlimit(Resource::As).current.is_some()
}

/// Windows limits jobs instead, which reserve nothing.
#[cfg(not(unix))]
fn is_limited() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn results_have_the_order_of_the_items() {
        let items: Vec<u64> = (0..100).collect();
        // The first ones are done last.
        let slow = |item: &u64| {
            thread::sleep(Duration::from_micros(100 - item));
            item * item
        };
        assert_eq!(map(&items, slow), items.iter().map(|item| item * item).collect::<Vec<_>>());
        assert!(map(&[], slow).is_empty());
    }

    #[test]
    fn both_are_done() {
        let mut count = 0;
        assert_eq!(both(|| count += 1, || "second"), ((), "second"));
        assert_eq!(count, 1);
    }
}
