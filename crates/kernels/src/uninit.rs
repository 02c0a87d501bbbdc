//! Uninitialised memory for results that tasks write piece by piece: filling it with zeros first would take 5 % of a step.

use std::{
    mem::MaybeUninit,
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
};

use oomph_bf16::Line;
use oomph_core::{Account, charge};
use rayon::prelude::*;

use crate::{
    matrix_unit::OF_LINE,
    stored_float::{StoredFloat, StoredFloats, all_widened, with_values},
    workers,
};

/// A vector of `count` elements, all written by `write`.
///
/// # Safety
/// `write` writes every element.
pub(crate) unsafe fn written<E>(count: usize, write: impl FnOnce(&mut [MaybeUninit<E>])) -> Vec<E> {
    let mut elements = Vec::with_capacity(count);
    write(&mut elements.spare_capacity_mut()[..count]);
    // SAFETY: the capacity is at least `count`, and the caller promises that `write` writes every element.
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
    workers::for_each(pieces, |(index, piece)| fill(index, zeroed(piece)));
    // SAFETY: the pieces cover the memory, and each was zeroed.
    unsafe { memory.assume_init_mut() }
}

/// A vector of `count` elements. The first `all` whole lines in it are filled in all threads, a strip of `of_strip` lines at a time: `fill`
/// takes the index of a strip, and its lines, which are zeros. All other elements are zeros.
pub(crate) fn lines_anew(
    count: usize,
    all: usize,
    of_strip: usize,
    fill: impl Fn(usize, &mut [Line]) + Sync,
) -> Vec<f32> {
    let write = |memory: &mut [MaybeUninit<f32>]| {
        let before = memory.as_ptr().align_offset(align_of::<Line>());
        let (before, memory) = memory.split_at_mut(before);
        let (lines, behind) = memory.split_at_mut(all * OF_LINE);
        before.fill(MaybeUninit::new(0.0));
        behind.fill(MaybeUninit::new(0.0));
        filled(lines, of_strip * OF_LINE, |index, strip| fill(index, Line::within(strip)));
    };
    // SAFETY: `filled` writes the lines, and the rest is written before.
    unsafe { written(count, write) }
}

/// Fills `memory` in all threads. It consists of stripes of `of_stripe` elements, and each of these of pieces of `of_piece`; the last
/// ones may have fewer. `fill` takes an index and the pieces of all stripes with that index, and writes them; `change` then takes each.
///
/// # Panics
/// Panics if `fill` leaves elements unwritten.
pub(crate) fn striped(
    memory: &mut [MaybeUninit<f32>],
    [of_stripe, of_piece]: [usize; 2],
    fill: impl Fn(usize, &mut [Appended<'_>]) + Sync,
    change: impl Fn(&mut [f32]) + Sync,
) -> &mut [f32] {
    let mut pieces: Vec<Vec<Appended<'_>>> = charge(Account::Host, || {
        let all = memory.chunks_mut(of_stripe.max(1)).map(|stripe| stripe.chunks_mut(of_piece.max(1)));
        let mut stripes: Vec<_> = all.collect();
        let next =
            || -> Vec<_> { stripes.iter_mut().filter_map(Iterator::next).map(Appended::new).collect() };
        std::iter::repeat_with(next).take_while(|pieces| !pieces.is_empty()).collect()
    });
    workers::for_each(pieces.par_iter_mut().enumerate(), |(index, pieces)| {
        fill(index, pieces);
        pieces.iter_mut().for_each(|piece| change(piece.written()));
    });
    drop(pieces);
    // SAFETY: the pieces cover the memory, and each is written: else `written` would have panicked.
    unsafe { memory.assume_init_mut() }
}

