//! Few numbers side by side, of a count that the compiler knows: those of a row that is short are vectors too.

/// Sums of two by two.
#[inline(always)]
pub(super) fn sum<const COUNT: usize>(left: &[f32; COUNT], right: &[f32; COUNT]) -> [f32; COUNT] {
    let mut made = *left;
    made.iter_mut().zip(right).for_each(|(made, right)| *made += right);
    made
}

/// Differences of two by two.
#[inline(always)]
pub(super) fn difference<const COUNT: usize>(left: &[f32; COUNT], right: &[f32; COUNT]) -> [f32; COUNT] {
    let mut made = *left;
    made.iter_mut().zip(right).for_each(|(made, right)| *made -= right);
    made
}

/// The numbers from place `at` on.
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

/// Does what there is to do with `count` numbers, in pieces that are as long as can be. The last one may begin within the
/// one before.
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

/// What is done with pieces, some of it maybe twice.
pub(super) trait Pieces {
    /// With so many numbers from place `at` on.
    fn piece<const COUNT: usize>(&mut self, at: usize);
}
