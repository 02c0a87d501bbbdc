//! The memory of a card: host memory that is committed when it is touched.

use std::{
    collections::BTreeMap,
    ptr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use crate::failure::Failure;

/// What the driver keeps of a card for a process's context. An assumption: real drivers take 250 to 550 MiB.
pub(crate) const CONTEXT_BYTES: u64 = 320 << 20;

/// Large allocations are whole pages of this size, as the driver maps them; small ones are multiples of 512 bytes.
const PAGE: u64 = 2 << 20;
const SLICE: u64 = 512;

/// The allocations of a card.
#[derive(Debug)]
pub(crate) struct Memory {
    total_bytes: u64,
    state: Mutex<State>,
}

/// The allocations by their address.
#[derive(Debug, Default)]
struct State {
    used_bytes: u64,
    peak_bytes: u64,
    asked_bytes: u64,
    peak_asked_bytes: u64,
    allocations: BTreeMap<u64, Allocation>,
}

#[derive(Clone, Copy, Debug)]
struct Allocation {
    /// Bytes that the card is charged for.
    charged: u64,
    /// Bytes that were asked for.
    asked: u64,
}

impl Memory {
    /// An empty card of that size.
    pub(crate) fn new(total_bytes: u64) -> Self {
        Self { total_bytes, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that are free, and all.
    pub(crate) fn info(&self) -> (u64, u64) {
        let taken = CONTEXT_BYTES + self.state().used_bytes;
        (self.total_bytes.saturating_sub(taken), self.total_bytes)
    }

    /// Bytes allocated, and the most of them since the process began.
    pub(crate) fn used_and_peak(&self) -> (u64, u64) {
        let state = self.state();
        (state.used_bytes, state.peak_bytes)
    }

    /// The most bytes that were asked for at once: without what fills up the pages.
    pub(crate) fn peak_asked(&self) -> u64 {
        self.state().peak_asked_bytes
    }

    /// Allocates zeros, up to `limit_bytes` in all beside the card's own limit. Returns their address.
    pub(crate) fn allocate(&self, bytes: u64, limit_bytes: Option<u64>) -> Result<u64, Failure> {
        if bytes == 0 {
            return Err(Failure::InvalidValue);
        }
        let charged = bytes.next_multiple_of(if bytes >= PAGE { PAGE } else { SLICE });
        let mut state = self.state();
        let used = state.used_bytes.saturating_add(charged);
        let limit = self.total_bytes.saturating_sub(CONTEXT_BYTES).min(limit_bytes.unwrap_or(u64::MAX));
        if used > limit {
            return Err(Failure::OutOfMemory);
        }
        let address = map(charged).ok_or(Failure::OutOfMemory)?;
        state.used_bytes = used;
        state.peak_bytes = state.peak_bytes.max(used);
        state.asked_bytes += bytes;
        state.peak_asked_bytes = state.peak_asked_bytes.max(state.asked_bytes);
        state.allocations.insert(address, Allocation { charged, asked: bytes });
        Ok(address)
    }

    /// Frees an allocation. Returns its bytes.
    pub(crate) fn free(&self, address: u64) -> Result<u64, Failure> {
        let mut state = self.state();
        let Allocation { charged: bytes, asked } =
            state.allocations.remove(&address).ok_or(Failure::InvalidValue)?;
        state.used_bytes -= bytes;
        state.asked_bytes -= asked;
        unmap(address, bytes);
        Ok(bytes)
    }

    /// Whether all these bytes are of one allocation.
    pub(crate) fn contains(&self, address: u64, bytes: u64) -> bool {
        let state = self.state();
        let Some((start, allocation)) = state.allocations.range(..=address).next_back() else { return false };
        address.checked_add(bytes).is_some_and(|end| end <= start + allocation.charged)
    }

    /// Bytes from an address to the end of what was asked for with its allocation.
    pub(crate) fn bytes_from(&self, address: u64) -> Option<u64> {
        let state = self.state();
        let (start, allocation) = state.allocations.range(..=address).next_back()?;
        (start + allocation.asked).checked_sub(address).filter(|bytes| *bytes > 0)
    }
}

impl oomph_ptx::GlobalMemory for Memory {
    fn allocation(&self, address: u64) -> Option<(u64, u64)> {
        let state = self.state();
        let (start, allocation) = state.allocations.range(..=address).next_back()?;
        let end = start + allocation.charged;
        (address < end).then_some((*start, end))
    }
}

/// Zeros that are committed when touched, however large.
fn map(bytes: u64) -> Option<u64> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new anonymous mapping overlaps nothing.
    let address = unsafe {
        libc::mmap(ptr::null_mut(), bytes as usize, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
    };
    (address != libc::MAP_FAILED).then_some(address as u64)
}

fn unmap(address: u64, bytes: u64) {
    // SAFETY: `map` made this mapping, and its owner has just removed it from its list.
    unsafe { libc::munmap(address as *mut libc::c_void, bytes as usize) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_card_is_full_when_its_pages_are() {
        let memory = Memory::new(CONTEXT_BYTES + 10 * MIB);
        let first = memory.allocate(3 * MIB, None).unwrap();
        assert_eq!(memory.info(), (6 * MIB, CONTEXT_BYTES + 10 * MIB));
        assert_eq!(memory.allocate(7 * MIB, None), Err(Failure::OutOfMemory));
        let second = memory.allocate(6 * MIB, None).unwrap();
        assert!(memory.contains(second, 6 * MIB) && !memory.contains(second, 6 * MIB + 1));
        assert_eq!(
            [memory.bytes_from(first + MIB), memory.bytes_from(first + 3 * MIB)],
            [Some(2 * MIB), None]
        );
        assert_eq!(memory.free(first), Ok(4 * MIB));
        assert_eq!(memory.free(first), Err(Failure::InvalidValue));
        assert_eq!(memory.used_and_peak(), (6 * MIB, 10 * MIB));
    }

    #[test]
    fn memory_larger_than_the_machine_is_zeros_and_can_be_written() {
        let memory = Memory::new(CONTEXT_BYTES + (200 << 30));
        let address = memory.allocate(150 << 30, None).unwrap();
        let last = (address + (150 << 30) - 1) as *mut u8;
        // SAFETY: the last byte of the allocation.
        unsafe {
            assert_eq!(last.read(), 0);
            last.write(7);
            assert_eq!(last.read(), 7);
        }
        memory.free(address).unwrap();
    }

    #[test]
    fn a_fault_lowers_the_limit() {
        let memory = Memory::new(CONTEXT_BYTES + 100 * MIB);
        assert_eq!(memory.allocate(60 * MIB, Some(50 * MIB)), Err(Failure::OutOfMemory));
        assert!(memory.allocate(50 * MIB, Some(50 * MIB)).is_ok());
        assert_eq!(memory.allocate(0, None), Err(Failure::InvalidValue));
    }
}
