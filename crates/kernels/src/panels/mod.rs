//! Products with a matrix stored in panels. A panel holds the columns of a tile side by side, inner index by inner index.
//!
//! A matrix that is multiplied by many rows, one batch of rows after the other, is put into panels once. The products then
//! run inside our kernels, without a tensor for each.
//!
//! Every result is one sum in a fixed order, in parts of [`DEPTH`]: it does not depend on the number of rows.

mod put;
mod sizes;
#[cfg(test)]
mod tests;

pub(crate) use self::{
    put::{PutRows, PutTile, RowsOf},
    sizes::Panelled,
};
use crate::{
    simd::SimdLoops,
    tile::{Factors, MOST_COLUMNS, Onto, Start, TakeTile, TileColumn},
};

/// Inner indices multiplied at once: that many rows of a panel fit into the first-level cache.
pub(crate) const DEPTH: usize = 256;

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
        self.multiply_tiles(count, tiles, output, last, Start::adding(add));
    }

    /// As [`multiply`](Self::multiply), for rows that are in `tiles` already. The product is added to `start`, whose row is as long as the
    /// matrix has columns. `last` has room for the products with a panel.
    #[inline(always)]
    pub(crate) fn multiply_tiles(
        &self,
        count: usize,
        tiles: &[f32],
        output: OutputRows<'_>,
        last: &mut [f32],
        start: Start<'_>,
    ) {
        let Panelled { inner, columns, tile } = self.sizes;
        let OutputRows { elements: output, stride } = output;
        if inner == 0 {
            // The sums have no terms.
            start.write(output, stride, [count, columns]);
            return;
        }
        let panels = (0..self.elements.len()).step_by(self.stride);
        for (panel, first) in panels.zip((0..columns).step_by(tile.columns)) {
            let width = tile.columns.min(columns - first);
            let output = OutputRows { elements: &mut output[first..], stride };
            if width == tile.columns {
                self.multiply_panel(panel, tiles, output, start.from(first), None);
            } else {
                self.multiply_last(panel, tiles, output, [count, width], last, start.from(first));
            }
        }
    }

    /// The products with a panel of fewer columns than a tile. A tile writes whole rows, and the memory behind the last column belongs to
    /// others.
    #[inline(always)]
    fn multiply_last(
        &self,
        begin: usize,
        tiles: &[f32],
        output: OutputRows<'_>,
        [count, width]: [usize; 2],
        last: &mut [f32],
        start: Start<'_>,
    ) {
        let columns = self.sizes.tile.columns;
        let mut whole_row = [0.0; MOST_COLUMNS];
        let row = start.row.map(|row| {
            whole_row[..width].copy_from_slice(&row[..width]);
            &whole_row[..]
        });
        let before = match start.onto {
            Onto::Nothing => None,
            Onto::Sums => Some(&*output.elements),
            Onto::Rows(rows) => Some(rows),
        };
        if let Some(before) = before {
            let rows = last.chunks_exact_mut(columns).zip(before.chunks(output.stride));
            rows.take(count).for_each(|(to, row)| to[..width].copy_from_slice(&row[..width]));
        }
        let start = Start { row, ..Start::adding(before.is_some()) };
        let padded = OutputRows { elements: &mut *last, stride: columns };
        self.multiply_panel(begin, tiles, padded, start, None);
        let rows = last.chunks_exact(columns).zip(output.elements.chunks_mut(output.stride));
        rows.take(count).for_each(|(from, row)| row[..width].copy_from_slice(&from[..width]));
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
            self.multiply_panel(begin, tiles, output, Start::default(), Some(&mut |rows| write(rows, width)));
        }
    }

    /// The products with the panel that begins with an element. `then` takes the rows of each tile when they are complete.
    #[inline(always)]
    fn multiply_panel(
        &self,
        begin: usize,
        tiles: &[f32],
        output: OutputRows<'_>,
        start: Start<'_>,
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
                start: if first == 0 { start } else { Start::adding(true) },
                then: None,
            };
            match &mut then {
                Some(then) if first + depth == inner => TileColumn { then: Some(*then), ..column }.compute(),
                _ => column.compute(),
            }
        }
    }
}
