//! Gradients in buckets that are worth an all-reduce.

use std::ops::Range;

use oomph_core::Bytes;

/// Groups gradients, in the order of backward, into buckets of at most `limit` bytes. A bucket can be reduced as soon as
/// its last gradient is computed, while backward still runs (Li et al. 2020, <https://arxiv.org/abs/2006.15704>,
/// sections 3.2.2 and 3.2.3).
///
/// A bucket takes the next gradients as long as they fit; a gradient above the limit has a bucket of its own.
///
/// ```
/// use oomph_core::Bytes;
///
/// let sizes = [10, 10, 10, 50, 5].map(Bytes::mib);
/// assert_eq!(oomph_parallel::buckets(&sizes, Bytes::mib(25)), [0..2, 2..3, 3..4, 4..5]);
/// ```
pub fn buckets(sizes: &[Bytes], limit: Bytes) -> Vec<Range<usize>> {
    let mut buckets: Vec<Range<usize>> = Vec::new();
    // The free bytes of the last bucket; `None` behind a gradient above the limit.
    let mut room = None;
    for (index, size) in sizes.iter().map(|size| size.get()).enumerate() {
        match (buckets.last_mut(), room.and_then(|room: u64| room.checked_sub(size))) {
            (Some(bucket), Some(rest)) => {
                bucket.end = index + 1;
                room = Some(rest);
            }
            _ => {
                buckets.push(index..index + 1);
                room = limit.get().checked_sub(size);
            }
        }
    }
    buckets
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn no_gradients_make_no_buckets() {
        assert_eq!(buckets(&[], Bytes::mib(25)), []);
    }

    #[test]
    fn a_limit_of_nothing_gives_each_gradient_a_bucket() {
        assert_eq!(buckets(&[1, 2].map(Bytes::new), Bytes::new(0)), [0..1, 1..2]);
    }

    proptest! {
        #[test]
        fn every_gradient_is_in_one_bucket_and_only_single_ones_are_too_large(
            sizes in vec(0u64..100, 0..50), limit in 0u64..200,
        ) {
            let sizes: Vec<_> = sizes.into_iter().map(Bytes::new).collect();
            let found = buckets(&sizes, Bytes::new(limit));
            let all: Vec<_> = found.iter().flat_map(Clone::clone).collect();
            prop_assert_eq!(all, (0..sizes.len()).collect::<Vec<_>>());
            let total = |range: Range<usize>| sizes[range].iter().map(|size| size.get()).sum::<u64>();
            for bucket in &found {
                prop_assert!(bucket.len() == 1 || total(bucket.clone()) <= limit, "{bucket:?}");
            }
            for pair in found.windows(2) {
                let and_the_next = pair[0].start..pair[1].start + 1;
                prop_assert!(total(and_the_next) > limit, "the bucket {:?} had room for more", pair[0]);
            }
        }
    }
}
