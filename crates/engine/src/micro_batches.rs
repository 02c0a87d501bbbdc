//! The sizes of micro-batches.

/// The micro-batch sizes that divide a batch as evenly as possible into 2, 3, … micro-batches, the largest size first.
/// For a batch of 32 they are 16, 11, 8, 7, 6, 5, 4, 3, 2 and 1.
pub fn micro_batches(batch: usize) -> impl Iterator<Item = usize> {
    let next = move |size: &usize| {
        // The smallest number of micro-batches that makes the size smaller.
        let parts = batch.div_ceil(*size - 1);
        (*size > 1).then(|| batch.div_ceil(parts))
    };
    let first = (batch > 1).then(|| batch.div_ceil(2));
    std::iter::successors(first, move |size| if *size > 1 { next(size) } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_divided_as_evenly_as_possible() {
        let of = |batch| micro_batches(batch).collect::<Vec<_>>();
        assert_eq!(of(32), [16, 11, 8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(of(7), [4, 3, 2, 1]);
        assert_eq!(of(2), [1]);
        assert!(of(1).is_empty() && of(0).is_empty());
        // No larger size gives the same number of micro-batches.
        for batch in 2..200 {
            for size in of(batch) {
                let parts = batch.div_ceil(size);
                assert_eq!(size, batch.div_ceil(parts), "{batch} by {size}");
            }
        }
    }
}
