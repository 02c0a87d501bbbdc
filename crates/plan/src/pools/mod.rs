//! CubeCL's memory pools of a GPU (cubecl-runtime, `memory_management/`): the bytes that they reserve on the
//! card for a sequence of allocations.
//!
//! The rules are the library's, not the library itself: its crate brings a compiler along, which no build for the CPU
//! needs. [`PoolSim`] has one pool list, as a CUDA stream has, since one thread trains on a device.
//!
//! CUDA's driver gives large allocations in pages of 2 MiB, so bytes of the card are whole pages of the driver.
//!
//! An allocation is served by the first pool that accepts its size: from reserved memory if the pool finds room, else by
//! new memory of the card. If the card has no more, the pools give back all unused memory, and the allocation is tried once
//! more (`Command::reserve` of cubecl-cuda).

mod direct;
mod exclusive;
mod ladder;
mod sliced;

use std::collections::HashMap;

use self::{direct::DirectPool, exclusive::ExclusivePool, sliced::SlicedPool};

/// The sizes of which allocations are multiples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grain {
    /// The alignment of allocations in bytes.
    pub(crate) alignment: u64,
    /// The pages in which the driver gives larger allocations.
    page: u64,
}

impl Grain {
    /// That of every CUDA card (cubecl-cuda `runtime.rs`; the driver's pages).
    pub(crate) const CUDA: Self = Self { alignment: 512, page: 2 << 20 };

    /// That of Vulkan (cubecl-wgpu `runtime.rs`): drivers align 16 to 256 bytes. The driver's pages are not known, and the
    /// allocator does not count them.
    pub(crate) const VULKAN: Self = Self { alignment: 256, page: 256 };

    fn padded(self, bytes: u64) -> u64 {
        bytes.next_multiple_of(self.alignment)
    }

    /// The bytes of the card that the driver takes for an allocation.
    fn charged(self, bytes: u64) -> u64 {
        bytes.next_multiple_of(if bytes >= self.page { self.page } else { self.alignment })
    }
}

/// How a GPU's allocator divides reserved memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolLayout {
    /// Each allocation has its own memory, which is reused for exactly its padded size.
    Direct {
        /// Reserved bytes from which on unused memory is given back before more is reserved.
        reclaim_at: Option<u64>,
    },
    /// A ladder of pools by size, which cut large pages into slices.
    SubSlices {
        /// The total memory of the card: it decides the sizes of pages.
        card_bytes: u64,
    },
}

/// An allocation of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pool: usize,
    id: u64,
}

/// A pool needs more memory than the card has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CardFull;

/// What a pool may still reserve.
#[derive(Clone, Copy, Debug)]
struct Headroom {
    left: Option<u64>,
    grain: Grain,
}

impl Headroom {
    fn check(self, bytes: u64) -> Result<(), CardFull> {
        if self.left.is_some_and(|left| self.grain.charged(bytes) > left) { Err(CardFull) } else { Ok(()) }
    }
}

#[derive(Debug)]
enum Pool {
    Direct(DirectPool),
    Sliced(SlicedPool),
    Exclusive(ExclusivePool),
}

/// Simulates the pools of a card.
#[derive(Debug)]
pub(crate) struct PoolSim {
    pools: Vec<Pool>,
    grain: Grain,
    /// The memory of the card that the pools can reserve.
    capacity: Option<u64>,
    /// Allocations so far, which time the clean-ups of exclusive pools.
    allocations: u64,
    /// Allocations that no pool accepts. The library refuses them; here each has memory of its own.
    refused: HashMap<u64, u64>,
}

impl PoolSim {
    /// Pools without memory on a card that gives them up to `capacity` bytes.
    pub(crate) fn new(layout: PoolLayout, grain: Grain, capacity: Option<u64>) -> Self {
        let pools = match layout {
            PoolLayout::Direct { reclaim_at } => vec![Pool::Direct(DirectPool::new(reclaim_at, grain))],
            PoolLayout::SubSlices { card_bytes } => ladder::pools(card_bytes / 4, grain),
        };
        Self { pools, grain, capacity, allocations: 0, refused: HashMap::new() }
    }

