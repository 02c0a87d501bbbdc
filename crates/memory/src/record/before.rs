//! Blocks allocated before a recording's first event.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use oomph_timeline::{Block, Category, Names, TensorLocation, match_blocks};

use super::{Note, Notes, Recording};

/// The address of the unexplained rest: above all addresses of a program, and exact in JSON.
const NOWHERE: u64 = 1 << 50;

/// The notes by event. Adds a block for each note without one, and one block for the rest of the level.
pub(super) fn explain(
    recording: &Recording,
    blocks: &mut Vec<Block>,
    notes: &Notes,
    names: &mut Names,
) -> Vec<TensorLocation> {
    let (stale, current): (Vec<&Note>, Vec<&Note>) =
        notes.tensors.iter().partition(|note| note.next_event < recording.first_event);
    let current = current.into_iter().filter(|note| note.next_event <= recording.end_event);
    let current: Vec<(u32, &Note)> =
        current.map(|note| (recording.events_before(note.next_event), note)).collect();
    let mut tensors: Vec<TensorLocation> =
        current.iter().map(|&(event, note)| note.location(event, names)).collect();
    add_noted(recording, blocks, &current, &tensors);
    tensors.extend(still_true(blocks, stale, names));
    let known: u64 = at_start(blocks).map(|block| block.bytes).sum();
    let rest = recording.in_use_bytes.get().saturating_sub(known);
    if rest > 0 {
        let operation = names.of("before the recording");
        blocks.push(Block { operation, ..Block::new(NOWHERE, rest, 0) });
    }
    tensors
}

fn at_start(blocks: &[Block]) -> impl Iterator<Item = &Block> {
    blocks.iter().filter(|block| block.born == 0)
}

/// Adds blocks for noted tensors that no event explains. Such a tensor is assumed to predate the recording if the level
/// has room for it and nothing was ever allocated at its address. If it was noted after the first event, only parameters
/// and optimizer state are assumed to predate it: a batch may be in host memory, which is not recorded.
fn add_noted(
    recording: &Recording,
    blocks: &mut Vec<Block>,
    notes: &[(u32, &Note)],
    tensors: &[TensorLocation],
) {
    let mut is_explained = vec![false; tensors.len()];
    for (_, index) in match_blocks(blocks, tensors) {
        is_explained[index as usize] = true;
    }
    let taken = Taken::by(blocks);
    let known: u64 = at_start(blocks).map(|block| block.bytes).sum();
    let mut room = recording.in_use_bytes.get().saturating_sub(known);
    let mut added: BTreeMap<u64, u64> = BTreeMap::new();
    let unexplained = notes.iter().zip(is_explained).filter(|(_, is_explained)| !is_explained);
    for (&(event, note), _) in unexplained {
        let Some(bytes) = note.bytes.filter(|_| event == 0 || persists(note)) else { continue };
        let (start, end) = (note.address, note.address.saturating_add(bytes.get()));
        let is_new = added.range(..end).next_back().is_none_or(|(_, &last)| last <= start);
        if bytes.get() <= room && is_new && taken.is_free(start, end) {
            room -= bytes.get();
            added.insert(start, end);
            blocks.push(Block::new(start, bytes.get(), 0));
        }
    }
}

/// Notes older than the first event that seem to be still valid: a block contains the address, and has the noted size
/// or a persistent tensor.
fn still_true(blocks: &[Block], mut stale: Vec<&Note>, names: &mut Names) -> Vec<TensorLocation> {
    let lay: HashMap<u64, u64> = at_start(blocks).map(|block| (block.address, block.bytes)).collect();
    let seems_true = |note: &&Note| {
        let there = lay.get(&note.address);
        there.is_some_and(|&there| note.bytes.map_or(persists(note), |bytes| bytes.get() == there))
    };
    // If several name one block, the first counts.
    stale.sort_by_key(|note| Reverse(note.next_event));
    stale.into_iter().filter(seems_true).map(|note| note.location(0, names)).collect()
}

fn persists(note: &Note) -> bool {
    matches!(note.category, Category::Parameters | Category::OptimizerState)
}

/// Addresses that were ever allocated: starts, each with the highest end so far.
struct Taken(Vec<(u64, u64)>);

impl Taken {
    fn by(blocks: &[Block]) -> Self {
        let mut taken: Vec<(u64, u64)> =
            blocks.iter().map(|block| (block.address, block.address.saturating_add(block.bytes))).collect();
        taken.sort_unstable();
        let mut highest = 0;
        for (_, end) in &mut taken {
            highest = highest.max(*end);
            *end = highest;
        }
        Self(taken)
    }

    /// Whether no block ever lay between two addresses.
    fn is_free(&self, start: u64, end: u64) -> bool {
        let below = self.0.partition_point(|&(from, _)| from < end);
        below.checked_sub(1).is_none_or(|last| self.0[last].1 <= start)
    }
}
