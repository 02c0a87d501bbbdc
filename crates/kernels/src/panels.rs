//! Products with a matrix stored in panels. A panel holds the columns of a tile side by side, inner index by inner index.
//!
//! A matrix that is multiplied by many rows, one batch of rows after the other, is put into panels once. The products then
//! run inside our kernels, without a tensor for each.
//!
//! Every result is one sum in a fixed order, in parts of [`DEPTH`]: it does not depend on the number of rows.

use std::{mem::MaybeUninit, ops::Range};

use burn_flex::FlexTensor;

use crate::{
    flex_tensor::vector,
    interleave::interleave,
    prefetch,
    simd::{SimdLoops, by_vectors, vectorised},
    stored_float::StoredFloat,
    tile::{Factors, TakeTile, Tile, TileColumn},
    uninit::{self, Appended},
    workers,
};

/// Inner indices multiplied at once: that many rows of a panel fit into the first-level cache.
pub(crate) const DEPTH: usize = 256;

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
    fn of_panel(self) -> usize {
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
    row: F,
    of_tile: usize,
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
    left: &'a [E],
    /// Elements between the begins of two rows.
    stride: usize,
    of_tile: usize,
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
struct PutBlock<'a, 'b, F> {
    /// Columns of a panel.
    columns: usize,
    rows: Range<usize>,
    row: &'a F,
    panels: &'a mut [Appended<'b>],
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
struct PutColumns<'a, F> {
    sizes: Panelled,
    columns: Range<usize>,
    row: &'a F,
    panel: &'a mut [f32],
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

/// Copies columns of rows.
pub(crate) struct CopyRows<'a, 'b> {
    pub(crate) from: &'a OutputRows<'b>,
    pub(crate) to: &'a mut OutputRows<'b>,
    pub(crate) count: usize,
    pub(crate) columns: usize,
}

impl SimdLoops for CopyRows<'_, '_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { from, to, count, columns } = self;
        let from = from.elements.chunks(from.stride).take(count);
        for (to, from) in to.elements.chunks_mut(to.stride).zip(from) {
            to[..columns].copy_from_slice(&from[..columns]);
        }
    }
}

/// A matrix in panels, to multiply rows by.
pub(crate) struct Panels<'a> {
    elements: &'a [f32],
    pub(crate) sizes: Panelled,
    /// Elements between the begins of two panels.
    stride: usize,
}

impl<'a> Panels<'a> {
    pub(crate) fn new(elements: &'a [f32], sizes: Panelled) -> Self {
        Self { elements, sizes, stride: sizes.of_panel() }
    }

    /// The first `inner` rows of the matrix.
    pub(crate) fn first_rows(self, inner: usize) -> Self {
        Self { sizes: Panelled { inner, ..self.sizes }, ..self }
    }

    /// Multiplies `count` rows by the matrix. Writes the product to the rows of `output`, or adds it if `add`.
    /// `beside` is a workspace of [`Panelled::elements_beside`].
    #[inline(always)]
    pub(crate) fn multiply(
        &self,
        count: usize,
        put: impl PutTile,
        output: OutputRows<'_>,
        beside: &mut [f32],
        add: bool,
    ) {
        let (tiles, last) = beside.split_at_mut(self.sizes.tile.padded_rows(count) * self.sizes.inner);
        let tiles = self.sizes.in_tiles(count, put, tiles);
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
        let panels = (0..self.elements.len()).step_by(self.stride);
        for (panel, first) in panels.zip((0..columns).step_by(tile.columns)) {
            let width = tile.columns.min(columns - first);
            if width == tile.columns {
                let output = OutputRows { elements: &mut output[first..], stride };
                self.multiply_panel(panel, tiles, output, add, None);
                continue;
            }
            // A tile writes whole rows, and the memory behind the last column belongs to others.
            if add {
                let rows = last.chunks_exact_mut(tile.columns).zip(output[first..].chunks(stride));
                rows.take(count).for_each(|(to, row)| to[..width].copy_from_slice(&row[..width]));
            }
            let padded = OutputRows { elements: &mut *last, stride: tile.columns };
            self.multiply_panel(panel, tiles, padded, add, None);
            for (from, row) in
                last.chunks_exact(tile.columns).zip(output[first..].chunks_mut(stride)).take(count)
            {
                row[..width].copy_from_slice(&from[..width]);
            }
        }
    }

    /// Multiplies rows in `tiles` by the matrix, panel by panel. `write` takes the rows of each tile, as long as its columns, and how many
    /// of these are columns of the matrix. `sums` has room for the products with a panel.
    #[inline(always)]
    pub(crate) fn each_tile(&self, tiles: &[f32], sums: &mut [f32], mut write: impl FnMut(&[f32], usize)) {
        let Panelled { inner, columns, tile } = self.sizes;
        for (index, first) in (0..columns).step_by(tile.columns).enumerate() {
            let width = tile.columns.min(columns - first);
            if inner == 0 {
                // The sums have no terms.
                sums.fill(0.0);
                write(sums, width);
                continue;
            }
            let output = OutputRows { elements: &mut *sums, stride: tile.columns };
            let begin = index * self.stride;
            self.multiply_panel(begin, tiles, output, false, Some(&mut |rows| write(rows, width)));
        }
    }

    /// The products with the panel that begins with an element. `then` takes the rows of each tile when they are complete.
    #[inline(always)]
    fn multiply_panel(
        &self,
        begin: usize,
        tiles: &[f32],
        output: OutputRows<'_>,
        add: bool,
        mut then: Option<&mut TakeTile<'_>>,
    ) {
        let OutputRows { elements: sums, stride } = output;
        let Panelled { inner, tile, .. } = self.sizes;
        let padded = tiles.len() / inner;
        for first in (0..inner).step_by(DEPTH) {
            let depth = DEPTH.min(inner - first);
            let (panel, next) = self.elements[begin + first * tile.columns..].split_at(depth * tile.columns);
            let next = &next[..next.len().min(DEPTH * tile.columns)];
            let tiles = &tiles[first * padded..][..depth * padded];
            let factors = Factors::Panel { tiles, tile, panel };
            let column = TileColumn {
                factors,
                next,
                ahead: None,
                sums: &mut *sums,
                stride,
                add: add || first > 0,
                then: None,
            };
            match &mut then {
                Some(then) if first + depth == inner => TileColumn { then: Some(*then), ..column }.compute(),
                _ => column.compute(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
