//! Uninitialised memory for results that tasks write piece by piece: filling it with zeros first would take 5 % of a step.

use std::{
    mem::MaybeUninit,
    sync::atomic::{AtomicUsize, Ordering},
};

use rayon::prelude::*;

use crate::stored_float::StoredFloat;

/// A vector of `count` elements, all written by `write`.
///
/// # Safety
/// `write` writes every element.
pub(crate) unsafe fn written<E>(count: usize, write: impl FnOnce(&mut [MaybeUninit<E>])) -> Vec<E> {
    let mut elements = Vec::with_capacity(count);
    write(&mut elements.spare_capacity_mut()[..count]);
    // SAFETY: the capacity is `count`, and the caller promises that `write` writes every element.
    unsafe { elements.set_len(count) };
    elements
}

/// Fills `memory` in all threads, in pieces of `piece` elements; the last piece may have fewer. `fill` takes the index of a
/// piece and the piece, which holds zeros.
pub(crate) fn filled<E: Copy + Default + Send + Sync>(
    memory: &mut [MaybeUninit<E>],
    piece: usize,
    fill: impl Fn(usize, &mut [E]) + Sync,
) -> &mut [E] {
    let pieces = memory.par_chunks_mut(piece.max(1)).enumerate();
    pieces.for_each(|(index, piece)| fill(index, zeroed(piece)));
    // SAFETY: the pieces cover the memory, and each was zeroed.
    unsafe { memory.assume_init_mut() }
}

#[inline(always)]
fn zeroed<E: Copy + Default + Send + Sync>(memory: &mut [MaybeUninit<E>]) -> &mut [E] {
    memory.fill(MaybeUninit::new(E::default()));
    // SAFETY: every element was just written.
    unsafe { memory.assume_init_mut() }
}

/// A vector of `count` elements, filled as by [`filled`].
pub(crate) fn filled_anew<E: Copy + Default + Send + Sync>(
    count: usize,
    piece: usize,
    fill: impl Fn(usize, &mut [E]) + Sync,
) -> Vec<E> {
    // SAFETY: all pieces are filled.
    unsafe { written(count, |memory| _ = filled(memory, piece, fill)) }
}

/// A part of uninitialised memory, for one task to write. A counter shared by all parts shows whether everything is written.
pub(crate) struct UninitSlice<'a, E = f32> {
    memory: &'a mut [MaybeUninit<E>],
    /// Written elements of all parts.
    written: &'a AtomicUsize,
}

impl<'a, E: StoredFloat> UninitSlice<'a, E> {
    /// Parts of `of_each` elements; the last may have fewer.
    pub(crate) fn parts(self, of_each: usize) -> impl Iterator<Item = Self> + Send {
        let Self { memory, written } = self;
        memory.chunks_mut(of_each.max(1)).map(move |memory| Self { memory, written })
    }

    /// The first `at` elements, and the rest.
    pub(crate) fn split(self, at: usize) -> [Self; 2] {
        let Self { memory, written } = self;
        let (before, behind) = memory.split_at_mut(at);
        [before, behind].map(|memory| Self { memory, written })
    }

    /// Writes the rounded `values` to the first elements, and keeps the rest.
    ///
    /// # Panics
    /// Panics if fewer elements are left than values.
    #[inline(always)]
    pub(crate) fn write_first(&mut self, values: &[f32]) {
        // A task requests exactly the elements that it writes.
        let memory = self.memory.split_off_mut(..values.len()).expect("there are as many elements as values");
        memory.iter_mut().zip(values).for_each(|(to, value)| _ = to.write(E::rounded(*value)));
        self.written.fetch_add(values.len(), Ordering::Relaxed);
    }
}

impl<E: StoredFloat> UninitSlice<'_, E> {
    /// As [`write_first`](Self::write_first), with the numbers of `plus` added.
    ///
    /// # Panics
    /// Panics if fewer elements are left than values, or if there are fewer numbers to add.
    #[inline(always)]
    pub(crate) fn write_first_plus(&mut self, values: &[f32], plus: &[f32]) {
        let plus = &plus[..values.len()];
        // As above.
        let memory = self.memory.split_off_mut(..values.len()).expect("there are as many elements as values");
        for ((to, value), plus) in memory.iter_mut().zip(values).zip(plus) {
            to.write(E::rounded(*value + *plus));
        }
        self.written.fetch_add(values.len(), Ordering::Relaxed);
    }
}

impl<'a> UninitSlice<'a> {
    /// Fills the part with zeros and gives it.
    #[inline(always)]
    pub(crate) fn zeroed(self) -> &'a mut [f32] {
        self.written.fetch_add(self.memory.len(), Ordering::Relaxed);
        zeroed(self.memory)
    }
}

/// A vector of `count` elements, of which `write` writes every part, and the result of `write`.
///
/// # Panics
/// Panics if `write` leaves a part unwritten.
pub(crate) fn made<E, R>(count: usize, write: impl FnOnce(UninitSlice<'_, E>) -> R) -> (Vec<E>, R) {
    made_in(Vec::with_capacity(count), count, write)
}

/// As [`made`], in the memory of `elements`. The thread that allocated it keeps it in its cache of freed memory: if every
/// thread of a pool allocated, each would keep as much.
///
/// # Panics
/// Panics if the capacity of `elements` is less than `count`, or if `write` leaves a part unwritten.
pub(crate) fn made_in<E, R>(
    mut elements: Vec<E>,
    count: usize,
    write: impl FnOnce(UninitSlice<'_, E>) -> R,
) -> (Vec<E>, R) {
    let written = AtomicUsize::new(0);
    elements.clear();
    let result =
        write(UninitSlice { memory: &mut elements.spare_capacity_mut()[..count], written: &written });
    assert_eq!(written.into_inner(), count, "every part is written");
    // SAFETY: the capacity is `count`, and all elements are written: a part counts its elements when it writes them, and
    // cannot write them again.
    unsafe { elements.set_len(count) };
    (elements, result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_what_its_parts_were_written_with() {
        let (elements, parts) = made(7, |memory| {
            let mut parts = memory.parts(4);
            let first = parts.next().expect("there are two").zeroed();
            first[1] = 5.0;
            let last = parts.map(|mut part| {
                part.write_first(&[1.0, 2.0]);
                part.write_first(&[1.0]);
            });
            last.count()
        });
        assert_eq!((elements, parts), (vec![0.0, 5.0, 0.0, 0.0, 1.0, 2.0, 1.0], 1));
        assert_eq!(filled_anew(4, 2, |index, piece| piece[1] = index as f32), [0.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    #[should_panic(expected = "every part is written")]
    fn a_part_that_is_left_out_is_noticed() {
        made(7, |memory| _ = memory.parts(4).next().map(UninitSlice::zeroed));
    }
}
