use std::ops::Range;

/// The values of `length` that `rank` of `world_size` sums: a consecutive range, nearly equal for all ranks.
pub(super) fn share(length: usize, world_size: usize, rank: usize) -> Range<usize> {
    // Values and ranks are far fewer than 2⁶⁴; their product may be more.
    let at = |rank: usize| (length as u128 * rank as u128 / world_size as u128) as usize;
    at(rank)..at(rank + 1)
}

/// Cuts `values` into consecutive slices of the given lengths.
pub(super) fn cut<T>(mut values: &mut [T], lengths: impl IntoIterator<Item = usize>) -> Vec<&mut [T]> {
    let mut slices = Vec::new();
    for length in lengths {
        let (slice, rest) = values.split_at_mut(length);
        slices.push(slice);
        values = rest;
    }
    slices
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shares_follow_each_other_and_cover_all(length in 0_usize..10_000, world_size in 1_usize..40) {
            let mut next = 0;
            for rank in 0..world_size {
                let share = share(length, world_size, rank);
                prop_assert_eq!(share.start, next);
                prop_assert!(share.len() <= length.div_ceil(world_size));
                next = share.end;
            }
            prop_assert_eq!(next, length);
        }
    }
}
