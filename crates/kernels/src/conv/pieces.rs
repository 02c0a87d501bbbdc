//! Pieces of a constant length, so that the compiler vectorises short rows too.

use crate::stored_float::StoredFloat;

/// Elementwise sums.
#[inline(always)]
pub(super) fn sum<const COUNT: usize>(left: &[f32; COUNT], right: &[f32; COUNT]) -> [f32; COUNT] {
    let mut made = *left;
    made.iter_mut().zip(right).for_each(|(made, right)| *made += right);
    made
}

/// Elementwise differences.
#[inline(always)]
pub(super) fn difference<const COUNT: usize>(left: &[f32; COUNT], right: &[f32; COUNT]) -> [f32; COUNT] {
    let mut made = *left;
    made.iter_mut().zip(right).for_each(|(made, right)| *made -= right);
    made
}

/// `COUNT` numbers from index `at` on.
///
/// # Panics
/// Panics if there are fewer.
#[inline(always)]
pub(super) fn lanes<E, const COUNT: usize>(numbers: &[E], at: usize) -> &[E; COUNT] {
    // The slice has that length.
    numbers[at..][..COUNT].first_chunk().expect("a slice of that length")
}

/// As [`lanes`], to write.
#[inline(always)]
pub(super) fn lanes_mut<E, const COUNT: usize>(numbers: &mut [E], at: usize) -> &mut [E; COUNT] {
    // The slice has that length.
    numbers[at..][..COUNT].first_chunk_mut().expect("a slice of that length")
}

/// `COUNT` numbers from index `at` on, in 32 bits. They are to be written as a whole: the compiler does not know that memory that is read
/// and memory that is written lie apart, and would copy one by one.
///
/// # Panics
/// Panics if there are fewer.
#[inline(always)]
pub(super) fn widened<E: StoredFloat, const COUNT: usize>(numbers: &[E], at: usize) -> [f32; COUNT] {
    let mut wide = [0.0; COUNT];
    for (wide, number) in wide.iter_mut().zip(lanes::<E, COUNT>(numbers, at)) {
        *wide = number.widened();
    }
    wide
}

/// Runs `work` over `count` numbers, in pieces as long as possible. The last piece may overlap the one before.
#[inline(always)]
pub(super) fn pieces(count: usize, work: impl Pieces) {
    match count {
        16.. => pieces_of::<16>(count, work),
        8.. => pieces_of::<8>(count, work),
        4.. => pieces_of::<4>(count, work),
        _ => pieces_of::<1>(count, work),
    }
}

#[inline(always)]
fn pieces_of<const COUNT: usize>(count: usize, mut work: impl Pieces) {
    let mut at = 0;
    while at + COUNT <= count {
        work.piece::<COUNT>(at);
        at += COUNT;
    }
    if at < count {
        work.piece::<COUNT>(count - COUNT);
    }
}

/// Work on pieces. A piece that overlaps another is done twice.
pub(super) trait Pieces {
    /// Works on `COUNT` numbers from index `at` on.
    fn piece<const COUNT: usize>(&mut self, at: usize);
}
