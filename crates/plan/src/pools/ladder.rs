use super::{Grain, Pool, exclusive::ExclusivePool, sliced::SlicedPool};

const MIB: u64 = 1 << 20;
const GIB: f64 = (1u64 << 30) as f64;

/// The pools of `MemoryConfiguration::SubSlices` (`build_pools`), from the smallest slices to the largest, for a card whose
/// `max_page` is a quarter of its memory.
pub(super) fn pools(max_page: u64, grain: Grain) -> Vec<Pool> {
    // For allocations of no bytes.
    let empty = Pool::Exclusive(ExclusivePool::new(0, u64::MAX, grain));
    let mut sliced = Vec::new();
    let (mut page, mut halvings) = (max_page, 0);
    while page >= 32 * MIB {
        page = grain.padded(page / 4);
        halvings += 1;
        // Slices of a half, a quarter, an eighth … of the page.
        sliced.push(Pool::Sliced(SlicedPool::new(page, page >> halvings, grain)));
    }
    let largest = max_page / grain.alignment * grain.alignment;
    let period = (5000.0 * (1.0 + largest as f64 / GIB).round()) as u64;
    let whole = Pool::Exclusive(ExclusivePool::new(largest, period, grain));
    std::iter::once(empty).chain(sliced.into_iter().rev()).chain([whole]).collect()
}