/// A vector of `count` elements, filled as by [`striped`].
///
/// # Panics
/// Panics if `fill` leaves elements unwritten.
pub(crate) fn striped_anew(
    count: usize,
    sizes: [usize; 2],
    fill: impl Fn(usize, &mut [Appended<'_>]) + Sync,
) -> Vec<f32> {
    // SAFETY: all stripes are written.
    unsafe { written(count, |memory| _ = striped(memory, sizes, fill, |_| ())) }
}

/// Memory that one task writes from its begin to its end.
pub(crate) struct Appended<'a> {
    memory: &'a mut [MaybeUninit<f32>],
    /// Elements that are written.
    count: usize,
    /// Counts the elements with those of other tasks, once all are written.
    of_all: Option<&'a AtomicUsize>,
}

impl<'a> Appended<'a> {
    fn new(memory: &'a mut [MaybeUninit<f32>]) -> Self {
        Self { memory, count: 0, of_all: None }
    }

    /// Writes the next elements.
    ///
    /// # Panics
    /// Panics if fewer elements are left.
    #[inline(always)]
    pub(crate) fn append(&mut self, values: &[f32]) {
        self.memory[self.count..][..values.len()].write_copy_of_slice(values);
        self.count += values.len();
    }

    /// Writes the values in 32 bits, and zeros up to `width` elements.
    ///
    /// # Panics
    /// Panics if fewer elements are left, or if there are more values.
    #[inline(always)]
    pub(crate) fn row<E: StoredFloat>(&mut self, values: &[E], width: usize) {
        let row = &mut self.memory[self.count..][..width];
        let (of_values, zeros) = row.split_at_mut(values.len());
        // A copy of constant length is one instruction.
        match (of_values.as_chunks_mut::<16>(), values.as_chunks::<16>()) {
            ((to, []), (from, [])) => {
                for (to, from) in to.iter_mut().zip(from) {
                    to.write_copy_of_slice(&all_widened(from));
                }
            }
            _ => widen(values, of_values),
        }
        zeros.fill(MaybeUninit::new(0.0));
        self.count += width;
    }

    /// # Panics
    /// Panics if not all is written.
    pub(crate) fn written(&mut self) -> &mut [f32] {
        assert_eq!(self.count, self.memory.len(), "the whole piece is written");
        if let Some(of_all) = self.of_all.take() {
            of_all.fetch_add(self.count, Ordering::Relaxed);
        }
        // SAFETY: the elements before the count are written, which are all.
        unsafe { self.memory.assume_init_mut() }
    }
}

/// Writes as many elements in 32 bits.
#[inline(always)]
fn widen<E: StoredFloat>(from: &[E], to: &mut [MaybeUninit<f32>]) {
    to.iter_mut().zip(from).for_each(|(to, from)| _ = to.write(from.widened()));
}

#[inline(always)]
fn zeroed<E: Copy + Default + Send + Sync>(memory: &mut [MaybeUninit<E>]) -> &mut [E] {
    memory.fill(MaybeUninit::new(E::default()));
    // SAFETY: every element was just written.
    unsafe { memory.assume_init_mut() }
}

/// Types of which any bits are a value.
///
/// # Safety
/// They are, and no bits of one mean nothing.
pub(crate) unsafe trait AnyBits {}

// SAFETY: any 32 bits are a number, or stand for none.
unsafe impl AnyBits for f32 {}
// SAFETY: a line consists of integers.
unsafe impl AnyBits for Line {}

/// A vector of `count` elements that were left in its memory: any values, for a workspace whose reader writes them first. Zeros
/// would take 2 % of a step in 16 bits. In tests they are no numbers, so that a result that depends on them is noticed.
pub(crate) fn left_over<E: AnyBits>(count: usize) -> Vec<E> {
    left_over_in(Vec::with_capacity(count), count)
}

/// As [`left_over`], in the memory of `elements`.
///
/// # Panics
/// Panics if the capacity of `elements` is less than `count`.
pub(crate) fn left_over_in<E: AnyBits>(mut elements: Vec<E>, count: usize) -> Vec<E> {
    elements.clear();
    settle(&mut elements.spare_capacity_mut()[..count]);
    // SAFETY: the capacity is at least `count`, and its elements are settled: they are as written.
    unsafe { elements.set_len(count) };
    elements
}

/// Makes what stands in the memory its values, which the compiler may not guess.
fn settle<E: AnyBits>(memory: &mut [MaybeUninit<E>]) {
    // Bits that stand for no number, and else zeros where the compiler knows no instructions.
    const IS_TESTED: bool = cfg!(any(test, miri));
    if IS_TESTED || cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64"))) {
        // SAFETY: the memory has as many elements.
        unsafe { memory.as_mut_ptr().write_bytes(if IS_TESTED { 0xff } else { 0 }, memory.len()) };
        return;
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    // SAFETY: for the compiler the instructions, of which there are none, may write any bits to the memory, as the pointer leads
    // there. Each element is then what the machine's memory holds, and any bits are a value.
    unsafe {
        std::arch::asm!("/* {} */", in(reg) memory.as_mut_ptr(), options(nostack, preserves_flags));
    }
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
    /// Those of this part that are not yet among them: threads that count every piece wait for each other.
    uncounted: usize,
}

impl<'a, E: StoredFloat> UninitSlice<'a, E> {
    /// Parts of `of_each` elements; the last may have fewer.
    pub(crate) fn parts(self, of_each: usize) -> impl Iterator<Item = Self> + Send {
        let Self { memory, written, .. } = self.counted();
        memory.chunks_mut(of_each.max(1)).map(move |memory| Self { memory, written, uncounted: 0 })
    }

    /// The first `at` elements, and the rest.
    pub(crate) fn split(self, at: usize) -> [Self; 2] {
        let Self { memory, written, .. } = self.counted();
        let (before, behind) = memory.split_at_mut(at);
        [before, behind].map(|memory| Self { memory, written, uncounted: 0 })
    }

    /// The rest of the part, behind written elements that are counted.
    #[inline(always)]
    fn counted(mut self) -> Self {
        self.count();
        self
    }

    #[inline(always)]
    fn count(&mut self) {
        let count = std::mem::take(&mut self.uncounted);
        if count > 0 {
            self.written.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Writes the rounded `values` to the first elements, and keeps the rest.
    ///
    /// # Panics
    /// Panics if fewer elements are left than values.
    #[inline(always)]
    pub(crate) fn write_first(&mut self, values: &[f32]) {
        self.write_first_plus(values, None);
    }

    /// As [`write_first`](Self::write_first), with the numbers of `plus` added, if there are some.
    ///
    /// # Panics
    /// Panics if fewer elements are left than values, or if there are fewer numbers to add.
    #[inline(always)]
    pub(crate) fn write_first_plus(&mut self, values: &[f32], plus: Option<&[f32]>) {
        // A task requests exactly the elements that it writes.
        let memory = self.memory.split_off_mut(..values.len()).expect("there are as many elements as values");
        write_rounded(values, plus, None, memory);
        self.uncounted += values.len();
        if self.memory.is_empty() {
            self.count();
        }
    }
}

impl<'a, E: StoredFloat> UninitSlice<'a, E> {
    /// The part as rows of `columns` elements.
    ///
    /// # Panics
    /// Panics if these are not the elements of whole rows.
    pub(crate) fn rows(self, columns: usize) -> UninitRows<'a, E> {
        assert!(self.memory.len().is_multiple_of(columns), "the rows are whole");
        UninitRows { slice: self.counted(), columns, done: 0..0, row: 0 }
    }
}

/// Writes as many rounded values, with the numbers of `plus` and the elements of `onto` added, if there are some.
///
/// # Panics
/// Panics if there are fewer of these.
#[inline(always)]
fn write_rounded<E: StoredFloat>(
    values: &[f32],
    plus: Option<&[f32]>,
    onto: Option<&[E]>,
    to: &mut [MaybeUninit<E>],
) {
    /// Elements that make a vector, by a loop of constant length: pieces are too short for the vectors of longer loops.
    const AT_ONCE: usize = 16;
    let count = to.len();
    let (plus, onto) = (plus.map(|plus| &plus[..count]), onto.map(|onto| &onto[..count]));
    let whole = count - count % AT_ONCE;
    for at in (0..whole).step_by(AT_ONCE) {
        let mut sums = [0.0; AT_ONCE];
        sums.copy_from_slice(&values[at..at + AT_ONCE]);
        if let Some(plus) = plus {
            sums.iter_mut().zip(&plus[at..at + AT_ONCE]).for_each(|(sum, plus)| *sum += plus);
        }
        if let Some(onto) = onto {
            sums.iter_mut().zip(&onto[at..at + AT_ONCE]).for_each(|(sum, onto)| *sum += onto.widened());
        }
        for (to, sum) in to[at..at + AT_ONCE].iter_mut().zip(sums) {
            to.write(E::rounded(sum));
        }
    }
    for at in whole..count {
        let sum = values[at] + plus.map_or(0.0, |plus| plus[at]);
        to[at].write(E::rounded(sum + onto.map_or(0.0, |onto| onto[at].widened())));
    }
}

/// Rows of uninitialised memory, which are written piece by piece: a counter of each piece would wait for memory.
pub(crate) struct UninitRows<'a, E> {
    slice: UninitSlice<'a, E>,
    columns: usize,
    /// Columns that are written in all rows, and those that are being written.
    done: Range<usize>,
    /// Rows in which these are written too.
    row: usize,
}

impl<E: StoredFloat> UninitRows<'_, E> {
    /// Writes the next columns of the next rows, rounded: those of all rows, before the columns behind them. Pieces behind the last
    /// row are left out. The numbers of `plus` are added to each row, and to all rows what stands at the same place in `onto`.
    ///
    /// # Panics
    /// Panics if the pieces of the rows are of different lengths, if fewer columns are left, or if there is less to add.
    #[inline(always)]
    pub(crate) fn write<'b>(
        &mut self,
        pieces: impl Iterator<Item = &'b [f32]>,
        plus: Option<&[f32]>,
        onto: Option<&[E]>,
    ) {
        let rows = self.slice.memory.len() / self.columns.max(1);
        for (row, piece) in (self.row..rows).zip(pieces) {
            if row == 0 {
                self.done.end = self.done.start + piece.len();
            }
            assert_eq!(self.done.len(), piece.len(), "all pieces are as long");
            let begin = row * self.columns;
            let place = begin + self.done.start..begin + self.done.end;
            let (plus, onto) =
                (plus.map(|plus| &plus[self.done.clone()]), onto.map(|onto| &onto[place.clone()]));
            assert!(self.done.end <= self.columns, "the columns are there");
            write_rounded(piece, plus, onto, &mut self.slice.memory[place]);
            self.row = row + 1;
        }
        if self.row == rows {
            self.finish_columns();
        }
    }

    /// Writes the next columns of all rows, as [`write`](Self::write) does. They lie in strips: of each row `side` of them, row by row.
    ///
    /// # Panics
    /// Panics if a strip has fewer rows, or if there is less to add. Columns behind the last one are left out.
    #[inline(always)]
    pub(crate) fn write_strips(
        &mut self,
        strips: &[f32],
        [of_strip, side]: [usize; 2],
        plus: Option<&[f32]>,
        onto: Option<&[E]>,
    ) {
        let rows = self.slice.memory.len() / self.columns.max(1);
        let strips = || strips.chunks_exact(of_strip.max(1));
        self.done.end = self.columns.min(self.done.start + side * strips().len());
        for row in 0..rows {
            // Whole rows: memory takes them faster than pieces of many.
            let begins = self.done.clone().step_by(side);
            for (begin, strip) in begins.zip(strips()) {
                let columns = begin..self.done.end.min(begin + side);
                let place = row * self.columns + columns.start..row * self.columns + columns.end;
                let piece = &strip[row * side..][..columns.len()];
                let (plus, onto) = (plus.map(|plus| &plus[columns]), onto.map(|onto| &onto[place.clone()]));
                write_rounded(piece, plus, onto, &mut self.slice.memory[place]);
            }
        }
        self.finish_columns();
    }

    /// Goes on to the columns behind those that are written in all rows.
    fn finish_columns(&mut self) {
        (self.row, self.done.start) = (0, self.done.end);
        if self.done.start == self.columns {
            self.slice.written.fetch_add(self.slice.memory.len(), Ordering::Relaxed);
            // Nobody writes them again.
            self.slice.memory = &mut [];
        }
    }
}

