use std::{
    cmp::Ordering,
    collections::{BTreeMap, btree_map::Entry},
};

use crate::{block::Block, draft::TensorLocation};

/// Finds the block of each tensor: pairs of indices `(block, tensor)`, ordered by block, then by event.
pub fn match_blocks(blocks: &[Block], tensors: &[TensorLocation]) -> Vec<(u32, u32)> {
    let mut order: Vec<u32> = (0..tensors.len() as u32).collect();
    order.sort_by_key(|&index| tensors[index as usize].event);
    let mut alive = Alive::new(blocks);
    let mut found: Vec<(u32, u32)> = Vec::with_capacity(tensors.len());
    for index in order {
        let tensor = &tensors[index as usize];
        alive.advance(tensor.event);
        found.extend(alive.at(tensor.address).map(|block| (block, index)));
    }
    // The sort is stable: the order by event stays.
    found.sort_by_key(|&(block, _)| block);
    found
}

/// The blocks alive after an event that only moves forward.
struct Alive<'a> {
    blocks: &'a [Block],
    births: std::iter::Peekable<std::vec::IntoIter<u32>>,
    deaths: std::iter::Peekable<std::vec::IntoIter<u32>>,
    by_address: BTreeMap<u64, u32>,
}

impl<'a> Alive<'a> {
    fn new(blocks: &'a [Block]) -> Self {
        // A block born and freed by the same event is never alive after one.
        let lives = |&index: &u32| blocks[index as usize].died != Some(blocks[index as usize].born);
        let mut births: Vec<u32> = (0..blocks.len() as u32).filter(lives).collect();
        let mut deaths: Vec<u32> =
            births.iter().copied().filter(|&index| blocks[index as usize].died.is_some()).collect();
        births.sort_by_key(|&index| blocks[index as usize].born);
        deaths.sort_by_key(|&index| blocks[index as usize].died);
        Self {
            blocks,
            births: births.into_iter().peekable(),
            deaths: deaths.into_iter().peekable(),
            by_address: BTreeMap::new(),
        }
    }

    /// Moves to the moment after `event`.
    fn advance(&mut self, event: u32) {
        loop {
            let born = self.births.peek().map(|&index| self.blocks[index as usize].born);
            let died = self.deaths.peek().and_then(|&index| self.blocks[index as usize].died);
            // Deaths first: a block may reuse the address of one that the same event frees.
            let is_death = match (born, died) {
                (Some(born), Some(died)) => born.cmp(&died) != Ordering::Less,
                (None, Some(_)) => true,
                (_, None) => false,
            };
            let (at, next) = if is_death { (died, &mut self.deaths) } else { (born, &mut self.births) };
            let (Some(index), true) = (next.peek().copied(), at.is_some_and(|at| at <= event)) else {
                return;
            };
            next.next();
            let address = self.blocks[index as usize].address;
            match (self.by_address.entry(address), is_death) {
                (Entry::Occupied(entry), true) if *entry.get() == index => drop(entry.remove()),
                (_, true) => {}
                (Entry::Occupied(mut entry), false) => drop(entry.insert(index)),
                (Entry::Vacant(entry), false) => drop(entry.insert(index)),
            }
        }
    }

    /// The block that contains an address: the one that starts there, or else the nearest below.
    fn at(&self, address: u64) -> Option<u32> {
        let (&start, &index) = self.by_address.range(..=address).next_back()?;
        (address - start < self.blocks[index as usize].bytes).then_some(index)
    }
}
