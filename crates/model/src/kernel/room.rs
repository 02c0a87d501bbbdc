//! Room for results that are written piece by piece: zeros would be written first, and be in the way of what comes.

use std::{
    mem::MaybeUninit,
    sync::atomic::{AtomicUsize, Ordering},
};

use rayon::prelude::*;

use super::rows::Value;

/// A result of `count` elements, which `write` writes.
///
/// # Safety
/// `write` writes every element.
pub(super) unsafe fn written<E>(count: usize, write: impl FnOnce(&mut [MaybeUninit<E>])) -> Vec<E> {
    let mut elements = Vec::with_capacity(count);
    write(&mut elements.spare_capacity_mut()[..count]);
    // SAFETY: there is room for so many, and all of them are written.
    unsafe { elements.set_len(count) };
    elements
}

/// Fills `room` by all threads, piece by piece of `piece` elements, of which the last may have fewer: `fill` is given the
/// index of each, and finds zeros.
pub(super) fn filled(
    room: &mut [MaybeUninit<f32>],
    piece: usize,
    fill: impl Fn(usize, &mut [f32]) + Sync,
) -> &mut [f32] {
    let pieces = room.par_chunks_mut(piece.max(1)).enumerate();
    pieces.for_each(|(index, piece)| fill(index, zeroed(piece)));
    // SAFETY: the pieces are all of the room, and zeroed at least.
    unsafe { room.assume_init_mut() }
}

#[inline(always)]
fn zeroed(room: &mut [MaybeUninit<f32>]) -> &mut [f32] {
    room.fill(MaybeUninit::new(0.0));
    // SAFETY: every element was just written.
    unsafe { room.assume_init_mut() }
}

/// As many elements as [`filled`] fills.
pub(super) fn filled_anew(count: usize, piece: usize, fill: impl Fn(usize, &mut [f32]) + Sync) -> Vec<f32> {
    // SAFETY: all pieces are filled.
    unsafe { written(count, |room| _ = filled(room, piece, fill)) }
}

/// A part of room that tasks write to, each to its own: values are made of it when all of it is written.
pub(super) struct Part<'a, E = f32> {
    room: &'a mut [MaybeUninit<E>],
    /// Elements of the whole that are written.
    written: &'a AtomicUsize,
}

impl<'a, E: Value> Part<'a, E> {
    /// Parts of so many elements; the last may have fewer.
    pub(super) fn parts(self, of_each: usize) -> impl Iterator<Item = Self> + Send {
        let Self { room, written } = self;
        room.chunks_mut(of_each.max(1)).map(move |room| Self { room, written })
    }

    /// So many elements, and what is behind them.
    pub(super) fn split(self, at: usize) -> [Self; 2] {
        let Self { room, written } = self;
        let (before, behind) = room.split_at_mut(at);
        [before, behind].map(|room| Self { room, written })
    }

    /// Writes the rounded `values` to its first elements; what is left is behind them.
    ///
    /// # Panics
    /// Panics if there is no room for so many.
    #[inline(always)]
    pub(super) fn write_first(&mut self, values: &[f32]) {
        // Whoever writes asks for the room that it needs.
        let room = self.room.split_off_mut(..values.len()).expect("there is room for the values");
        room.iter_mut().zip(values).for_each(|(to, value)| _ = to.write(E::rounded(*value)));
        self.written.fetch_add(values.len(), Ordering::Relaxed);
    }
}

impl<'a> Part<'a> {
    /// Zeros.
    #[inline(always)]
    pub(super) fn zeroed(self) -> &'a mut [f32] {
        self.written.fetch_add(self.room.len(), Ordering::Relaxed);
        zeroed(self.room)
    }
}

/// `count` elements, of which `write` writes every part.
///
/// # Panics
/// Panics if a part was left out.
pub(super) fn made<E, R>(count: usize, write: impl FnOnce(Part<'_, E>) -> R) -> (Vec<E>, R) {
    made_in(Vec::with_capacity(count), count, write)
}

/// As [`made`], instead of what stands in `elements`, where there is room for so many. Whoever asks for that room has it
/// in the memory of its thread: threads of a pool that each ask for some keep as much each.
///
/// # Panics
/// Panics if there is less room, or if a part was left out.
pub(super) fn made_in<E, R>(
    mut elements: Vec<E>,
    count: usize,
    write: impl FnOnce(Part<'_, E>) -> R,
) -> (Vec<E>, R) {
    let written = AtomicUsize::new(0);
    elements.clear();
    let result = write(Part { room: &mut elements.spare_capacity_mut()[..count], written: &written });
    assert_eq!(written.into_inner(), count, "every part is written");
    // SAFETY: there is room for so many, and all of them are written: a part counts when it is, and is gone then.
    unsafe { elements.set_len(count) };
    (elements, result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_what_its_parts_were_written_with() {
        let (elements, parts) = made(7, |room| {
            let mut parts = room.parts(4);
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
        made(7, |room| _ = room.parts(4).next().map(Part::zeroed));
    }
}
