use std::marker::PhantomData;

/// Some columns of each row of a matrix, for one task to write.
pub(super) struct Stripe<'a, E> {
    first: *mut E,
    rows: usize,
    /// Elements from a row to the next.
    stride: usize,
    width: usize,
    matrix: PhantomData<&'a mut [E]>,
}

// SAFETY: a stripe is a mutable borrow of elements that no other stripe has.
unsafe impl<E: Send> Send for Stripe<'_, E> {}

impl<E> Stripe<'_, E> {
    /// The elements of a row.
    ///
    /// # Panics
    /// Panics if there are fewer rows.
    #[inline(always)]
    pub(super) fn row(&mut self, row: usize) -> &mut [E] {
        assert!(row < self.rows, "the matrix has the row");
        // SAFETY: `stripes` checked that the columns are within a row of the matrix, which is borrowed for as long, and that no other
        // stripe has them.
        unsafe { std::slice::from_raw_parts_mut(self.first.add(row * self.stride), self.width) }
    }
}

/// Divides a matrix into stripes of these widths, side by side.
///
/// # Panics
/// Panics unless the widths add up to a row, and the matrix has whole rows.
pub(super) fn stripes<E>(
    matrix: &mut [E],
    widths: impl Iterator<Item = usize> + Clone,
) -> impl Iterator<Item = Stripe<'_, E>> {
    let stride: usize = widths.clone().sum();
    assert!(stride > 0 && matrix.len().is_multiple_of(stride), "the stripes are the columns of the matrix");
    let (begin, rows) = (matrix.as_mut_ptr(), matrix.len() / stride);
    widths.scan(0, move |next, width| {
        let column = *next;
        *next += width;
        Some(Stripe { first: begin.wrapping_add(column), rows, stride, width, matrix: PhantomData })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_are_the_columns_of_a_matrix() {
        let mut matrix = [0; 12];
        let made: Vec<_> = stripes(&mut matrix, [1, 3].into_iter()).collect();
        for (index, mut stripe) in made.into_iter().enumerate() {
            (0..3).for_each(|row| stripe.row(row).fill(10 * index + row));
        }
        assert_eq!(matrix, [0, 10, 10, 10, 1, 11, 11, 11, 2, 12, 12, 12]);
    }

    #[test]
    #[should_panic(expected = "the columns of the matrix")]
    fn stripes_that_are_no_row_are_refused() {
        let _ = stripes(&mut [0; 3], [2].into_iter());
    }
}
