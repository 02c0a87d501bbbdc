//! A card of the simulated machine.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};

use crate::{
    card::Card,
    counters::{Counters, count},
    failure::{Failure, SUCCESS},
    faults::Faults,
    memory::Memory,
};

/// A card with its memory, its counts and its faults.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) card: Card,
    pub(crate) memory: Memory,
    pub(crate) counters: Counters,
    pub(crate) faults: Faults,
    /// Whether the process has a context on the card, which takes memory of its own.
    pub(crate) has_context: AtomicBool,
    /// What every call answers once the context has ended.
    ended: AtomicI32,
}

impl Device {
    /// A fresh card.
    pub(crate) fn new(card: Card, faults: Faults) -> Self {
        let memory = Memory::new(card.memory_bytes);
        Self {
            card,
            memory,
            counters: Counters::default(),
            faults,
            has_context: AtomicBool::new(false),
            ended: AtomicI32::new(SUCCESS),
        }
    }

    /// Fails if the context has ended: an error of a launch stays, as the driver documents.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.ended.load(Relaxed) {
            SUCCESS => Ok(()),
            number if number == Failure::LaunchFailed as i32 => Err(Failure::LaunchFailed),
            number if number == Failure::IllegalAddress as i32 => Err(Failure::IllegalAddress),
            _ => Err(Failure::Unknown),
        }
    }

    /// Allocates, unless a fault is due.
    pub(crate) fn allocate(&self, bytes: u64) -> Result<u64, Failure> {
        self.check()?;
        if self.faults.alloc_fails_at == Some(count(&self.counters.allocations)) {
            return Err(Failure::OutOfMemory);
        }
        self.memory.allocate(bytes, self.faults.oom_above)
    }

    /// Ends the context: as on a card, the launch that failed has already succeeded, and later calls tell.
    pub(crate) fn end(&self, failure: Failure) {
        self.ended.store(failure as i32, Relaxed);
    }

    /// Counts a launch, and ends the context if a fault is due.
    pub(crate) fn launch(&self, kernel: &str) {
        let launches = Some(self.counters.launch(kernel));
        if launches == self.faults.launch_fails_at {
            self.end(Failure::LaunchFailed);
        }
        if launches == self.faults.lost_at {
            self.end(Failure::Unknown);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::card::find;

    use super::*;

    fn device(faults: Faults) -> Device {
        Device::new(find("T4").unwrap().clone(), faults)
    }

    #[test]
    fn the_chosen_allocation_fails_once() {
        let device = device(Faults { alloc_fails_at: Some(2), ..Faults::default() });
        assert!(device.allocate(512).is_ok());
        assert_eq!(device.allocate(512), Err(Failure::OutOfMemory));
        assert!(device.allocate(512).is_ok());
    }

    #[test]
    fn a_launch_that_fails_ends_the_context() {
        let device = device(Faults { launch_fails_at: Some(2), ..Faults::default() });
        device.launch("first");
        assert_eq!(device.check(), Ok(()));
        device.launch("second");
        assert_eq!(device.check(), Err(Failure::LaunchFailed));
        assert_eq!(device.allocate(512), Err(Failure::LaunchFailed));
    }

    #[test]
    fn a_lost_card_answers_nothing_else() {
        let device = device(Faults { lost_at: Some(1), ..Faults::default() });
        device.launch("only");
        assert_eq!(device.check(), Err(Failure::Unknown));
        assert_eq!(device.counters.kernels()["only"].launches, 1);
    }
}
