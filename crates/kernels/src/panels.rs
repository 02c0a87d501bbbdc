//! Products with a matrix stored in panels. A panel holds the columns of a tile side by side, inner index by inner index.
//!
//! A matrix that is multiplied by many rows, one batch of rows after the other, is put into panels once. The products then
//! run inside our kernels, without a tensor for each.
//!
//! Every result is one sum in a fixed order, in parts of [`DEPTH`]: it does not depend on the number of rows.

use std::{mem::MaybeUninit, ops::Range};

use burn_flex::FlexTensor;
use oomph_core::{Account, charge};

use crate::{
    flex_tensor::vector,
    interleave::interleave,
    simd::by_vectors,
    stored_float::StoredFloat,
    tile::{RightMatrix, Tile, TileColumn},
    uninit,
};

/// Inner indices multiplied at once: that many rows of a panel fit into the first-level cache.
const DEPTH: usize = 256;

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
        Self { inner, columns, tile: Tile::of_this_processor() }
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
        self.made(|columns, panel| by_vectors(|| self.put_rows_in_panel(&row, columns, panel)))
    }

    /// Writes the rows of a matrix to `panels`, which has [`elements`](Self::elements). `change` then changes each panel.
    pub(crate) fn put_rows<'a, 'b, E: StoredFloat + 'b>(
        self,
        row: impl Fn(usize) -> &'b [E] + Sync,
        panels: &'a mut [MaybeUninit<f32>],
        change: impl Fn(&mut [f32]) + Sync,
    ) -> &'a mut [f32] {
        uninit::filled(panels, self.of_panel(), |index, panel| {
            by_vectors(|| {
                self.put_rows_in_panel(&row, self.columns_of(index), panel);
                change(panel);
            });
        })
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
        self.made(|columns, panel| {
            by_vectors(|| {
                let column = |index| row(columns.start + index);
                interleave(columns.len(), column, 0..self.inner, panel, self.tile.columns);
            });
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

    /// Panels that `fill` fills with the given columns; other columns are zeros.
    fn made(self, fill: impl Fn(Range<usize>, &mut [f32]) + Sync) -> Vec<f32> {
        let fill = |index, panel: &mut [f32]| fill(self.columns_of(index), panel);
        uninit::filled_anew(self.elements(), self.of_panel(), fill)
    }

    /// Elements of a panel.
    fn of_panel(self) -> usize {
        (self.inner * self.tile.columns).max(1)
    }

    /// The columns of the matrix in a panel.
    fn columns_of(self, panel: usize) -> Range<usize> {
        let first = panel * self.tile.columns;
        first..(first + self.tile.columns).min(self.columns)
    }

    /// Fills the tiles of `count` rows, part by part of [`DEPTH`].
    #[inline(always)]
    fn each_tile(
        self,
        count: usize,
        tiles: &mut [f32],
        put: impl Fn(Range<usize>, Range<usize>, &mut [f32]),
    ) {
        let rows = self.tile.rows;
        let padded = self.tile.padded_rows(count);
        for (part, tiles) in tiles.chunks_mut((DEPTH * padded).max(1)).enumerate() {
            let depth = tiles.len() / padded;
            let inner = part * DEPTH..part * DEPTH + depth;
            for (index, tile) in tiles.chunks_exact_mut((depth * rows).max(1)).enumerate() {
                put(index * rows..(index * rows + rows).min(count), inner.clone(), tile);
            }
        }
    }

    /// Puts `count` rows into tiles at the begin of `beside`, as [`Panels::multiply`] does. Gives the tiles and the rest of
    /// `beside`.
    #[inline(always)]
    pub(crate) fn in_tiles(
        self,
        count: usize,
        put: impl Fn(Range<usize>, Range<usize>, &mut [f32]),
        beside: &mut [f32],
    ) -> (&[f32], &mut [f32]) {
        let (tiles, last) = beside.split_at_mut(self.tile.padded_rows(count) * self.inner);
        self.each_tile(count, tiles, put);
        (tiles, last)
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
            8 => self.columns_in_tiles_of::<E, 8>(left, stride, sums, beside),
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
        for tiles in tiles.chunks_mut((DEPTH * padded).max(1)) {
            let depth = tiles.len() / padded;
            for (index, row) in rows.by_ref().take(depth).enumerate() {
                let mut pieces = tiles[index * ROWS..].chunks_mut(depth * ROWS);
                let (whole, rest) = row[..count].as_chunks::<ROWS>();
                let (whole_sums, rest_sums) = sums.as_chunks_mut::<ROWS>();
                for ((sums, values), piece) in whole_sums.iter_mut().zip(whole).zip(pieces.by_ref()) {
                    if let Some(piece) = piece.first_chunk_mut::<ROWS>() {
                        // Of copies, so that both are vectors.
                        let (mut wide, mut sum) = ([0.0; ROWS], *sums);
                        for at in 0..ROWS {
                            wide[at] = values[at].widened();
                        }
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

    /// A function that puts rows, given by `row`, into a tile.
    #[inline(always)]
    pub(crate) fn put_rows_of<'b, E: StoredFloat + 'b>(
        self,
        row: impl Fn(usize) -> &'b [E],
    ) -> impl Fn(Range<usize>, Range<usize>, &mut [f32]) {
        move |rows, inner, tile| {
            interleave(rows.len(), |index| row(rows.start + index), inner, tile, self.tile.rows);
        }
    }

    /// A function that puts columns of `left`, whose rows are `stride` apart, into a tile.
    #[inline(always)]
    pub(crate) fn put_columns_of<E: StoredFloat>(
        self,
        left: &[E],
        stride: usize,
    ) -> impl Fn(Range<usize>, Range<usize>, &mut [f32]) {
        move |columns, inner, tile| {
            let left = left[inner.start * stride..].chunks(stride);
            let pieces = tile.chunks_exact_mut(self.tile.rows).zip(left.map(|row| &row[columns.clone()]));
            // A copy of constant length is one instruction.
            match columns.len() {
                8 => pieces.for_each(|(to, piece)| widen_so_many::<E, 8>(piece, to)),
                4 => pieces.for_each(|(to, piece)| widen_so_many::<E, 4>(piece, to)),
                _ => pieces.for_each(|(to, piece)| widen(piece, to)),
            }
        }
    }
}

/// Converts elements to 32-bit floats.
#[inline(always)]
fn widen<E: StoredFloat>(from: &[E], to: &mut [f32]) {
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
        to.iter_mut().zip(from).for_each(|(to, from)| *to = from.widened());
    }
}

/// Rows of a result. Each begins `stride` elements behind the one before.
pub(crate) struct OutputRows<'a> {
    pub(crate) elements: &'a mut [f32],
    pub(crate) stride: usize,
}

/// A matrix in panels, to multiply rows by.
pub(crate) struct Panels<'a> {
    elements: &'a [f32],
    pub(crate) sizes: Panelled,
    /// The offset of each inner index in a panel.
    offsets: Vec<u32>,
}

impl<'a> Panels<'a> {
    pub(crate) fn new(elements: &'a [f32], sizes: Panelled) -> Self {
        let offsets = charge(Account::Host, || sizes.tile.panel_offsets(sizes.inner.min(DEPTH)));
        Self { elements, sizes, offsets }
    }

    /// Multiplies `count` rows by the matrix. Writes the product to the rows of `output`, or adds it if `add`.
    /// `put` takes a range of rows, a range of inner indices and a tile, and puts the rows into the tile. `beside` is a
    /// workspace of [`Panelled::elements_beside`].
    #[inline(always)]
    pub(crate) fn multiply(
        &self,
        count: usize,
        put: impl Fn(Range<usize>, Range<usize>, &mut [f32]),
        output: OutputRows<'_>,
        beside: &mut [f32],
        add: bool,
    ) {
        let (tiles, last) = self.sizes.in_tiles(count, put, beside);
        self.multiply_tiles(count, tiles, output, last, add);
    }

    /// As [`multiply`](Self::multiply), for rows that are in `tiles` already.
    #[inline(always)]
    pub(crate) fn multiply_tiles(
        &self,
        count: usize,
        tiles: &[f32],
        output: OutputRows<'_>,
        last: &mut [f32],
        add: bool,
    ) {
        let Panelled { inner, columns, tile } = self.sizes;
        let OutputRows { elements: output, stride } = output;
        if inner == 0 && !add {
            // The sums have no terms.
            output.chunks_mut(stride).take(count).for_each(|row| row[..columns].fill(0.0));
        }
        let panels = self.elements.chunks_exact((inner * tile.columns).max(1));
        for (panel, first) in panels.zip((0..columns).step_by(tile.columns)) {
            let width = tile.columns.min(columns - first);
            if width == tile.columns {
                let output = OutputRows { elements: &mut output[first..], stride };
                self.multiply_panel(panel, tiles, output, add);
                continue;
            }
            // A tile writes whole rows, and the memory behind the last column belongs to others.
            if add {
                let rows = last.chunks_exact_mut(tile.columns).zip(output[first..].chunks(stride));
                rows.take(count).for_each(|(to, row)| to[..width].copy_from_slice(&row[..width]));
            }
            let padded = OutputRows { elements: &mut *last, stride: tile.columns };
            self.multiply_panel(panel, tiles, padded, add);
            for (from, row) in
                last.chunks_exact(tile.columns).zip(output[first..].chunks_mut(stride)).take(count)
            {
                row[..width].copy_from_slice(&from[..width]);
            }
        }
    }

    #[inline(always)]
    fn multiply_panel(&self, panel: &[f32], tiles: &[f32], output: OutputRows<'_>, add: bool) {
        let OutputRows { elements: sums, stride } = output;
        let Panelled { inner, tile, .. } = self.sizes;
        let padded = tiles.len() / inner;
        let parts = panel.chunks(DEPTH * tile.columns).zip(tiles.chunks(DEPTH * padded));
        for (part, (elements, left)) in parts.enumerate() {
            let offsets = &self.offsets[..elements.len() / tile.columns];
            let right = RightMatrix { elements, runs: [0, tile.run()], offsets };
            TileColumn { left, right, sums: &mut *sums, stride, add: add || part > 0 }.compute();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{SimdLoops, vectorised};

    struct Product<'a> {
        panels: &'a Panels<'a>,
        left: &'a [f32],
        rows: usize,
        add: bool,
        output: &'a mut [f32],
        stride: usize,
        beside: &'a mut [f32],
    }

    impl SimdLoops for Product<'_> {
        #[inline(always)]
        fn run<const FUSED: bool>(self) {
            let Self { panels, left, rows, add, output, stride, beside } = self;
            let inner = panels.sizes.inner;
            let put = panels.sizes.put_rows_of(|row| &left[row * inner..][..inner]);
            panels.multiply(rows, put, OutputRows { elements: output, stride }, beside, add);
        }
    }

    #[test]
    fn a_product_by_panels_is_the_sum_of_products() {
        for (rows, inner, columns) in [
            (1, 1, 1),
            (4, 3, 16),
            (7, 20, 28),
            (3, 5, 17),
            (8, 16, 48),
            (17, 260, 64),
            (9, 600, 33),
            (2, 0, 5),
        ] {
            let value = |index: usize| (index * 37 % 11) as f32 - 5.0;
            let matrix: Vec<f32> = (3..inner * columns + 3).map(value).collect();
            let transposed: Vec<f32> =
                (0..inner * columns).map(|at| matrix[at % inner * columns + at / inner]).collect();
            let left: Vec<f32> = (0..rows * inner).map(value).collect();
            // The product must not write the elements between two rows of the output.
            let stride = columns + 2;
            let sizes = Panelled::new(inner, columns);
            let both = [sizes.of_rows(&matrix), sizes.of_columns(&transposed)];
            for (panels, add) in both.iter().flat_map(|panels| [(panels, true), (panels, false)]) {
                let mut output = vec![1.0; rows * stride - 2];
                let mut beside = vec![0.0; sizes.elements_beside(rows)];
                let panels = &Panels::new(panels.storage(), sizes);
                let (made, beside) = (&mut output, &mut beside);
                vectorised(Product { panels, left: &left, rows, add, output: made, stride, beside });
                for (at, found) in output.iter().enumerate() {
                    let (row, column) = (at / stride, at % stride);
                    let products = (0..inner).map(|k| left[row * inner + k] * matrix[k * columns + column]);
                    let expected = match column < columns {
                        true => products.sum::<f32>() + if add { 1.0 } else { 0.0 },
                        false => 1.0,
                    };
                    // Small whole numbers are exact in any order.
                    assert_eq!(*found, expected, "{rows} × {inner} × {columns} at {at}, add: {add}");
                }
            }
        }
    }
}
