//! The rows of a batch that each rank has.

use std::ops::Range;

/// The rows of a batch that a rank has. They are consecutive, in the order of ranks, and the counts of two ranks differ
/// by at most one.
///
/// Ranks beyond the rows or the `world_size` have none.
///
/// ```
/// let rows = |rank| oomph_parallel::rows(10, rank, 4);
/// assert_eq!([rows(0), rows(1), rows(2), rows(3)], [0..2, 2..5, 5..7, 7..10]);
/// ```
pub fn rows(batch: usize, rank: usize, world_size: usize) -> Range<usize> {
    let world_size = world_size.max(1);
    let start = |rank: usize| batch * rank.min(world_size) / world_size;
    start(rank)..start(rank.saturating_add(1))
}

/// The rows of a rank where rank 0, the coordinator, has another share, since it has more work or memory in use.
///
/// `share` is from 0 to 1; 0.25 gives rank 0 a quarter, rounded to whole rows. The others divide the rest like
/// [`rows`]. With enough rows each rank has at least one, unless the share is 0 or 1.
///
/// ```
/// let rows = |rank| oomph_parallel::rows_with_coordinator(32, 0.1, rank, 3);
/// assert_eq!([rows(0), rows(1), rows(2)], [0..3, 3..17, 17..32]);
/// ```
pub fn rows_with_coordinator(batch: usize, share: f64, rank: usize, world_size: usize) -> Range<usize> {
    let others = world_size.saturating_sub(1);
    if others == 0 {
        return rows(batch, rank, world_size);
    }
    let most = if share < 1.0 { batch.saturating_sub(others) } else { batch };
    let least = usize::from(share > 0.0).min(batch);
    // The product is not negative, and NaN becomes 0.
    let own = ((batch as f64 * share).round() as usize).min(most).max(least);
    match rank.checked_sub(1) {
        None => 0..own,
        Some(other) => {
            let rows = rows(batch - own, other, others);
            own + rows.start..own + rows.end
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Whether ranges follow each other from 0 to `batch`.
    fn is_partition(shares: &[Range<usize>], batch: usize) -> bool {
        let starts = shares.iter().map(|share| share.start).chain([batch]);
        let ends = [0].into_iter().chain(shares.iter().map(|share| share.end));
        starts.eq(ends) && shares.iter().all(|share| share.start <= share.end)
    }

    #[test]
    fn a_coordinator_alone_has_the_whole_batch() {
        assert_eq!(rows_with_coordinator(8, 0.1, 0, 1), 0..8);
    }

    #[test]
    fn a_coordinator_may_have_nothing_or_all() {
        let shares = |share| [0, 1, 2].map(|rank| rows_with_coordinator(8, share, rank, 3));
        assert_eq!(shares(0.0), [0..0, 0..4, 4..8]);
        assert_eq!(shares(1.0), [0..8, 8..8, 8..8]);
    }

    proptest! {
        #[test]
        fn every_row_goes_to_one_rank_and_no_two_differ_by_more_than_one(
            batch in 0usize..10_000, world_size in 1usize..40,
        ) {
            let shares: Vec<_> = (0..world_size).map(|rank| rows(batch, rank, world_size)).collect();
            prop_assert!(is_partition(&shares, batch), "{shares:?}");
            let lengths = || shares.iter().map(Range::len);
            prop_assert!(lengths().max().unwrap() - lengths().min().unwrap() <= 1, "{shares:?}");
        }

        #[test]
        fn a_coordinator_s_share_leaves_every_row_to_one_rank(
            batch in 0usize..10_000, world_size in 1usize..40, share in 0.0..=1.0f64,
        ) {
            let shares: Vec<_> =
                (0..world_size).map(|rank| rows_with_coordinator(batch, share, rank, world_size)).collect();
            prop_assert!(is_partition(&shares, batch), "{shares:?}");
            if batch >= world_size && share > 0.0 && share < 1.0 {
                prop_assert!(shares.iter().all(|share| !share.is_empty()), "{shares:?}");
            }
            if world_size > 1 && batch >= world_size * 2 {
                let off = (shares[0].len() as f64 - batch as f64 * share).abs();
                prop_assert!(off <= world_size as f64, "{shares:?}");
            }
        }
    }
}
