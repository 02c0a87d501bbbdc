//! The sizes of a matrix in panels, and how the matrix and the rows to multiply are packed.

use std::{mem::MaybeUninit, ops::Range};

use burn_flex::FlexTensor;

use super::{
    DEPTH,
    put::{ColumnsOf, PutBlock, PutColumns, PutTile, RowsOf, widen},
};
use crate::{
    flex_tensor::vector,
    interleave::interleave,
    prefetch,
    simd::{by_vectors, vectorised},
    stored_float::{StoredFloat, all_widened},
    tile::Tile,
    uninit::{self, Appended},
    workers,
};

/// Rows that are brought into the cache before they are packed.
const AHEAD: usize = 8;

/// The sizes of a matrix in panels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panelled {
    /// Rows of the matrix.
    pub(crate) inner: usize,
    /// Columns of the matrix.
    pub(crate) columns: usize,
    /// Multiples of its rows are multiplied without waste.
    pub(crate) tile: Tile,
}

impl Panelled {
    /// A matrix of `inner` rows and `columns` columns.
    pub(crate) fn new(inner: usize, columns: usize) -> Self {
        Self { inner, columns, tile: Tile::low() }
    }

    /// As [`new`](Self::new), for many rows.
    pub(crate) fn for_many_rows(inner: usize, columns: usize) -> Self {
        Self { inner, columns, tile: Tile::high() }
    }

    /// Elements of all panels.
    pub(crate) fn elements(self) -> usize {
        self.inner * self.tile.padded_columns(self.columns)
    }

    /// Elements of the workspace to multiply `rows` rows: the rows in tiles, and their results in the last panel.
    pub(crate) fn elements_beside(self, rows: usize) -> usize {
        self.tile.padded_rows(rows) * (self.inner + self.tile.columns)
    }

    /// The panels of `matrix`, in row-major order.
    pub(crate) fn of_rows(self, matrix: &[f32]) -> FlexTensor {
        vector(self.packed_rows(|row| &matrix[row * self.columns..][..self.columns]))
    }

    /// The panels of a matrix, whose rows `row` gives.
    pub(crate) fn packed_rows<'b, E: StoredFloat + 'b>(
        self,
        row: impl Fn(usize) -> &'b [E] + Sync,
    ) -> Vec<f32> {
        self.packed_blocks(|rows, panels| self.put_block(rows, panels, &row))
    }

    /// The panels of a matrix. `put` appends a range of its rows to them.
    pub(crate) fn packed_blocks(self, put: impl Fn(Range<usize>, &mut [Appended<'_>]) + Sync) -> Vec<f32> {
        let sizes = [self.of_panel(), self.of_block()];
        uninit::striped_anew(self.elements(), sizes, |block, panels| put(self.rows_of(block), panels))
    }

    /// Writes the rows of a matrix to `panels`, which has [`elements`](Self::elements). `change` then changes pieces of the panels.
    pub(crate) fn put_rows<'a, 'b, E: StoredFloat + 'b>(
        self,
        row: impl Fn(usize) -> &'b [E] + Sync,
        panels: &'a mut [MaybeUninit<f32>],
        change: impl Fn(&mut [f32]) + Sync,
    ) -> &'a mut [f32] {
        let fill = |block, panels: &mut [Appended<'_>]| self.put_block(self.rows_of(block), panels, &row);
        uninit::striped(panels, [self.of_panel(), self.of_block()], fill, |piece| {
            by_vectors(|| change(piece))
        })
    }

    /// Rows that a task puts into panels. It reads them whole, as the processor foresees.
    fn rows_of_block(self) -> usize {
        self.inner.div_ceil(4 * workers::threads()).clamp(8, 64)
    }

    /// Elements of a block of rows in a panel.
    fn of_block(self) -> usize {
        self.rows_of_block() * self.tile.columns
    }

    /// The rows of a block.
    fn rows_of(self, block: usize) -> Range<usize> {
        block * self.rows_of_block()..((block + 1) * self.rows_of_block()).min(self.inner)
    }

    fn put_block<'b, E: StoredFloat + 'b>(
        self,
        rows: Range<usize>,
        panels: &mut [Appended<'_>],
        row: &impl Fn(usize) -> &'b [E],
    ) {
        vectorised(PutBlock { columns: self.tile.columns, rows, row, panels });
    }

    #[inline(always)]
    fn put_rows_in_panel<'b, E: StoredFloat + 'b>(
        self,
        row: impl Fn(usize) -> &'b [E],
        columns: Range<usize>,
        panel: &mut [f32],
    ) {
        for (index, to) in panel.chunks_exact_mut(self.tile.columns).enumerate() {
            widen(&row(index)[columns.clone()], to);
        }
    }

    /// The panels of the transpose of `matrix`.
    pub(crate) fn of_columns(self, matrix: &[f32]) -> FlexTensor {
        vector(self.packed_columns(|row| &matrix[row * self.inner..][..self.inner]))
    }

    /// The panels of the transpose of a matrix, whose rows `row` gives.
    pub(crate) fn packed_columns<'b, E: StoredFloat + 'b>(
        self,
        row: impl Fn(usize) -> &'b [E] + Sync,
    ) -> Vec<f32> {
        uninit::filled_anew(self.elements(), self.of_panel(), |index, panel| {
            vectorised(PutColumns { sizes: self, columns: self.columns_of(index), row: &row, panel });
        })
    }

    /// Writes the rows of a matrix to `panels`, in the calling thread. Panels of fewer columns keep what stands behind them.
    #[inline(always)]
    pub(crate) fn pack_rows<'b>(self, row: impl Fn(usize) -> &'b [f32], panels: &mut [f32]) {
        for (index, panel) in self.panels_of(panels).enumerate() {
            self.put_rows_in_panel(&row, self.columns_of(index), panel);
        }
    }

    /// As [`pack_rows`](Self::pack_rows), from the rows of the transpose.
    #[inline(always)]
    pub(crate) fn pack_columns<'b>(self, row: impl Fn(usize) -> &'b [f32], panels: &mut [f32]) {
        for (index, panel) in self.panels_of(panels).enumerate() {
            let columns = self.columns_of(index);
            let column = |index| row(columns.start + index);
            interleave(columns.len(), column, 0..self.inner, panel, self.tile.columns);
        }
    }

