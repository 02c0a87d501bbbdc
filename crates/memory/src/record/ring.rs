use std::sync::{
    OnceLock,
    atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
        fence,
    },
};

/// Slots of a part of the ring; a power of two.
const PART_SLOTS: u64 = 1 << 12;
/// Parts at most: 16 million events, 640 MiB.
const PARTS: usize = 1 << 12;
/// The most events that a ring can keep.
pub(super) const MOST_SLOTS: u64 = PART_SLOTS * PARTS as u64;

/// The allocator's note of an event: plain words, since the allocator must not allocate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Words {
    /// The kind of event, and its device.
    pub(super) kind: u32,
    pub(super) point: u32,
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) nanoseconds: u64,
}

#[derive(Debug, Default)]
struct Slot {
    /// `2n + 1` while event `n` is being written, `2n + 2` when it is there.
    sequence: AtomicU64,
    address: AtomicU64,
    bytes: AtomicU64,
    nanoseconds: AtomicU64,
    kind: AtomicU32,
    point: AtomicU32,
}

/// The content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The requested event.
    Event(Words),
    /// It is not there yet: a thread is about to write it.
    Pending,
    /// A later one took its place.
    Overwritten,
}

/// The newest events. Threads write without waiting for each other, each into slots of its own, and readers notice
/// what was written meanwhile by the slot's sequence number.
///
/// The memory is kept for the program's life, in parts that never move: a thread that took a number may write late.
#[derive(Debug)]
pub(super) struct Ring {
    parts: [OnceLock<Box<[Slot]>>; PARTS],
    /// One less than the capacity, which is a power of two.
    mask: AtomicU64,
    next: AtomicU64,
}

impl Ring {
    pub(super) const fn new() -> Self {
        Self { parts: [const { OnceLock::new() }; PARTS], mask: AtomicU64::new(0), next: AtomicU64::new(0) }
    }

    /// Makes room for at least `capacity` events. Allocates.
    pub(super) fn reserve(&self, capacity: u64) {
        let capacity = capacity.clamp(1, MOST_SLOTS).next_power_of_two();
        for part in self.parts.iter().take(capacity.div_ceil(PART_SLOTS) as usize) {
            part.get_or_init(|| (0..PART_SLOTS).map(|_| Slot::default()).collect());
        }
        self.mask.store(capacity - 1, Release);
    }

    pub(super) fn capacity(&self) -> u64 {
        self.mask.load(Relaxed) + 1
    }

    /// The number that the next event will have.
    pub(super) fn next(&self) -> u64 {
        self.next.load(Acquire)
    }

    /// Takes the next number. The event must change the bytes in use between this and [`write`](Self::write).
    pub(super) fn claim(&self) -> u64 {
        let number = self.next.fetch_add(1, Relaxed);
        if let Some(slot) = self.slot(number) {
            slot.sequence.store(2 * number + 1, Relaxed);
            // No word of the new event may be seen with the number of the old one.
            fence(Release);
        }
        number
    }

    pub(super) fn write(&self, number: u64, words: Words) {
        let Some(slot) = self.slot(number) else { return };
        slot.address.store(words.address, Relaxed);
        slot.bytes.store(words.bytes, Relaxed);
        slot.nanoseconds.store(words.nanoseconds, Relaxed);
        slot.kind.store(words.kind, Relaxed);
        slot.point.store(words.point, Relaxed);
        slot.sequence.store(2 * number + 2, Release);
    }

    /// Whether an event was written, be it overwritten since.
    pub(super) fn is_written(&self, number: u64) -> bool {
        self.slot(number).is_some_and(|slot| slot.sequence.load(Acquire) >= 2 * number + 2)
    }

    pub(super) fn read(&self, number: u64) -> Found {
        let Some(slot) = self.slot(number) else { return Found::Overwritten };
        let before = slot.sequence.load(Acquire);
        let words = Words {
            kind: slot.kind.load(Relaxed),
            point: slot.point.load(Relaxed),
            address: slot.address.load(Relaxed),
            bytes: slot.bytes.load(Relaxed),
            nanoseconds: slot.nanoseconds.load(Relaxed),
        };
        fence(Acquire);
        let after = slot.sequence.load(Relaxed);
        match 2 * number + 2 {
            expected if before < expected => Found::Pending,
            expected if before == expected && after == expected => Found::Event(words),
            _ => Found::Overwritten,
        }
    }

    fn slot(&self, number: u64) -> Option<&Slot> {
        let index = number & self.mask.load(Relaxed);
        let part = self.parts.get((index / PART_SLOTS) as usize)?.get()?;
        part.get((index % PART_SLOTS) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(number: u64) -> Words {
        Words {
            kind: 1,
            point: number as u32,
            address: number,
            bytes: number.wrapping_mul(3),
            nanoseconds: !number,
        }
    }

    #[test]
    fn the_newest_events_are_kept() {
        let ring = Box::new(Ring::new());
        ring.reserve(5);
        assert_eq!(ring.capacity(), 8);
        for number in 0..20 {
            assert_eq!((ring.next(), ring.claim()), (number, number));
            assert_eq!(ring.read(number), Found::Pending);
            assert!(!ring.is_written(number));
            ring.write(number, words(number));
        }
        assert_eq!(ring.read(11), Found::Overwritten);
        assert!(ring.is_written(11));
        assert!((12..20).all(|number| ring.read(number) == Found::Event(words(number))));
    }

    #[test]
    fn what_is_read_while_others_write_is_whole() {
        let ring = Box::new(Ring::new());
        // A writer that is descheduled in the middle of an event returns before the others wrap around the ring.
        ring.reserve(1 << 19);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..200_000 {
                        let number = ring.claim();
                        ring.write(number, words(number));
                    }
                });
            }
            let mut whole = 0;
            loop {
                let next = ring.next();
                let number = next.saturating_sub(8);
                if let Found::Event(found) = ring.read(number) {
                    assert_eq!(found, words(number));
                    whole += 1;
                }
                // If the writers finish before this thread runs, the ring has the last events.
                if next == 400_000 && whole > 0 {
                    break;
                }
            }
        });
    }
}
