use std::{
    cell::Cell,
    sync::atomic::{
        AtomicUsize,
        Ordering::{Relaxed, SeqCst},
        compiler_fence,
    },
};

/// How many CPU devices a process can tell apart. What is said of one beyond is said of the last.
pub const MOST_DEVICES: usize = 64;

/// One more than the highest device that a thread worked for.
static COUNT: AtomicUsize = AtomicUsize::new(1);

thread_local! {
    // `const` and without a destructor, so that an allocator may read it at any time of a thread's life.
    static CURRENT: Cell<u8> = const { Cell::new(0) };
}

/// Runs `work` with this thread working for the CPU device of that index: what is charged to the device is charged to
/// this one. Threads that `work` starts work for the first device, until they say otherwise.
///
/// ```
/// use oomph_core::{current_device, on_device};
///
/// assert_eq!(current_device(), 0);
/// assert_eq!(on_device(2, current_device), 2);
/// assert_eq!(current_device(), 0);
/// ```
pub fn on_device<R>(index: usize, work: impl FnOnce() -> R) -> R {
    let _restore = Restore(switch(slot(index)));
    work()
}

/// Lets this thread work for the CPU device of that index for the rest of its life.
pub fn device_thread(index: usize) {
    switch(slot(index));
}

/// The CPU device that this thread works for: the first where nobody said another. Allocates nothing.
#[inline]
pub fn current_device() -> usize {
    usize::from(CURRENT.get())
}

/// How many CPU devices there are: one more than the highest that any thread worked for so far.
pub fn device_count() -> usize {
    COUNT.load(Relaxed)
}

/// A device by its index, as a thread notes it.
fn slot(index: usize) -> u8 {
    const { assert!(MOST_DEVICES <= u8::MAX as usize + 1) };
    index.min(MOST_DEVICES - 1) as u8
}

/// Sets the device, and gives the one before. The fences are those of an account, for the same reason: a store that is
/// followed by allocations alone is to stay.
fn switch(device: u8) -> u8 {
    let count = usize::from(device) + 1;
    // The load keeps the line with all threads.
    if count > COUNT.load(Relaxed) {
        COUNT.fetch_max(count, Relaxed);
    }
    compiler_fence(SeqCst);
    let before = CURRENT.replace(device);
    compiler_fence(SeqCst);
    before
}

struct Restore(u8);

impl Drop for Restore {
    fn drop(&mut self) {
        switch(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_works_for_a_device_until_the_work_is_done_even_where_it_panics() {
        let inner = on_device(3, || {
            let failed = std::panic::catch_unwind(|| on_device(5, || panic!("on purpose")));
            assert!(failed.is_err());
            current_device()
        });
        assert_eq!((inner, current_device()), (3, 0));
        assert!(device_count() >= 6);
    }

    #[test]
    fn a_thread_of_a_device_is_so_for_its_life_and_its_children_are_not() {
        let seen = std::thread::spawn(|| {
            device_thread(2);
            (current_device(), std::thread::spawn(current_device).join().unwrap())
        });
        assert_eq!(seen.join().unwrap(), (2, 0));
    }

    #[test]
    fn a_device_beyond_the_last_is_the_last() {
        assert_eq!(on_device(MOST_DEVICES + 7, current_device), MOST_DEVICES - 1);
    }
}