    fn panels_of(self, panels: &mut [f32]) -> impl Iterator<Item = &mut [f32]> {
        panels.chunks_exact_mut(self.of_panel()).take(self.columns.div_ceil(self.tile.columns))
    }

    /// Elements of a panel.
    pub(super) fn of_panel(self) -> usize {
        (self.inner * self.tile.columns).max(1)
    }

    /// The columns of the matrix in a panel.
    fn columns_of(self, panel: usize) -> Range<usize> {
        let first = panel * self.tile.columns;
        first..(first + self.tile.columns).min(self.columns)
    }

    /// Puts `count` rows into `tiles`, part by part of [`DEPTH`].
    #[inline(always)]
    pub(crate) fn in_tiles(self, count: usize, put: impl PutTile, tiles: &mut [f32]) -> &[f32] {
        let rows = self.tile.rows;
        let padded = self.tile.padded_rows(count);
        let elements = &mut tiles[..padded * self.inner];
        for (part, tiles) in elements.chunks_mut((DEPTH * padded).max(1)).enumerate() {
            let depth = tiles.len() / padded;
            let inner = part * DEPTH..part * DEPTH + depth;
            for (index, tile) in tiles.chunks_exact_mut((depth * rows).max(1)).enumerate() {
                put.put(index * rows..(index * rows + rows).min(count), inner.clone(), tile);
            }
        }
        elements
    }

    /// Puts `sums.len()` columns of `left`, whose rows are `stride` apart, into tiles at the begin of `beside`, and adds each to its sum.
    /// Gives the tiles and the rest of `beside`.
    #[inline(always)]
    pub(crate) fn columns_in_tiles<'b, E: StoredFloat>(
        self,
        left: &[E],
        stride: usize,
        sums: &mut [f32],
        beside: &'b mut [f32],
    ) -> (&'b [f32], &'b mut [f32]) {
        match self.tile.rows {
            12 => self.columns_in_tiles_of::<E, 12>(left, stride, sums, beside),
            8 => self.columns_in_tiles_of::<E, 8>(left, stride, sums, beside),
            6 => self.columns_in_tiles_of::<E, 6>(left, stride, sums, beside),
            _ => self.columns_in_tiles_of::<E, 4>(left, stride, sums, beside),
        }
    }

    /// Row by row of `left`, so that each row is read once.
    #[inline(always)]
    fn columns_in_tiles_of<'b, E: StoredFloat, const ROWS: usize>(
        self,
        left: &[E],
        stride: usize,
        sums: &mut [f32],
        beside: &'b mut [f32],
    ) -> (&'b [f32], &'b mut [f32]) {
        let (count, padded) = (sums.len(), self.tile.padded_rows(sums.len()));
        let (tiles, last) = beside.split_at_mut(padded * self.inner);
        let mut rows = left.chunks(stride.max(1));
        let mut ahead = rows.clone().skip(AHEAD);
        for tiles in tiles.chunks_mut((DEPTH * padded).max(1)) {
            let depth = tiles.len() / padded;
            for (index, row) in rows.by_ref().take(depth).enumerate() {
                if let Some(next) = ahead.next() {
                    prefetch::all(&next[..count.min(next.len())]);
                }
                let mut pieces = tiles[index * ROWS..].chunks_mut(depth * ROWS);
                let (whole, rest) = row[..count].as_chunks::<ROWS>();
                let (whole_sums, rest_sums) = sums.as_chunks_mut::<ROWS>();
                for ((sums, values), piece) in whole_sums.iter_mut().zip(whole).zip(pieces.by_ref()) {
                    if let Some(piece) = piece.first_chunk_mut::<ROWS>() {
                        // Of copies, so that both are vectors.
                        let (wide, mut sum) = (all_widened(values), *sums);
                        for at in 0..ROWS {
                            sum[at] += wide[at];
                        }
                        (*sums, *piece) = (sum, wide);
                    }
                }
                for ((sum, value), to) in
                    rest_sums.iter_mut().zip(rest).zip(pieces.next().into_iter().flatten())
                {
                    *to = value.widened();
                    *sum += *to;
                }
            }
        }
        (tiles, last)
    }

    /// Puts rows, given by `row`, into tiles.
    #[inline(always)]
    pub(crate) fn put_rows_of<F>(self, row: F) -> RowsOf<F> {
        RowsOf { row, of_tile: self.tile.rows }
    }

    /// Puts columns of `left`, whose rows are `stride` apart, into tiles.
    #[inline(always)]
    pub(crate) fn put_columns_of<E>(self, left: &[E], stride: usize) -> ColumnsOf<'_, E> {
        ColumnsOf { left, stride, of_tile: self.tile.rows }
    }
}
