use std::ops::Range;

use crate::{stored_float::StoredFloat, transpose};

/// Transposes rows: writes the elements of each column of `columns` side by side. `rows` gives each of `count` rows. The
/// i-th column goes to the start of the i-th piece of `stride` elements of `to`.
#[inline(always)]
pub(crate) fn interleave<'a, E: StoredFloat + 'a>(
    count: usize,
    rows: impl Fn(usize) -> &'a [E],
    columns: Range<usize>,
    to: &mut [f32],
    stride: usize,
) {
    let columns = columns.start..columns.end.min(columns.start + to.len().div_ceil(stride.max(1)));
    let row = |index: usize| &rows(index)[columns.clone()];
    let mut first = 0;
    while first + 8 <= count {
        let eight = std::array::from_fn(|index| row(first + index));
        let done = floats(eight).map_or(0, |rows| transpose::eight(rows, &mut to[first..], stride));
        rest(eight, done, first, to, stride);
        first += 8;
    }
    if first + 4 <= count {
        let four = std::array::from_fn(|index| row(first + index));
        let done = floats(four).map_or(0, |rows| transpose::four(rows, &mut to[first..], stride));
        rest(four, done, first, to, stride);
        first += 4;
    }
    if first + 2 <= count {
        let two = std::array::from_fn(|index| row(first + index));
        let done = floats(two).map_or(0, |rows| transpose::two(rows, &mut to[first..], stride));
        rest(two, done, first, to, stride);
        first += 2;
    }
    for first in first..count {
        rest([row(first)], 0, first, to, stride);
    }
}

/// As [`interleave`], for columns that do not follow each other.
#[inline(always)]
pub(crate) fn interleave_some<'a, E: StoredFloat + 'a>(
    count: usize,
    rows: impl Fn(usize) -> &'a [E],
    columns: impl Iterator<Item = usize> + Clone,
    to: &mut [f32],
    stride: usize,
) {
    let mut first = 0;
    while first + 8 <= count {
        some([0, 1, 2, 3, 4, 5, 6, 7].map(|index| rows(first + index)), columns.clone(), first, to, stride);
        first += 8;
    }
    if first + 4 <= count {
        some([0, 1, 2, 3].map(|index| rows(first + index)), columns.clone(), first, to, stride);
        first += 4;
    }
    for first in first..count {
        some([rows(first)], columns.clone(), first, to, stride);
    }
}

/// The rows, if they have 32 bits.
#[inline(always)]
fn floats<E: StoredFloat, const ROWS: usize>(rows: [&[E]; ROWS]) -> Option<[&[f32]; ROWS]> {
    let mut all: [&[f32]; ROWS] = [&[]; ROWS];
    for (to, row) in all.iter_mut().zip(rows) {
        *to = E::floats(row)?;
    }
    Some(all)
}

/// The columns from `done` on.
#[inline(always)]
fn rest<E: StoredFloat, const ROWS: usize>(
    rows: [&[E]; ROWS],
    done: usize,
    first: usize,
    to: &mut [f32],
    stride: usize,
) {
    let columns = rows[0].len();
    if done < columns {
        some(rows, done..columns, first, &mut to[done * stride..], stride);
    }
}

/// Eight or four rows at once become vector instructions: 0.2 ns an element, and 1 ns otherwise.
#[inline(always)]
fn some<E: StoredFloat, const ROWS: usize>(
    mut rows: [&[E]; ROWS],
    columns: impl Iterator<Item = usize>,
    first: usize,
    to: &mut [f32],
    stride: usize,
) {
    // Plain loops: array methods with closures are compiled as functions of their own, without vectors.
    let mut length = usize::MAX;
    for row in &rows {
        length = length.min(row.len());
    }
    for row in &mut rows {
        *row = &row[..length];
    }
    for (to, column) in to.chunks_mut(stride).zip(columns) {
        let to = &mut to[first..first + ROWS];
        for (to, row) in to.iter_mut().zip(rows) {
            *to = row[column].widened();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_goes_to_its_column() {
        for (count, columns, stride) in [
            (1, 0..1, 1),
            (2, 0..9, 2),
            (3, 2..9, 5),
            (4, 0..8, 4),
            (6, 1..11, 6),
            (8, 1..14, 12),
            (13, 3..7, 16),
            (2, 1..1, 2),
        ] {
            let element = |row: usize, column: usize| (100 * row + column) as f32;
            let rows: Vec<Vec<f32>> =
                (0..count).map(|row| (0..15).map(|column| element(row, column)).collect()).collect();
            let mut to = vec![-1.0; columns.len() * stride];
            interleave(count, |row| &rows[row], columns.clone(), &mut to, stride);
            for (piece, column) in to.chunks(stride).zip(columns.clone()) {
                for (row, found) in piece.iter().enumerate() {
                    let expected = if row < count { element(row, column) } else { -1.0 };
                    assert_eq!(
                        *found, expected,
                        "{count} rows, columns {columns:?}, stride {stride}: {row}, {column}"
                    );
                }
            }
        }
    }
}
