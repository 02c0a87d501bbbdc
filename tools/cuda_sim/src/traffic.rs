//! How many bytes a launch moves: those of the buffers that its kernel reads, and of those that it writes.
//!
//! A buffer counts from the pointer that the kernel gets to the end of its allocation, once for each launch, however often
//! the kernel touches it. That is the least that a card moves if no cache keeps a buffer from one launch to the next,
//! and as much as is moved if the kernel touches all of the buffer. oomph gives each tensor an allocation of its own
//! (`memory.pool = "direct"`); with other pools the ends of allocations say nothing.

use std::{
    collections::HashMap,
    ops::{Add, AddAssign},
};

use oomph_ptx::KernelAccesses;
use serde::{Deserialize, Serialize};

use crate::memory::Memory;

/// Launches of a kernel, with what they moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// How often it was launched.
    pub launches: u64,
    /// Bytes of the buffers that it reads.
    pub buffer_bytes_read: u64,
    /// Bytes of the buffers that it writes.
    pub buffer_bytes_written: u64,
    /// Bytes of the sectors that it read, where sectors are recorded.
    pub sector_bytes_read: u64,
    /// Bytes of the sectors that it wrote, where sectors are recorded.
    pub sector_bytes_written: u64,
}

impl Add for Traffic {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            launches: self.launches + other.launches,
            buffer_bytes_read: self.buffer_bytes_read + other.buffer_bytes_read,
            buffer_bytes_written: self.buffer_bytes_written + other.buffer_bytes_written,
            sector_bytes_read: self.sector_bytes_read + other.sector_bytes_read,
            sector_bytes_written: self.sector_bytes_written + other.sector_bytes_written,
        }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// The buffers' bytes of a launch. `pointers` has the value of each parameter that is used as a pointer.
pub(crate) fn of_launch(memory: &Memory, accesses: &KernelAccesses, pointers: &[Option<u64>]) -> Traffic {
    // A buffer that two parameters point to is moved once.
    let mut buffers: HashMap<u64, (u64, bool, bool)> = HashMap::new();
    for (access, pointer) in accesses.parameters.iter().zip(pointers) {
        let Some((address, bytes)) = pointer.and_then(|address| Some((address, memory.bytes_from(address)?)))
        else {
            continue;
        };
        let (_, is_read, is_written) = buffers.entry(address).or_insert((bytes, false, false));
        *is_read |= access.is_read;
        *is_written |= access.is_written;
    }
    let mut traffic = Traffic::default();
    for (bytes, is_read, is_written) in buffers.into_values() {
        traffic.buffer_bytes_read += if is_read { bytes } else { 0 };
        traffic.buffer_bytes_written += if is_written { bytes } else { 0 };
    }
    traffic
}

#[cfg(test)]
mod tests {
    use oomph_ptx::Access;

    use super::*;

    fn accesses(parameters: &[(bool, bool)]) -> KernelAccesses {
        let access = |&(is_read, is_written): &(bool, bool)| Access { is_read, is_written };
        KernelAccesses { name: "k".into(), parameters: parameters.iter().map(access).collect() }
    }

    #[test]
    fn buffers_count_to_the_end_of_their_allocation() {
        let memory = Memory::new(1 << 30);
        let [one, two] = [3 << 20, 1_000].map(|bytes| memory.allocate(bytes, None).unwrap());
        let accesses = accesses(&[(true, false), (true, true), (true, true), (false, false)]);
        let traffic = of_launch(&memory, &accesses, &[Some(one + 1_024), Some(two), None, Some(one)]);
        assert_eq!(traffic.buffer_bytes_read, (3 << 20) - 1_024 + 1_000);
        assert_eq!(traffic.buffer_bytes_written, 1_000);
    }

    #[test]
    fn a_buffer_that_is_given_twice_counts_once() {
        let memory = Memory::new(1 << 30);
        let address = memory.allocate(4_096, None).unwrap();
        let traffic =
            of_launch(&memory, &accesses(&[(true, false), (true, true)]), &[Some(address), Some(address)]);
        assert_eq!((traffic.buffer_bytes_read, traffic.buffer_bytes_written), (4_096, 4_096));
    }

    #[test]
    fn numbers_that_are_no_addresses_do_not_count() {
        let traffic = of_launch(&Memory::new(1 << 30), &accesses(&[(true, true)]), &[Some(640)]);
        assert_eq!(traffic, Traffic::default());
    }
}
