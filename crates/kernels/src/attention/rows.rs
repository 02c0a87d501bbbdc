use std::ops::Range;

use super::{heads::Heads, rotary::rotate};
use crate::stored_float::StoredFloats;

/// The rows of one sample: its positions.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) values: StoredFloats<'a>,
    /// Elements before the first position of the sample.
    pub(super) start: usize,
    /// Elements of a position.
    pub(super) width: usize,
    /// Elements of a head.
    pub(super) size: usize,
}

impl Rows<'_> {
    /// Copies `positions` of the head that begins at `column`, times `factor`.
    #[inline(always)]
    pub(super) fn load(self, positions: Range<usize>, column: usize, factor: f32, to: &mut [f32]) {
        for (position, to) in positions.zip(to.chunks_exact_mut(self.size)) {
            self.values.load(self.start + position * self.width + column, to);
            if factor != 1.0 {
                to.iter_mut().for_each(|value| *value *= factor);
            }
        }
    }

    /// As [`load`](Self::load); with angles, turned.
    #[inline(always)]
    pub(super) fn load_turned(
        self,
        positions: Range<usize>,
        column: usize,
        factor: f32,
        angles: &[f32],
        to: &mut [f32],
    ) {
        self.load(positions.clone(), column, factor, to);
        if angles.is_empty() {
            return;
        }
        for (position, row) in positions.zip(to.chunks_exact_mut(self.size)) {
            rotate::<false>(row, &angles[position * self.size..][..self.size]);
        }
    }
}

impl Heads {
    /// The columns where a head of queries, its keys and its values begin.
    pub(super) fn columns(self, query: usize) -> [usize; 3] {
        let key = query / self.group();
        [
            query * self.size,
            self.of_queries() + key * self.size,
            self.of_queries() + self.of_keys() + key * self.size,
        ]
    }
}
