//! What was there before a recording's first event.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
};

use oomph_core::Phase;

use super::{Note, Notes, Recording, draft::block};
use crate::timeline::{Category, Held, Name, Names, RawBlock, match_blocks};

/// Where the rest of the level is said to lie: above all addresses that a program can have, and exact in JSON.
const NOWHERE: u64 = 1 << 50;

/// The notes by event. Adds the blocks that only notes tell of, and one for the rest of the level.
pub(super) fn explain(
    recording: &Recording,
    blocks: &mut Vec<RawBlock>,
    notes: &Notes,
    names: &mut Names,
) -> Vec<Held> {
    let (stale, current): (Vec<&Note>, Vec<&Note>) =
        notes.held.iter().partition(|note| note.next_event < recording.first_event);
    let current = current.into_iter().filter(|note| note.next_event <= recording.end_event);
    let current: Vec<(u32, &Note)> =
        current.map(|note| (recording.events_before(note.next_event), note)).collect();
    let mut held: Vec<Held> = current.iter().map(|&(event, note)| note.held(event, names)).collect();
    add_noted(recording, blocks, &current, &held);
    held.extend(still_true(blocks, stale, names));
    let known: u64 = at_start(blocks).map(|block| block.bytes).sum();
    let rest = recording.in_use_bytes.get().saturating_sub(known);
    if rest > 0 {
        let operation = names.of("before the recording");
        blocks.push(RawBlock { operation, ..block(NOWHERE, rest, 0, Phase::Idle, Name::NONE) });
    }
    held
}

fn at_start(blocks: &[RawBlock]) -> impl Iterator<Item = &RawBlock> {
    blocks.iter().filter(|block| block.born == 0)
}

/// Blocks for notes of what no event tells of. They are taken to have been there before where that can be: as long as
/// the level has room for them, and nothing was ever allocated in their place. Of what is noted only later the same is
/// believed of what persists; a batch may just as well lie in the host's memory, which is not recorded.
fn add_noted(recording: &Recording, blocks: &mut Vec<RawBlock>, notes: &[(u32, &Note)], held: &[Held]) {
    let mut is_explained = vec![false; held.len()];
    for (_, index) in match_blocks(blocks, held) {
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
            blocks.push(block(start, bytes.get(), 0, Phase::Idle, Name::NONE));
        }
    }
}

/// Notes of before the first event that seem to be true still: of what then lay there, and was as large or persists.
fn still_true(blocks: &[RawBlock], mut stale: Vec<&Note>, names: &mut Names) -> Vec<Held> {
    let lay: HashMap<u64, u64> = at_start(blocks).map(|block| (block.address, block.bytes)).collect();
    let seems_true = |note: &&Note| {
        let there = lay.get(&note.address);
        there.is_some_and(|&there| note.bytes.map_or(persists(note), |bytes| bytes.get() == there))
    };
    // Of several of one block the first counts.
    stale.sort_by_key(|note| Reverse(note.next_event));
    stale.into_iter().filter(seems_true).map(|note| note.held(0, names)).collect()
}

fn persists(note: &Note) -> bool {
    matches!(note.category, Category::Parameters | Category::OptimizerState)
}

/// Where blocks lay at any time: starts, each with the highest end so far.
struct Taken(Vec<(u64, u64)>);

impl Taken {
    fn by(blocks: &[RawBlock]) -> Self {
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

    /// Whether nothing ever lay between two addresses.
    fn is_free(&self, start: u64, end: u64) -> bool {
        let below = self.0.partition_point(|&(from, _)| from < end);
        below.checked_sub(1).is_none_or(|last| self.0[last].1 <= start)
    }
}
