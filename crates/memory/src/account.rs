use std::cell::Cell;

/// Whom an allocation is charged to. Frees go to the account of the allocation, whichever thread frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// Data sets, decoded images, the program itself. What a thread starts with.
    Host,
    /// Tensors and kernel workspaces of the CPU device.
    Device,
}

thread_local! {
    // `const` and without a destructor, so that the allocator may read it at any time of a thread's life.
    static CURRENT: Cell<Account> = const { Cell::new(Account::Host) };
}

/// Runs `work` with this thread's allocations charged to `account`.
pub fn charge<R>(account: Account, work: impl FnOnce() -> R) -> R {
    let _restore = Restore(CURRENT.replace(account));
    work()
}

/// Charges this thread's allocations to `account` for the rest of its life.
pub(crate) fn charge_thread(account: Account) {
    CURRENT.set(account);
}

pub(crate) fn current() -> Account {
    CURRENT.get()
}

struct Restore(Account);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}
