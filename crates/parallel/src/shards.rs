//! The elements of a tensor that each rank holds.

use std::ops::Range;

/// Shards end at multiples of so many elements: 8-bit optimizer state has a scale for each such block.
const BLOCK: usize = 128;

/// The elements of a tensor that a rank holds, where tensors are sharded over ranks (ZeRO, Rajbhandari et al. 2020,
/// <https://arxiv.org/abs/1910.02054>). Shards are consecutive, in the order of ranks. All but the last ones are equally long, a
/// multiple of 128 elements; rank 0 has the longest.
///
/// ```
/// let shard = |rank| oomph_parallel::shard(1000, rank, 4);
/// assert_eq!([shard(0), shard(1), shard(2), shard(3)], [0..256, 256..512, 512..768, 768..1000]);
/// ```
pub fn shard(elements: usize, rank: usize, world_size: usize) -> Range<usize> {
    let length = elements.div_ceil(BLOCK).div_ceil(world_size.max(1)) * BLOCK;
    let start = |rank: usize| elements.min(length.saturating_mul(rank));
    start(rank)..start(rank.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_tensors_are_rank_zeros() {
        assert_eq!([0, 1, 2].map(|rank| shard(100, rank, 3)), [0..100, 100..100, 100..100]);
        assert_eq!([0, 1, 2].map(|rank| shard(0, rank, 3)), [0..0, 0..0, 0..0]);
    }

    proptest! {
        #[test]
        fn shards_follow_each_other_and_cover_all(elements in 0_usize..100_000, world_size in 1_usize..40) {
            let mut next = 0;
            for rank in 0..world_size {
                let shard = shard(elements, rank, world_size);
                prop_assert_eq!(shard.start, next);
                prop_assert!(shard.end == elements || shard.end.is_multiple_of(BLOCK));
                prop_assert!(shard.len() < elements / world_size + 2 * BLOCK);
                prop_assert!(shard.len() <= self::shard(elements, 0, world_size).len());
                next = shard.end;
            }
            prop_assert_eq!(next, elements);
        }
    }
}
