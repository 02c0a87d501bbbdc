//! The order in which the blocks of a product are multiplied: by it, strips are read from near caches.

use std::ops::Range;

use crate::{
    Element, Line,
    line::{OF_TILE, SIDE},
};

/// Instructions that multiply a block: strips of rows by strips of columns.
pub(crate) trait Blocks {
    /// Lines of a strip that stay in the first-level cache while all others are multiplied by them.
    const NEAR: usize;

    /// Lines of a strip that are multiplied at once: so many of each strip stay in the second-level cache.
    const AT_ONCE: usize = 4 * Self::NEAR;

    /// Multiplies a strip of rows by one of columns.
    ///
    /// # Safety
    /// Both have the lines of as many steps, at least of one, and behind `to` there are 32 rows of 32 numbers, each `stride` numbers
    /// behind the one before.
    unsafe fn whole<E: Element>(&self, strips: [&[Line]; 2], to: *mut f32, stride: usize, add: bool);

    /// Multiplies the upper half of a strip of rows by two strips of columns. Each sum has the bits that [`whole`](Self::whole) gives it.
    ///
    /// # Safety
    /// As for `whole`, for both strips of columns, but with 16 rows behind each of `to`. Both may be the same strip.
    unsafe fn halves<E: Element>(
        &self,
        left: &[Line],
        right: [&[Line]; 2],
        to: [*mut f32; 2],
        stride: usize,
        add: bool,
    );
}

/// Multiplies all strips of `left` by all of `right`.
///
/// # Safety
/// Both have whole strips of `of_strip` lines, which are those of some steps, and `sums` has 32 columns of all rows for each right strip.
pub(crate) unsafe fn multiply<E: Element, B: Blocks>(
    blocks: &B,
    [left, right]: [&[Line]; 2],
    of_strip: usize,
    sums: &mut [f32],
    add: bool,
) {
    const { assert!(B::NEAR.is_multiple_of(SIDE * E::PARTS), "pieces of a strip are whole steps") };
    let of_columns = left.len() / of_strip * SIDE * SIDE;
    for at_once in pieces(0..of_strip, B::AT_ONCE) {
        for (column, right) in right.chunks_exact(of_strip).enumerate() {
            for near in pieces(at_once.clone(), B::NEAR) {
                let add = add || near.start > 0;
                for (row, left) in left.chunks_exact(of_strip).enumerate() {
                    let strips = [&left[near.clone()], &right[near.clone()]];
                    // SAFETY: the block of these strips is within the sums, by the condition of this function.
                    unsafe {
                        let to = sums.as_mut_ptr().add(column * of_columns + row * SIDE * SIDE);
                        blocks.whole::<E>(strips, to, SIDE, add);
                    }
                }
            }
        }
    }
}

/// Multiplies the first `count` rows of the strip `left`, 16 or 32, by all strips of `right`. Rows of the sums begin `stride` numbers
/// behind each other.
///
/// # Safety
/// As for [`multiply`], but `left` is one strip, and `sums` has the rows.
pub(crate) unsafe fn multiply_rows<E: Element, B: Blocks>(
    blocks: &B,
    [left, right]: [&[Line]; 2],
    of_strip: usize,
    sums: &mut [f32],
    [count, stride]: [usize; 2],
    add: bool,
) {
    let strips = right.len() / of_strip;
    for near in pieces(0..of_strip, B::NEAR) {
        let (add, left) = (add || near.start > 0, &left[near.clone()]);
        let right = |strip: usize| &right[strip * of_strip..][near.clone()];
        if count > OF_TILE {
            for strip in 0..strips {
                // SAFETY: the block of these strips is within the sums, by the condition of this function.
                unsafe {
                    let to = sums.as_mut_ptr().add(strip * SIDE);
                    blocks.whole::<E>([left, right(strip)], to, stride, add);
                }
            }
            continue;
        }
        for first in (0..strips).step_by(2) {
            // The last strip of an odd number is its own neighbour.
            let both = [first, (first + 1).min(strips - 1)];
            // SAFETY: the blocks of these strips are within the sums, by the condition of this function.
            unsafe {
                let to = both.map(|strip| sums.as_mut_ptr().add(strip * SIDE));
                blocks.halves::<E>(left, both.map(right), to, stride, add);
            }
        }
    }
}

fn pieces(of: Range<usize>, length: usize) -> impl Iterator<Item = Range<usize>> {
    of.clone().step_by(length).map(move |begin| begin..(begin + length).min(of.end))
}