    /// The bytes that an allocation of `bytes` takes of a pool.
    pub(crate) fn padded(&self, bytes: u64) -> u64 {
        self.grain.padded(bytes)
    }

    /// Allocates `bytes`.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Slot {
        let charged = self.charged();
        let left = self.capacity.map(|capacity| capacity.saturating_sub(charged));
        let grain = self.grain;
        self.reserve(bytes, Headroom { left, grain }).unwrap_or_else(|CardFull| {
            self.clean_up();
            // Without a capacity no pool is full.
            self.reserve(bytes, Headroom { left: None, grain }).expect("without a capacity no pool is full")
        })
    }

    fn reserve(&mut self, bytes: u64, headroom: Headroom) -> Result<Slot, CardFull> {
        self.allocations += 1;
        for pool in &mut self.pools {
            if let Pool::Exclusive(pool) = pool {
                pool.pass(self.allocations);
            }
        }
        let accepting = self.pools.iter_mut().enumerate().find(|(_, pool)| match pool {
            Pool::Direct(_) => true,
            Pool::Sliced(pool) => pool.accepts(bytes),
            Pool::Exclusive(pool) => pool.accepts(bytes),
        });
        let Some((pool, chosen)) = accepting else {
            headroom.check(bytes)?;
            let id = self.allocations;
            self.refused.insert(id, self.grain.padded(bytes));
            return Ok(Slot { pool: self.pools.len(), id });
        };
        let id = match chosen {
            Pool::Direct(pool) => pool.reserve(bytes, headroom),
            Pool::Sliced(pool) => pool.reserve(bytes, headroom),
            Pool::Exclusive(pool) => pool.reserve(bytes, headroom),
        }?;
        Ok(Slot { pool, id })
    }

    /// Frees an allocation. Its memory stays reserved.
    pub(crate) fn free(&mut self, slot: Slot) {
        match self.pools.get_mut(slot.pool) {
            Some(Pool::Direct(pool)) => pool.free(slot.id),
            Some(Pool::Sliced(pool)) => pool.free(slot.id),
            Some(Pool::Exclusive(pool)) => pool.free(slot.id),
            None => {
                self.refused.remove(&slot.id);
            }
        }
    }

    /// Gives back all unused memory that the pools can give back.
    pub(crate) fn clean_up(&mut self) {
        for pool in &mut self.pools {
            match pool {
                Pool::Direct(pool) => pool.clean_up(),
                Pool::Sliced(pool) => pool.clean_up(),
                Pool::Exclusive(pool) => pool.clean_up(),
            }
        }
    }

    /// The bytes of the card that the pools could not give back: those of a training on the smallest card that it fits.
    pub(crate) fn occupied(&self) -> u64 {
        self.pools.iter().map(Pool::occupied).sum::<u64>() + self.refused_charged()
    }

    /// The bytes of the card for all that the pools hold.
    fn charged(&self) -> u64 {
        self.pools.iter().map(Pool::charged).sum::<u64>() + self.refused_charged()
    }

    fn refused_charged(&self) -> u64 {
        self.refused.values().map(|bytes| self.grain.charged(*bytes)).sum()
    }

    /// The bytes that the pools hold, as the pools count them. The driver may take more of the card for them.
    pub(crate) fn reserved(&self) -> u64 {
        self.pools.iter().map(Pool::reserved).sum::<u64>() + self.refused.values().sum::<u64>()
    }
}

impl Pool {
    /// What it holds, as it counts.
    fn reserved(&self) -> u64 {
        match self {
            Self::Direct(pool) => pool.reserved(),
            Self::Sliced(pool) => pool.reserved(),
            Self::Exclusive(pool) => pool.reserved(),
        }
    }

    /// The bytes of the card for it.
    fn charged(&self) -> u64 {
        match self {
            Self::Direct(pool) => pool.charged(),
            Self::Sliced(pool) => pool.charged(),
            Self::Exclusive(pool) => pool.charged(),
        }
    }

