use std::collections::{BTreeMap, BTreeSet};

use super::{CardFull, Grain, Headroom};

/// `DirectPool`: each allocation has its own memory.
#[derive(Debug)]
pub(super) struct DirectPool {
    /// The memory of each position; a position whose memory was given back has none.
    slices: Vec<Option<Slice>>,
    /// Positions without memory; the last one is used next.
    vacant: Vec<usize>,
    /// The positions of unused memory by size.
    free: BTreeMap<u64, BTreeSet<usize>>,
    /// The sizes of all memory, used or not.
    size_sum: u64,
    /// Bytes of the card for all memory, and for the used part of it.
    charged: u64,
    occupied: u64,
    reclaim_at: Option<u64>,
    grain: Grain,
}

#[derive(Clone, Copy, Debug)]
struct Slice {
    /// Its size with padding.
    bytes: u64,
    is_free: bool,
}

impl DirectPool {
    pub(super) fn new(reclaim_at: Option<u64>, grain: Grain) -> Self {
        Self {
            slices: Vec::new(),
            vacant: Vec::new(),
            free: BTreeMap::new(),
            size_sum: 0,
            charged: 0,
            occupied: 0,
            reclaim_at,
            grain,
        }
    }

    /// Reuses the first unused memory of this size, else reserves new memory.
    pub(super) fn reserve(&mut self, bytes: u64, headroom: Headroom) -> Result<u64, CardFull> {
        let bytes = self.grain.padded(bytes);
        if let Some(position) = self.free.get_mut(&bytes).and_then(BTreeSet::pop_first) {
            self.slices[position] = Some(Slice { bytes, is_free: false });
            self.occupied += self.grain.charged(bytes);
            return Ok(position as u64);
        }
        let before = self.charged;
        if let Some(mark) = self.reclaim_at {
            self.give_back_above(mark.saturating_sub(bytes));
        }
        let given_back = before - self.charged;
        Headroom { left: headroom.left.map(|left| left + given_back), ..headroom }.check(bytes)?;
        let position = self.vacant.pop().unwrap_or_else(|| {
            self.slices.push(None);
            self.slices.len() - 1
        });
        self.slices[position] = Some(Slice { bytes, is_free: false });
        self.size_sum += bytes;
        self.charged += self.grain.charged(bytes);
        self.occupied += self.grain.charged(bytes);
        Ok(position as u64)
    }

    pub(super) fn free(&mut self, position: u64) {
        let position = position as usize;
        if let Some(slice) = &mut self.slices[position] {
            slice.is_free = true;
            self.occupied -= self.grain.charged(slice.bytes);
            self.free.entry(slice.bytes).or_default().insert(position);
        }
    }

    pub(super) fn clean_up(&mut self) {
        self.give_back_above(0);
    }

    /// Gives back unused memory in the order of positions while more than `mark` bytes are reserved.
    fn give_back_above(&mut self, mark: u64) {
        for position in 0..self.slices.len() {
            if self.size_sum <= mark {
                break;
            }
            let Some(slice) = self.slices[position].take_if(|slice| slice.is_free) else { continue };
            self.size_sum -= slice.bytes;
            self.charged -= self.grain.charged(slice.bytes);
            self.free.entry(slice.bytes).or_default().remove(&position);
            self.vacant.push(position);
        }
    }

    pub(super) fn reserved(&self) -> u64 {
        self.size_sum
    }

    /// The bytes of the card for it.
    pub(super) fn charged(&self) -> u64 {
        self.charged
    }

    /// The bytes of the card without those of unused memory.
    pub(super) fn occupied(&self) -> u64 {
        self.occupied
    }
}
