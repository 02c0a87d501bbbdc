//! The addresses of a snapshot's blocks: segments of address space, with blocks that never overlap.

use std::collections::{BTreeMap, BTreeSet};

use crate::timeline::{Origin, Timeline};

/// The allocation or the free of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Action {
    pub(super) event: u32,
    /// The block's index.
    pub(super) block: usize,
    /// Whether it is a free.
    pub(super) is_free: bool,
}

/// All actions in order. At each event, frees come before allocations. Blocks of 0 bytes are left out.
pub(super) fn actions(timeline: &Timeline) -> Vec<Action> {
    let events = timeline.times.len() as u32;
    let placed = timeline.blocks.iter().enumerate().filter(|(_, it)| it.bytes > 0 && it.born < events);
    let mut keyed: Vec<_> = placed
        .flat_map(|(block, it)| {
            let birth = Some((it.born, 1, block, false));
            // A block freed by the event that allocates it must be allocated first.
            let death = it.died.filter(|&died| died < events).map(|died| match died > it.born {
                true => (died, 0, block, true),
                false => (it.born, 1, block, true),
            });
            birth.into_iter().chain(death)
        })
        .collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(event, _, block, is_free)| Action { event, block, is_free }).collect()
}

/// A range of address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) address: u64,
    pub(super) bytes: u64,
}

/// An address for each block, and the segments that hold them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Placement {
    pub(super) addresses: Vec<u64>,
    pub(super) segments: Vec<Segment>,
}

/// Viewers compute with addresses as 64-bit floats.
const HIGHEST_ADDRESS: u64 = 1 << 53;
/// Ranges with a smaller gap between them are one segment.
const LARGEST_GAP_BYTES: u64 = 2 << 20;
/// The first address of a plan; 0 would mean none.
const FIRST_ADDRESS: u64 = 1 << 32;

impl Placement {
    /// The measured addresses. A plan has none: its blocks are placed by best fit, so the gaps are no prediction.
    pub(super) fn new(timeline: &Timeline, actions: &[Action]) -> Self {
        let is_real = timeline.origin == Origin::Measured && is_possible(timeline, actions);
        if is_real { as_measured(timeline, actions) } else { best_fit(timeline, actions) }
    }
}

/// Whether live blocks never overlap and viewers can represent all addresses.
fn is_possible(timeline: &Timeline, actions: &[Action]) -> bool {
    let mut live: BTreeMap<u64, u64> = BTreeMap::new();
    actions.iter().all(|action| {
        let block = &timeline.blocks[action.block];
        if action.is_free {
            return live.remove(&block.address).is_some();
        }
        let end = block.address.saturating_add(block.bytes);
        // Only the last live block that starts before the end could reach into this one.
        let is_free = live.range(..end).next_back().is_none_or(|(_, &other)| other <= block.address);
        live.insert(block.address, end);
        is_free && block.address > 0 && end <= HIGHEST_ADDRESS
    })
}

fn as_measured(timeline: &Timeline, actions: &[Action]) -> Placement {
    let births = actions.iter().filter(|action| !action.is_free).map(|action| &timeline.blocks[action.block]);
    let mut ranges: Vec<_> = births.map(|block| (block.address, block.address + block.bytes)).collect();
    ranges.sort_unstable();
    let mut segments: Vec<Segment> = Vec::new();
    for (start, end) in ranges {
        match segments.last_mut() {
            Some(last) if start <= last.address + last.bytes + LARGEST_GAP_BYTES => {
                last.bytes = last.bytes.max(end - last.address);
            }
            _ => segments.push(Segment { address: start, bytes: end - start }),
        }
    }
    Placement { addresses: timeline.blocks.iter().map(|block| block.address).collect(), segments }
}

/// Free ranges below the highest address used so far.
struct Free {
    by_start: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    top: u64,
}

impl Free {
    fn insert(&mut self, start: u64, bytes: u64) {
        self.by_start.insert(start, bytes);
        self.by_size.insert((bytes, start));
    }

    fn remove(&mut self, start: u64, bytes: u64) {
        self.by_start.remove(&start);
        self.by_size.remove(&(bytes, start));
    }