    /// The bytes of the card that it could not give back. On a smaller card it would cut pages into slices in another way, so
    /// all pages count.
    fn occupied(&self) -> u64 {
        match self {
            Self::Direct(pool) => pool.occupied(),
            pages => pages.charged(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn direct(reclaim_at: Option<u64>, capacity: Option<u64>) -> PoolSim {
        PoolSim::new(PoolLayout::Direct { reclaim_at }, Grain::CUDA, capacity)
    }

    #[test]
    fn direct_memory_is_reused_for_its_exact_size_only() {
        let mut pools = direct(None, None);
        let first = pools.allocate(1000);
        assert_eq!(pools.reserved(), 1024);
        pools.free(first);
        assert_eq!(pools.reserved(), 1024, "freed memory stays reserved");
        // 1000 and 520 bytes are both padded to 1024, so the second reuses the first; 512 bytes are not.
        let second = pools.allocate(520);
        assert_eq!((second, pools.reserved()), (first, 1024));
        pools.allocate(512);
        assert_eq!(pools.reserved(), 1024 + 512);
        pools.free(second);
        pools.allocate(2048);
        assert_eq!(pools.reserved(), 1024 + 512 + 2048);
        pools.clean_up();
        assert_eq!(pools.reserved(), 512 + 2048);
    }

    #[test]
    fn direct_memory_is_given_back_by_position_until_there_is_room() {
        let mut pools = direct(Some(4 * KIB), None);
        let slots = [1024, 2048, 1024].map(|bytes| pools.allocate(bytes));
        slots.into_iter().for_each(|slot| pools.free(slot));
        // 4 KiB are reserved. 512 bytes more are above the mark: the first position is given back, and that is enough.
        pools.allocate(512);
        assert_eq!(pools.reserved(), 512 + 2048 + 1024);
        // 3 KiB: the second and the third go too. The mark is no limit: what is in use stays.
        pools.allocate(3 * KIB);
        assert_eq!(pools.reserved(), 512 + 3 * KIB);
        pools.allocate(8 * KIB);
        assert_eq!(pools.reserved(), 512 + 11 * KIB);
    }

    #[test]
    fn a_full_card_makes_the_pools_give_back_all_unused_memory() {
        let mut pools = direct(None, Some(4 * KIB));
        let slots = [1024, 1024, 1024].map(|bytes| pools.allocate(bytes));
        pools.free(slots[0]);
        pools.free(slots[2]);
        // 3 KiB are reserved and 1 KiB is left, so 1.5 KiB do not fit beside them.
        pools.allocate(1536);
        assert_eq!(pools.reserved(), 1024 + 1536);
    }

    #[test]
    fn the_driver_gives_whole_pages_for_large_allocations() {
        let mut pools = direct(None, None);
        let slots = [MIB, 3 * MIB].map(|bytes| pools.allocate(bytes));
        assert_eq!((pools.reserved(), pools.occupied()), (4 * MIB, 5 * MIB));
        pools.free(slots[1]);
        // 3 and 3.5 MiB take two pages of the driver each, but are not of the same size.
        pools.allocate(3 * MIB + 512 * KIB);
        assert_eq!((pools.charged(), pools.occupied()), (9 * MIB, 5 * MIB));
        assert_eq!(pools.reserved(), 7 * MIB + 512 * KIB);
        pools.clean_up();
        assert_eq!((pools.reserved(), pools.charged()), (4 * MIB + 512 * KIB, 5 * MIB));
    }

    #[test]
    fn unused_memory_is_reserved_and_not_occupied() {
        let mut pools = direct(None, Some(4 * KIB));
        let slots = [1024, 2048].map(|bytes| pools.allocate(bytes));
        slots.into_iter().for_each(|slot| pools.free(slot));
        assert_eq!((pools.reserved(), pools.occupied()), (3 * KIB, 0));
        pools.allocate(2048);
        assert_eq!((pools.reserved(), pools.occupied()), (3 * KIB, 2 * KIB));
        pools.allocate(1536);
        assert_eq!((pools.reserved(), pools.occupied()), (3 * KIB + 512, 3 * KIB + 512));
    }

    /// A card of 16 GiB: `max_page` is 4 GiB, and pages have a quarter of the size before, as long as that was at least
    /// 32 MiB: 1 GiB, 256, 64 and 16 MiB.
    #[test]
    fn pages_of_the_ladder_follow_from_the_card() {
        let mut pools = PoolSim::new(PoolLayout::SubSlices { card_bytes: 16 * GIB }, Grain::CUDA, None);
        // Slices up to a half of 1 GiB, a quarter of 256 MiB, an eighth of 64 MiB, a sixteenth of 16 MiB; or above 80 %
        // of a page.
        let pages = [
            (512, 16 * MIB),
            (MIB, 16 * MIB),
            (MIB + 512, 64 * MIB),
            (8 * MIB, 64 * MIB),
            (15 * MIB, 16 * MIB),
            (9 * MIB, 256 * MIB),
            (64 * MIB, 64 * MIB),
            (65 * MIB, GIB),
            (512 * MIB, GIB),
        ];
        for (bytes, page) in pages {
            let mut alone = PoolSim::new(PoolLayout::SubSlices { card_bytes: 16 * GIB }, Grain::CUDA, None);
            alone.allocate(bytes);
            assert_eq!(alone.reserved(), page, "for {bytes} bytes");
        }
        // Larger ones have pages of their own; at first half the largest, since that is the first average size.
        pools.allocate(513 * MIB);
        let average = (2 * GIB) as f64 * 0.99 + (513 * MIB) as f64 * 0.01;
        assert_eq!(pools.reserved(), (average as u64).next_multiple_of(512));
    }

    #[test]
    fn slices_are_first_fit_and_merge_when_the_pool_is_asked_next() {
        let mut pools = PoolSim::new(PoolLayout::SubSlices { card_bytes: 16 * GIB }, Grain::CUDA, None);
        // Sixteen slices of 1 MiB fill a page of 16 MiB.
        let slots: Vec<Slot> = (0..16).map(|_| pools.allocate(MIB)).collect();
        assert_eq!(pools.reserved(), 16 * MIB);
        // Two that are not neighbours have no room for 0.75 + 0.75 + 0.75 MiB, but for two of those.
        pools.free(slots[2]);
        pools.free(slots[5]);
        let [first, second] = [768 * KIB, 768 * KIB].map(|bytes| pools.allocate(bytes));
        assert_eq!(pools.reserved(), 16 * MIB);
        let third = pools.allocate(768 * KIB);
        assert_eq!(pools.reserved(), 32 * MIB);
        // With slot 3 free as well, the rest behind the first (0.25 MiB) and slot 3 merge to 1.25 MiB.
        pools.free(slots[3]);
        pools.free(third);
        pools.allocate(MIB);
        pools.allocate(256 * KIB);
        // The second page is unused now, so it goes; the first stays.
        pools.clean_up();
        assert_eq!(pools.reserved(), 16 * MIB);
        [first, second].into_iter().for_each(|slot| pools.free(slot));
        pools.clean_up();
        assert_eq!(pools.reserved(), 16 * MIB, "other slices are in use");
    }

    #[test]
    fn a_large_page_is_given_back_after_a_long_time_without_use() {
        let mut pools = PoolSim::new(PoolLayout::SubSlices { card_bytes: 16 * GIB }, Grain::CUDA, None);
        let large = pools.allocate(3 * GIB);
        pools.free(large);
        assert_eq!(pools.reserved(), 3 * GIB);
        // The period is 5000 · (1 + 4) allocations, checked five times in it. A new page counts as unused four times, so
        // the first check gives it back: the one after 5,000 allocations.
        let small = pools.allocate(512);
        pools.free(small);
        for _ in 2..4999 {
            let slot = pools.allocate(512);
            pools.free(slot);
        }
        assert_eq!(pools.reserved(), 3 * GIB + 16 * MIB);
        pools.allocate(512);
        pools.allocate(512);
        assert_eq!(pools.reserved(), 16 * MIB);
    }

    #[test]
    fn the_ladder_refuses_more_than_a_quarter_of_the_card() {
        let mut pools = PoolSim::new(PoolLayout::SubSlices { card_bytes: 16 * GIB }, Grain::CUDA, None);
        let slot = pools.allocate(5 * GIB);
        assert_eq!(pools.reserved(), 5 * GIB);
        pools.free(slot);
        assert_eq!(pools.reserved(), 0);
    }
}
