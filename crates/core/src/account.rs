use std::cell::Cell;

use crate::thread_value;

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
    // `const` and without a destructor: an allocator may read it at any time of a thread's life.
    static CURRENT: Cell<Account> = const { Cell::new(Account::Host) };
}

/// Runs `work` with this thread's allocations charged to `account`.
pub fn charge<R>(account: Account, work: impl FnOnce() -> R) -> R {
    thread_value::with(&CURRENT, account, work)
}

/// Charges this thread's allocations to `account` for the rest of its life.
pub fn charge_thread(account: Account) {
    thread_value::set(&CURRENT, account);
}

/// The account of this thread's allocations. Allocates nothing.
#[inline]
pub fn charged_account() -> Account {
    CURRENT.get()
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
}
