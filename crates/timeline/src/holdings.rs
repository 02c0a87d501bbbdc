use std::{collections::BTreeMap, iter::Peekable, vec::IntoIter};

use crate::{assemble::TensorLocation, block::Block};

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
    /// The event, whether it is a birth, and the block. Of one event deaths come first: a block may reuse the address of
    /// one that the same event frees.
    changes: Peekable<IntoIter<(u32, bool, u32)>>,
    by_address: BTreeMap<u64, u32>,
}

impl<'a> Alive<'a> {
    fn new(blocks: &'a [Block]) -> Self {
        // A block born and freed by the same event is never alive after one.
        let lives = (0..).zip(blocks).filter(|(_, block)| block.died != Some(block.born));
        let mut changes: Vec<(u32, bool, u32)> = lives
            .flat_map(|(index, block)| {
                let death = block.died.map(|died| (died, false, index));
                death.into_iter().chain([(block.born, true, index)])
            })
            .collect();
        changes.sort_unstable();
        Self { blocks, changes: changes.into_iter().peekable(), by_address: BTreeMap::new() }
    }

    /// Moves to the moment after `event`.
    fn advance(&mut self, event: u32) {
        while let Some((_, is_birth, index)) = self.changes.next_if(|(at, ..)| *at <= event) {
            let address = self.blocks[index as usize].address;
            if is_birth {
                self.by_address.insert(address, index);
            } else if self.by_address.get(&address) == Some(&index) {
                self.by_address.remove(&address);
            }
        }
    }

    /// The block that contains an address: the one that starts there, or else the nearest below.
    fn at(&self, address: u64) -> Option<u32> {
        let (&start, &index) = self.by_address.range(..=address).next_back()?;
        (address - start < self.blocks[index as usize].bytes).then_some(index)
    }
}