impl<'a> UninitSlice<'a> {
    /// The part, to be written from its begin to its end.
    pub(crate) fn appended(self) -> Appended<'a> {
        let Self { memory, written, .. } = self.counted();
        Appended { of_all: Some(written), ..Appended::new(memory) }
    }

    /// Fills the part with zeros and gives it.
    #[inline(always)]
    pub(crate) fn zeroed(self) -> &'a mut [f32] {
        zeroed(self.all_counted())
    }

    /// Gives the part with [what was left](left_over) in its memory, for a task that writes it before it reads it.
    pub(crate) fn left_over(self) -> &'a mut [f32] {
        let memory = self.all_counted();
        settle(memory);
        // SAFETY: the elements are settled: they are as written.
        unsafe { memory.assume_init_mut() }
    }

    /// The memory of the part, whose elements count as written: the caller writes them at once.
    #[inline(always)]
    fn all_counted(mut self) -> &'a mut [MaybeUninit<f32>] {
        self.uncounted += self.memory.len();
        self.count();
        self.memory
    }

    /// Fills the part with the elements of `read` from `at` on, and gives it.
    ///
    /// # Panics
    /// Panics if these are fewer.
    #[inline(always)]
    pub(crate) fn loaded(self, read: StoredFloats<'a>, at: usize) -> &'a mut [f32] {
        let count = self.memory.len();
        with_values!(read, values => {
            let values = &values[at..at + count];
            let memory = self.all_counted();
            widen(values, memory);
            // SAFETY: `widen` wrote as many elements as it read, which are all.
            unsafe { memory.assume_init_mut() }
        })
    }
}

