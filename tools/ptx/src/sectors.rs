//! Sectors of global memory that a launch touches: 32 bytes, the least that a device reads or writes.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

/// Bytes of a sector.
const SECTOR: u64 = 32;
/// Sectors of a page, of which a map has one entry.
const PAGE: u64 = 128;

/// The sectors that launches read and wrote. Each counts once, however often it was touched.
#[derive(Debug, Default)]
pub struct Sectors {
    /// By page: a bit for each sector that was read, and for each that was written.
    pages: Mutex<HashMap<u64, Touched>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Touched {
    read: u128,
    written: u128,
}

/// How memory was touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Touch {
    Read,
    Write,
    /// Read and written.
    Update,
}

impl Sectors {
    /// Bytes of all sectors that were read.
    pub fn read_bytes(&self) -> u64 {
        self.bytes(|touched| touched.read)
    }

    /// Bytes of all sectors that were written.
    pub fn written_bytes(&self) -> u64 {
        self.bytes(|touched| touched.written)
    }

    fn bytes(&self, of: impl Fn(&Touched) -> u128) -> u64 {
        let pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        pages.values().map(|touched| u64::from(of(touched).count_ones()) * SECTOR).sum()
    }

    /// Adds accesses of `bytes` at some addresses.
    pub(crate) fn touch(&self, addresses: impl Iterator<Item = u64>, bytes: u64, touch: Touch) {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        for address in addresses {
            for sector in address / SECTOR..(address + bytes).div_ceil(SECTOR) {
                let touched = pages.entry(sector / PAGE).or_default();
                let bit = 1_u128 << (sector % PAGE);
                touched.read |= if touch == Touch::Write { 0 } else { bit };
                touched.written |= if touch == Touch::Read { 0 } else { bit };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_counts_once() {
        let sectors = Sectors::default();
        sectors.touch([64, 68, 92, 4096 * 7].into_iter(), 4, Touch::Read);
        sectors.touch([64].into_iter(), 4, Touch::Update);
        assert_eq!((sectors.read_bytes(), sectors.written_bytes()), (64, 32));
    }

    #[test]
    fn an_access_across_a_boundary_touches_two() {
        let sectors = Sectors::default();
        sectors.touch([4096 - 8].into_iter(), 16, Touch::Write);
        assert_eq!((sectors.read_bytes(), sectors.written_bytes()), (0, 64));
    }
}
