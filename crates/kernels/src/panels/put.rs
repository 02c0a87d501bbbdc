//! Rows and columns on their way into tiles and panels.

use std::ops::Range;

use super::Panelled;
use crate::{
    interleave::interleave,
    simd::SimdLoops,
    stored_float::{StoredFloat, all_widened},
    uninit::Appended,
};

/// Puts rows to multiply into a tile.
pub(crate) trait PutTile {
    /// Puts a range of the rows and of the inner indices into a tile.
    fn put(&self, rows: Range<usize>, inner: Range<usize>, tile: &mut [f32]);
}

/// Rows that can be put into tiles, or one by one.
pub(crate) trait PutRows: PutTile {
    /// Writes a row to `to`, which is as long.
    fn put_row(&self, row: usize, to: &mut [f32]);
}

/// Rows, given by a function.
pub(crate) struct RowsOf<F> {
    pub(super) row: F,
    /// Rows of a tile.
    pub(super) of_tile: usize,
}

impl<'a, E: StoredFloat + 'a, F: Fn(usize) -> &'a [E]> PutTile for RowsOf<F> {
    /// Not inlined: the loops around, as those of an LSTM's cell, would be too long for the compiler to make vectors of them.
    #[inline(never)]
    fn put(&self, rows: Range<usize>, inner: Range<usize>, tile: &mut [f32]) {
        interleave(rows.len(), |index| (self.row)(rows.start + index), inner, tile, self.of_tile);
    }
}

impl<'a, E: StoredFloat + 'a, F: Fn(usize) -> &'a [E]> PutRows for RowsOf<F> {
    #[inline(always)]
    fn put_row(&self, row: usize, to: &mut [f32]) {
        to.iter_mut().zip((self.row)(row)).for_each(|(to, value)| *to = value.widened());
    }
}

/// The columns of a matrix.
pub(crate) struct ColumnsOf<'a, E> {
    pub(super) left: &'a [E],
    /// Elements between the begins of two rows.
    pub(super) stride: usize,
    /// Columns of a tile.
    pub(super) of_tile: usize,
}

impl<E: StoredFloat> PutTile for ColumnsOf<'_, E> {
    #[inline(always)]
    fn put(&self, columns: Range<usize>, inner: Range<usize>, tile: &mut [f32]) {
        let rows = self.left[inner.start * self.stride..].chunks(self.stride);
        for (to, row) in tile.chunks_exact_mut(self.of_tile).zip(rows) {
            let piece = &row[columns.clone()];
            // A copy of constant length is one instruction.
            match piece.len() {
                8 => widen_so_many::<E, 8>(piece, to),
                6 => widen_so_many::<E, 6>(piece, to),
                4 => widen_so_many::<E, 4>(piece, to),
                _ => widen(piece, to),
            }
        }
    }
}

/// Puts a block of rows into panels.
pub(super) struct PutBlock<'a, 'b, F> {
    /// Columns of a panel.
    pub(super) columns: usize,
    pub(super) rows: Range<usize>,
    pub(super) row: &'a F,
    pub(super) panels: &'a mut [Appended<'b>],
}

impl<'e, E: StoredFloat + 'e, F: Fn(usize) -> &'e [E]> SimdLoops for PutBlock<'_, '_, F> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        for row in self.rows {
            for (panel, piece) in self.panels.iter_mut().zip((self.row)(row).chunks(self.columns)) {
                panel.row(piece, self.columns);
            }
        }
    }
}

/// Puts columns, each of which memory holds as a row, into a panel.
pub(super) struct PutColumns<'a, F> {
    pub(super) sizes: Panelled,
    pub(super) columns: Range<usize>,
    pub(super) row: &'a F,
    pub(super) panel: &'a mut [f32],
}

impl<'b, E: StoredFloat + 'b, F: Fn(usize) -> &'b [E]> SimdLoops for PutColumns<'_, F> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { sizes, columns, row, panel } = self;
        let column = |index| row(columns.start + index);
        interleave(columns.len(), column, 0..sizes.inner, panel, sizes.tile.columns);
    }
}

/// Converts elements to 32-bit floats.
#[inline(always)]
pub(super) fn widen<E: StoredFloat>(from: &[E], to: &mut [f32]) {
    // A copy of constant length is one instruction.
    match from.len() {
        32 => widen_so_many::<E, 32>(from, to),
        16 => widen_so_many::<E, 16>(from, to),
        _ => to.iter_mut().zip(from).for_each(|(to, from)| *to = from.widened()),
    }
}

#[inline(always)]
fn widen_so_many<E: StoredFloat, const COUNT: usize>(from: &[E], to: &mut [f32]) {
    if let (Some(to), Some(from)) = (to.first_chunk_mut::<COUNT>(), from.first_chunk::<COUNT>()) {
        *to = all_widened(from);
    }
}
