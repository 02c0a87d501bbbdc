use std::{
    cell::Cell,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use crate::thread_value;

/// The most CPU devices that a process can distinguish. Higher indices count as the last device.
pub const MOST_DEVICES: usize = 64;

/// One more than the highest device that a thread has worked for.
static COUNT: AtomicUsize = AtomicUsize::new(1);

thread_local! {
    // `const` and without a destructor: an allocator may read it at any time of a thread's life.
    static CURRENT: Cell<u8> = const { Cell::new(0) };
}

/// Runs `work` with this thread working for the CPU device of that index, which gets the thread's device allocations.
/// Threads that `work` starts work for the first device.
///
/// ```
/// use oomph_core::{current_device, on_device};
///
/// assert_eq!(current_device(), 0);
/// assert_eq!(on_device(2, current_device), 2);
/// assert_eq!(current_device(), 0);
/// ```
pub fn on_device<R>(index: usize, work: impl FnOnce() -> R) -> R {
    thread_value::with(&CURRENT, counted(index), work)
}

/// Lets this thread work for the CPU device of that index for the rest of its life.
pub fn device_thread(index: usize) {
    thread_value::set(&CURRENT, counted(index));
}

/// The CPU device that this thread works for; the first by default. Allocates nothing.
#[inline]
pub fn current_device() -> usize {
    usize::from(CURRENT.get())
}

/// The number of CPU devices: one more than the highest that any thread has worked for.
pub fn device_count() -> usize {
    COUNT.load(Relaxed)
}

/// The index as a thread stores it, counted in [`COUNT`].
fn counted(index: usize) -> u8 {
    const { assert!(MOST_DEVICES <= u8::MAX as usize + 1) };
    let device = index.min(MOST_DEVICES - 1);
    // A load before the write: the cache line stays shared between all threads.
    if device + 1 > COUNT.load(Relaxed) {
        COUNT.fetch_max(device + 1, Relaxed);
    }
    device as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_works_for_a_device_until_the_work_ends_or_panics() {
        let inner = on_device(3, || {
            let failed = std::panic::catch_unwind(|| on_device(5, || panic!("on purpose")));
            assert!(failed.is_err());
            current_device()
        });
        assert_eq!((inner, current_device()), (3, 0));
        assert!(device_count() >= 6);
    }

    #[test]
    fn a_device_thread_stays_one_and_its_children_are_none() {
        let seen = std::thread::spawn(|| {
            device_thread(2);
            (current_device(), std::thread::spawn(current_device).join().unwrap())
        });
        assert_eq!(seen.join().unwrap(), (2, 0));
    }

    #[test]
    fn an_index_beyond_the_last_device_means_the_last() {
        assert_eq!(on_device(MOST_DEVICES + 7, current_device), MOST_DEVICES - 1);
    }
}