    /// An address in the smallest sufficient range, or in new address space.
    fn take(&mut self, bytes: u64) -> u64 {
        if let Some(&(free, start)) = self.by_size.range((bytes, 0)..).next() {
            self.remove(start, free);
            if free > bytes {
                self.insert(start + bytes, free - bytes);
            }
            return start;
        }
        let last = self.by_start.last_key_value().map(|(&start, &free)| (start, free));
        let start = match last.filter(|(start, free)| start + free == self.top) {
            Some((start, free)) => {
                self.remove(start, free);
                start
            }
            None => self.top,
        };
        self.top = start.saturating_add(bytes);
        start
    }

    fn give_back(&mut self, mut start: u64, mut bytes: u64) {
        if let Some(after) = self.by_start.get(&start.saturating_add(bytes)).copied() {
            self.remove(start + bytes, after);
            bytes += after;
        }
        let before = self.by_start.range(..start).next_back().map(|(&at, &free)| (at, free));
        if let Some((at, free)) = before.filter(|(at, free)| at + free == start) {
            self.remove(at, free);
            (start, bytes) = (at, bytes + free);
        }
        self.insert(start, bytes);
    }
}

fn best_fit(timeline: &Timeline, actions: &[Action]) -> Placement {
    let mut free = Free { by_start: BTreeMap::new(), by_size: BTreeSet::new(), top: FIRST_ADDRESS };
    let mut addresses = vec![0; timeline.blocks.len()];
    for action in actions {
        let bytes = timeline.blocks[action.block].bytes;
        if action.is_free {
            free.give_back(addresses[action.block], bytes);
        } else {
            addresses[action.block] = free.take(bytes);
        }
    }
    let all = Segment { address: FIRST_ADDRESS, bytes: free.top - FIRST_ADDRESS };
    Placement { addresses, segments: Some(all).filter(|all| all.bytes > 0).into_iter().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::tests::sample;

    fn place(timeline: &Timeline) -> Placement {
        Placement::new(timeline, &actions(timeline))
    }

    #[test]
    fn a_death_makes_room_for_a_birth_of_the_same_event() {
        let timeline = sample::step(Origin::Measured);
        let at_five: Vec<_> = actions(&timeline)
            .into_iter()
            .filter(|it| it.event == 5)
            .map(|it| (it.block, it.is_free))
            .collect();
        assert_eq!(at_five, [(3, true), (4, false)]);
    }

    #[test]
    fn a_measurement_keeps_its_addresses() {
        let timeline = sample::step(Origin::Measured);
        let placement = place(&timeline);
        assert_eq!(placement.addresses, [4096, 8192, 12288, 16384, 16384]);
        assert_eq!(placement.segments, [Segment { address: 4096, bytes: 16384 + 1024 - 4096 }]);
    }

    #[test]
    fn far_apart_is_two_segments() {
        let mut timeline = sample::step(Origin::Measured);
        timeline.blocks[0].address = 1 << 40;
        assert_eq!(place(&timeline).segments.len(), 2);
    }

    #[test]
    fn addresses_that_cannot_be_are_replaced() {
        let mut timeline = sample::step(Origin::Measured);
        timeline.blocks[1].address = timeline.blocks[0].address + 8;
        let placement = place(&timeline);
        assert!(placement.addresses.iter().all(|&address| address >= FIRST_ADDRESS));
        timeline.blocks[1].address = u64::MAX - 3;
        assert!(place(&timeline).addresses[1] < HIGHEST_ADDRESS);
    }

    #[test]
    fn a_plan_reuses_what_is_free() {
        let timeline = sample::step(Origin::Planned);
        // The peak is 3.5 KiB, and the placement needs no more.
        assert_eq!(place(&timeline).segments, [Segment { address: FIRST_ADDRESS, bytes: 3584 }]);
    }

    #[test]
    fn what_dies_as_it_is_born_is_born_first() {
        let mut timeline = sample::step(Origin::Planned);
        timeline.blocks[2].died = Some(2);
        let of_block: Vec<_> =
            actions(&timeline).into_iter().filter(|it| it.block == 2).map(|it| it.is_free).collect();
        assert_eq!(of_block, [false, true]);
        place(&timeline);
    }
}
