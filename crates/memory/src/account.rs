//! The owner of an allocation. `oomph-core` defines the accounts, so model and trainer need no meter to set them.

use oomph_core::{MOST_DEVICES, current_device};

pub use oomph_core::{Account, charge};
pub(crate) use oomph_core::{charge_thread, charged_account};

/// The owner of an allocation, as a word of its header: 0 is the host, 1 the first CPU device, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner(u64);

impl Owner {
    pub(crate) const HOST: Self = Self(0);

    /// The owner of this thread's allocations.
    #[inline]
    pub(crate) fn current() -> Self {
        match charged_account() {
            Account::Host => Self::HOST,
            Account::Device => Self(current_device() as u64 + 1),
        }
    }

    /// The CPU device; `None` for the host.
    #[inline]
    pub(crate) fn device(self) -> Option<usize> {
        let device = self.0.wrapping_sub(1);
        (device < MOST_DEVICES as u64).then_some(device as usize)
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    pub(crate) fn from_word(word: u64) -> Self {
        Self(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oomph_core::on_device;

    #[test]
    fn an_allocation_is_the_hosts_or_of_the_device_that_the_thread_works_for() {
        let owner = |device, account| on_device(device, || charge(account, Owner::current));
        assert_eq!(owner(3, Account::Host), Owner::HOST);
        assert_eq!(Owner::HOST.device(), None);
        for device in [0, 1, MOST_DEVICES - 1] {
            let owner = owner(device, Account::Device);
            assert_eq!((owner.device(), Owner::from_word(owner.word())), (Some(device), owner));
        }
    }
}
