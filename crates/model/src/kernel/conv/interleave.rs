use crate::kernel::rows::Value;

/// Rows that are interleaved at once. With so many, known when it is compiled, it is done by vector instructions: 0.2 ns
/// an element, and 1 ns otherwise.
const ROWS: usize = 8;

/// Writes elements that lie in rows so that those of one column come together: `rows` gives the elements of each of
/// `count` rows, and column i goes to the beginning of the i-th piece of `stride` elements.
#[inline(always)]
pub(super) fn interleave<'a, E: Value + 'a>(
    count: usize,
    rows: impl Fn(usize) -> &'a [E],
    to: &mut [f32],
    stride: usize,
) {
    for first in (0..count).step_by(ROWS) {
        if first + ROWS <= count {
            let rows: [&[E]; ROWS] = std::array::from_fn(|row| rows(first + row));
            let length = rows[0].len();
            let rows = rows.map(|row| &row[..length]);
            for (column, to) in to.chunks_mut(stride).take(length).enumerate() {
                let to = &mut to[first..first + ROWS];
                for (to, row) in to.iter_mut().zip(rows) {
                    *to = row[column].widened();
                }
            }
        } else {
            for row in first..count {
                for (to, value) in to.chunks_mut(stride).zip(rows(row)) {
                    to[row] = value.widened();
                }
            }
        }
    }
}