/// A vector of `count` elements, of which `write` writes every part, and the result of `write`.
///
/// # Panics
/// Panics if `write` leaves a part unwritten.
pub(crate) fn made<E, R>(count: usize, write: impl FnOnce(UninitSlice<'_, E>) -> R) -> (Vec<E>, R) {
    made_in(Vec::with_capacity(count), count, write)
}

/// As [`made`], for vectors of these numbers of elements, which `write` writes together.
///
/// # Panics
/// Panics if `write` leaves a part unwritten.
pub(crate) fn all_made<E, R>(
    counts: impl ExactSizeIterator<Item = usize>,
    write: impl FnOnce(Vec<UninitSlice<'_, E>>) -> R,
) -> (Vec<Vec<E>>, R) {
    let mut all = list(counts.len());
    all.extend(counts.map(|count| Begun::new(Vec::with_capacity(count), count)));
    let mut slices = list(all.len());
    slices.extend(all.iter_mut().map(Begun::slice));
    let result = write(slices);
    let mut finished = list(all.len());
    finished.extend(all.into_iter().map(Begun::finish));
    (finished, result)
}

/// An empty list of that capacity. It is no tensor, so that it does not count as one.
pub(crate) fn list<T>(capacity: usize) -> Vec<T> {
    charge(Account::Host, || Vec::with_capacity(capacity))
}

/// As [`made`], in the memory of `elements`. The thread that allocated it keeps it in its cache of freed memory: if every
/// thread of a pool allocated, each would keep as much.
///
/// # Panics
/// Panics if the capacity of `elements` is less than `count`, or if `write` leaves a part unwritten.
pub(crate) fn made_in<E, R>(
    elements: Vec<E>,
    count: usize,
    write: impl FnOnce(UninitSlice<'_, E>) -> R,
) -> (Vec<E>, R) {
    let mut begun = Begun::new(elements, count);
    let result = write(begun.slice());
    (begun.finish(), result)
}

/// A vector that is being written.
struct Begun<E> {
    elements: Vec<E>,
    count: usize,
    written: AtomicUsize,
}

impl<E> Begun<E> {
    fn new(mut elements: Vec<E>, count: usize) -> Self {
        elements.clear();
        Self { elements, count, written: AtomicUsize::new(0) }
    }

    /// The elements to write, of which none counts as written.
    fn slice(&mut self) -> UninitSlice<'_, E> {
        *self.written.get_mut() = 0;
        let memory = &mut self.elements.spare_capacity_mut()[..self.count];
        UninitSlice { memory, written: &self.written, uncounted: 0 }
    }

    fn finish(self) -> Vec<E> {
        let Self { mut elements, count, written } = self;
        assert_eq!(written.into_inner(), count, "every part is written");
        // SAFETY: the capacity is `count`, and all elements are written: a part counts its elements when it writes them, and
        // cannot write them again.
        unsafe { elements.set_len(count) };
        elements
    }
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

    #[test]
    #[should_panic(expected = "every part is written")]
    fn a_part_whose_last_elements_are_left_out_is_noticed() {
        made::<f32, _>(7, |mut memory| memory.write_first(&[1.0; 6]));
    }

    #[test]
    fn written_elements_count_where_the_rest_goes_on_in_parts() {
        let (elements, ()) = made::<f32, _>(7, |mut memory| {
            memory.write_first(&[1.0, 2.0]);
            let [mut some, rest] = memory.split(2);
            some.write_first(&[3.0, 4.0]);
            rest.zeroed();
        });
        assert_eq!(elements, vec![1.0, 2.0, 3.0, 4.0, 0.0, 0.0, 0.0]);
    }
}
