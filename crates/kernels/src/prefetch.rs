//! Memory that is brought into the cache before it is read, and memory that leaves it. The processor foresees reads that go on and on,
//! but not pieces of rows that are far apart.

use burn::tensor::Tensor;
use burn_flex::Flex;

use crate::{
    any_tensor::AnyTensor,
    backends::primitive_on,
    stored_float::{StoredFloats, with_values},
};

/// Bytes of a line of the cache.
pub(crate) const LINE: usize = 64;

/// Begins to bring the line of the first element into the second-level cache: in the first one it would displace what is multiplied.
/// It does nothing on other processors than x86-64.
#[inline(always)]
pub(crate) fn line<E>(elements: &[E]) {
    address(elements.as_ptr().cast());
}

#[inline(always)]
fn address(first: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: every x86-64 has the instruction. It reads nothing into the program, and there need not be such memory.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(first.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = first;
}

/// As [`line`], for all lines of the elements.
#[inline(always)]
pub(crate) fn all<E>(elements: &[E]) {
    for first in elements.chunks((LINE / size_of::<E>()).max(1)) {
        line(first);
    }
}

/// Rows of memory, as long and as far apart as each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    next: *const u8,
    /// Lines of a row, and bytes from one row to the next.
    lines: usize,
    apart: usize,
    /// Rows left, and lines left of the first of them.
    rows: usize,
    left: usize,
}

impl Rows {
    /// `length` elements of each of `count` rows that are `stride` elements apart, from the first element on.
    pub(crate) fn of<E>(elements: &[E], length: usize, stride: usize, count: usize) -> Self {
        let lines = (length * size_of::<E>()).div_ceil(LINE);
        let apart = stride * size_of::<E>();
        Self {
            next: elements.as_ptr().cast(),
            lines,
            apart,
            rows: if lines > 0 { count } else { 0 },
            left: lines,
        }
    }

    /// The next line, if a row is left.
    #[inline(always)]
    fn step(&mut self) -> Option<*const u8> {
        if self.rows == 0 {
            return None;
        }
        let line = self.next;
        self.next = self.next.wrapping_add(LINE);
        self.left -= 1;
        if self.left == 0 {
            self.next = self.next.wrapping_add(self.apart).wrapping_sub(self.lines * LINE);
            self.left = self.lines;
            self.rows -= 1;
        }
        Some(line)
    }
}

/// Rows that are brought into the cache while something else is computed: some lines at each of its moments.
#[derive(Debug)]
pub(crate) struct Ahead {
    rows: Vec<Rows>,
    of_moment: usize,
}

impl Ahead {
    /// All rows in so many moments; a part of them, if the moments are few.
    pub(crate) fn new(rows: Vec<Rows>, moments: usize) -> Self {
        /// Lines that a processor asks for beside a few products.
        const MOST: usize = 2;
        let lines: usize = rows.iter().map(|rows| rows.lines * rows.rows).sum();
        Self { rows, of_moment: lines.div_ceil(moments.max(1)).min(MOST) }
    }

    #[inline(always)]
    pub(crate) fn step(&mut self) {
        for _ in 0..self.of_moment {
            let Some(line) = self.next_line() else { return };
            address(line);
        }
    }

    #[inline(always)]
    fn next_line(&mut self) -> Option<*const u8> {
        while let Some(rows) = self.rows.last_mut() {
            if let Some(line) = rows.step() {
                return Some(line);
            }
            self.rows.pop();
        }
        None
    }
}

/// Takes the elements of a plain tensor out of all caches of the processor, for measurements: a model with tensors so large that they
/// displace each other reads them from memory at each use. Nothing happens to a tensor on a GPU, and on other processors than x86-64.
pub fn leave_caches<const D: usize>(tensor: &Tensor<D>) {
    if let Some(tensor) = primitive_on::<Flex>(&AnyTensor::from(tensor.clone())) {
        with_values!(StoredFloats::of(&tensor), values => leave(values));
    }
}

fn leave<E>(elements: &[E]) {
    #[cfg(target_arch = "x86_64")]
    for line in elements.chunks((LINE / size_of::<E>()).max(1)) {
        // SAFETY: every x86-64 has the instruction. It writes the line back, so that no element changes.
        unsafe { std::arch::x86_64::_mm_clflush(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = elements;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_rows_is_asked_for_once() {
        let elements = vec![0.0f32; 1000];
        let rows = |first: usize, length, stride, count| Rows::of(&elements[first..], length, stride, count);
        let all = vec![rows(0, 20, 100, 3), rows(500, 0, 10, 2), rows(600, 33, 40, 2)];
        let mut ahead = Ahead::new(all.clone(), 20);
        assert_eq!((ahead.of_moment, Ahead::new(all, 2).of_moment), (1, 2));
        let place = |line: *const u8| (line as usize - elements.as_ptr() as usize) / size_of::<f32>();
        let found: Vec<_> = std::iter::from_fn(|| ahead.next_line()).map(place).collect();
        assert_eq!(found, [600, 616, 632, 640, 656, 672, 0, 16, 100, 116, 200, 216]);
    }
}
