use std::{
    cell::Cell,
    sync::atomic::{
        AtomicUsize,
        Ordering::{Relaxed, SeqCst},
        compiler_fence,
    },
    thread::LocalKey,
};

/// The account an allocation is charged to. A free goes to the account of its allocation, whichever thread frees.
///
/// The meter of `oomph-memory` reads the account; any crate may set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// Data sets, decoded images, the program itself. The initial account of a thread.
    Host,
    /// Tensors and kernel workspaces of the CPU device.
    Device,
}

thread_local! {
    // `const` and without a destructor: an allocator may read them at any time of a thread's life.
    static ACCOUNT: Cell<Account> = const { Cell::new(Account::Host) };
    static DEVICE: Cell<u8> = const { Cell::new(0) };
}

/// Runs `work` with this thread's allocations charged to `account`.
pub fn charge<R>(account: Account, work: impl FnOnce() -> R) -> R {
    with(&ACCOUNT, account, work)
}

/// Charges this thread's allocations to `account` for the rest of its life.
pub fn charge_thread(account: Account) {
    set(&ACCOUNT, account);
}

/// The account of this thread's allocations. Allocates nothing.
#[inline]
pub fn charged_account() -> Account {
    ACCOUNT.get()
}

/// The most CPU devices that a process can distinguish. Higher indices count as the last device.
pub const MOST_DEVICES: usize = 64;

/// One more than the highest device that a thread has worked for.
static COUNT: AtomicUsize = AtomicUsize::new(1);

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
    with(&DEVICE, counted(index), work)
}

/// Lets this thread work for the CPU device of that index for the rest of its life.
pub fn device_thread(index: usize) {
    set(&DEVICE, counted(index));
}

/// The CPU device that this thread works for; the first by default. Allocates nothing.
#[inline]
pub fn current_device() -> usize {
    usize::from(DEVICE.get())
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

/// Sets a thread-local value and returns the previous one.
///
/// LLVM assumes that an allocation reads no memory of the program. Without the fences it drops a store that is followed
/// only by allocations and another store.
fn set<T: Copy>(current: &'static LocalKey<Cell<T>>, value: T) -> T {
    compiler_fence(SeqCst);
    let before = current.replace(value);
    compiler_fence(SeqCst);
    before
}

/// Runs `work` with this value, and restores the previous one, even if `work` panics.
fn with<T: Copy + 'static, R>(current: &'static LocalKey<Cell<T>>, value: T, work: impl FnOnce() -> R) -> R {
    struct Restore<T: Copy + 'static>(&'static LocalKey<Cell<T>>, T);
    impl<T: Copy + 'static> Drop for Restore<T> {
        fn drop(&mut self) {
            set(self.0, self.1);
        }
    }
    let _restore = Restore(current, set(current, value));
    work()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_charged_until_the_work_ends_or_panics() {
        let inner = charge(Account::Device, || {
            let failed = std::panic::catch_unwind(|| charge(Account::Host, || panic!("on purpose")));
            assert!(failed.is_err());
            charged_account()
        });
        assert_eq!((inner, charged_account()), (Account::Device, Account::Host));
    }

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
