use oomph_core::{Account, charge};

/// Some columns of a matrix, for one task to write: those of each row.
pub(super) type Stripe<'a, E> = Vec<&'a mut [E]>;

/// Divides a matrix into stripes of these widths, side by side. The lists of rows are small beside the matrix.
///
/// # Panics
/// Panics unless the matrix has whole rows of these widths together.
pub(super) fn stripes<'a, E>(matrix: &'a mut [E], widths: &[usize]) -> Vec<Stripe<'a, E>> {
    let row: usize = widths.iter().sum();
    assert!(row > 0 && matrix.len().is_multiple_of(row), "the stripes are the columns of the matrix");
    charge(Account::Host, || {
        let rows = matrix.len() / row;
        let mut stripes: Vec<Stripe<'a, E>> = widths.iter().map(|_| Vec::with_capacity(rows)).collect();
        for mut row in matrix.chunks_exact_mut(row) {
            for (stripe, width) in stripes.iter_mut().zip(widths) {
                let (first, rest) = row.split_at_mut(*width);
                stripe.push(first);
                row = rest;
            }
        }
        stripes
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_are_the_columns_of_a_matrix() {
        let mut matrix = [0; 12];
        for (index, stripe) in stripes(&mut matrix, &[1, 3]).into_iter().enumerate() {
            stripe.into_iter().enumerate().for_each(|(row, part)| part.fill(10 * index + row));
        }
        assert_eq!(matrix, [0, 10, 10, 10, 1, 11, 11, 11, 2, 12, 12, 12]);
    }

    #[test]
    #[should_panic(expected = "the columns of the matrix")]
    fn stripes_that_are_no_row_are_refused() {
        let _ = stripes(&mut [0; 3], &[2]);
    }
}
