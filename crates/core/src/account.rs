use std::{
    cell::Cell,
    sync::atomic::{Ordering::SeqCst, compiler_fence},
};

/// Whom an allocation is charged to. Frees go to the account of the allocation, whichever thread frees.
///
/// The meter of `oomph-memory` asks for it; everybody may say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    /// Data sets, decoded images, the program itself. What a thread starts with.
    Host,
    /// Tensors and kernel workspaces of the CPU device.
    Device,
}

thread_local! {
    // `const` and without a destructor, so that an allocator may read it at any time of a thread's life.
    static CURRENT: Cell<Account> = const { Cell::new(Account::Host) };
}

/// Runs `work` with this thread's allocations charged to `account`.
pub fn charge<R>(account: Account, work: impl FnOnce() -> R) -> R {
    let _restore = Restore(switch(account));
    work()
}

/// Charges this thread's allocations to `account` for the rest of its life.
pub fn charge_thread(account: Account) {
    switch(account);
}

/// Whom this thread's allocations are charged to now. Allocates nothing.
#[inline]
pub fn charged_account() -> Account {
    CURRENT.get()
}

/// Sets the account, and gives the one before.
///
/// LLVM believes that an allocation reads nothing that the program can see. Without fences it drops a store that is
/// followed by allocations alone and another store.
fn switch(account: Account) -> Account {
    compiler_fence(SeqCst);
    let before = CURRENT.replace(account);
    compiler_fence(SeqCst);
    before
}

struct Restore(Account);

impl Drop for Restore {
    fn drop(&mut self) {
        switch(self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_charged_until_the_work_is_done_even_where_it_panics() {
        let inner = charge(Account::Device, || {
            let failed = std::panic::catch_unwind(|| charge(Account::Host, || panic!("on purpose")));
            assert!(failed.is_err());
            charged_account()
        });
        assert_eq!((inner, charged_account()), (Account::Device, Account::Host));
    }
}
