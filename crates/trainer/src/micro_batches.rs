/// The sizes into which a batch can be cut so that the parts are as even as can be, the largest first: of 32 they are
/// 16, 11, 8, 7, 6, 5, 4, 3, 2 and 1.
pub(crate) fn micro_batches(batch: usize) -> impl Iterator<Item = usize> {
    let next = move |size: &usize| {
        // The least number of parts that makes the parts smaller.
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
    fn a_batch_is_cut_into_parts_as_even_as_can_be() {
        let of = |batch| micro_batches(batch).collect::<Vec<_>>();
        assert_eq!(of(32), [16, 11, 8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(of(7), [4, 3, 2, 1]);
        assert_eq!(of(2), [1]);
        assert!(of(1).is_empty() && of(0).is_empty());
        // Each is the largest for its number of parts.
        for batch in 2..200 {
            for size in of(batch) {
                let parts = batch.div_ceil(size);
                assert_eq!(size, batch.div_ceil(parts), "{batch} by {size}");
            }
        }
    }
}
