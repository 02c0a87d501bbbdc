//! Thread-local values that the allocator reads.

use std::{
    cell::Cell,
    sync::atomic::{Ordering::SeqCst, compiler_fence},
    thread::LocalKey,
};

/// Sets the value and returns the previous one.
///
/// LLVM assumes that an allocation reads no memory of the program. Without the fences it drops a store that is followed
/// only by allocations and another store.
pub(crate) fn set<T: Copy>(current: &'static LocalKey<Cell<T>>, value: T) -> T {
    compiler_fence(SeqCst);
    let before = current.replace(value);
    compiler_fence(SeqCst);
    before
}

/// Runs `work` with this value, and restores the previous one, even if `work` panics.
pub(crate) fn with<T: Copy + 'static, R>(
    current: &'static LocalKey<Cell<T>>,
    value: T,
    work: impl FnOnce() -> R,
) -> R {
    struct Restore<T: Copy + 'static>(&'static LocalKey<Cell<T>>, T);
    impl<T: Copy + 'static> Drop for Restore<T> {
        fn drop(&mut self) {
            set(self.0, self.1);
        }
    }
    let _restore = Restore(current, set(current, value));
    work()
}
