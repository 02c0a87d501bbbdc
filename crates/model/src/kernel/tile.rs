//! Products of matrices, a tile of the result at a time: the sums of a tile stay in registers.
//!
//! These are the only loops of our kernels that use vector instructions by name: written as plain arrays they are
//! not vectorised and compute 5 GFLOP/s, and 160 of about 170 possible as they are (one core, AVX-512).

use macerator::{Arch, Scalar, Simd, Vector, WithSimd, vload_unaligned, vstore_unaligned};

/// Vectors side by side in a tile.
const VECTORS: usize = 2;

/// Rows and columns of the tiles that this processor computes. The sums take half of the registers at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl Tile {
    pub(super) fn of_this_processor() -> Self {
        Arch::new().dispatch(Asked)
    }

    /// Columns that lie side by side in memory, wherever the next ones are.
    pub(super) fn run(self) -> usize {
        self.columns / VECTORS
    }

    /// Where the rows of a panel are, in which a tile's columns lie side by side.
    pub(super) fn panel_offsets(self, rows: usize) -> Vec<u32> {
        (0..rows).map(|row| (row * self.columns) as u32).collect()
    }

    /// Rows of whole tiles.
    pub(super) fn padded_rows(self, rows: usize) -> usize {
        rows.next_multiple_of(self.rows)
    }

    /// Columns of whole tiles.
    pub(super) fn padded_columns(self, columns: usize) -> usize {
        columns.next_multiple_of(self.columns)
    }
}

struct Asked;

impl WithSimd for Asked {
    type Output = Tile;

    fn with_simd<S: Simd>(self) -> Tile {
        Tile { rows: if has_many_registers::<S>() { 8 } else { 4 }, columns: VECTORS * S::lanes32() }
    }
}

/// 32 instead of 16 of them.
fn has_many_registers<S: Simd>() -> bool {
    S::lanes32() >= 16 || cfg!(target_arch = "aarch64")
}

/// The right matrix of a product: its row of inner index i is at `offsets[i]`.
#[derive(Clone, Copy)]
pub(super) struct Right<'a> {
    pub(super) elements: &'a [f32],
    /// Where each run of columns begins, counted from the row's offset.
    pub(super) runs: [usize; VECTORS],
    pub(super) offsets: &'a [u32],
}

/// Tiles of a result one below the other: each is that many rows of `left` times `right`.
pub(super) struct Column<'a> {
    /// For each tile, of every inner index the elements of its rows.
    pub(super) left: &'a [f32],
    pub(super) right: Right<'a>,
    /// Rows of `stride` elements. The tiles begin at the first.
    pub(super) sums: &'a mut [f32],
    pub(super) stride: usize,
    /// Whether the products are added to what stands there.
    pub(super) add: bool,
}

impl Column<'_> {
    /// Computes them.
    pub(super) fn compute(self) {
        Arch::new().dispatch(self);
    }

    #[inline(always)]
    fn tiles<S: Simd, const ROWS: usize>(self) {
        let Self { left, right: Right { elements, runs, offsets }, sums, stride, add } = self;
        let last =
            runs.into_iter().max().unwrap_or(0) + offsets.iter().max().map_or(0, |last| *last as usize);
        assert!(last + S::lanes32() <= elements.len(), "a row of the right matrix ends within it");
        let lefts = left.chunks_exact((ROWS * offsets.len()).max(1));
        for (left, sums) in lefts.zip(sums.chunks_mut(ROWS * stride)) {
            let mut products = [[0.0f32.splat::<S>(); VECTORS]; ROWS];
            for (left, offset) in left.as_chunks::<ROWS>().0.iter().zip(offsets) {
                let row: [Vector<S, f32>; VECTORS] = std::array::from_fn(|vector| {
                    let start = *offset as usize + runs[vector];
                    // SAFETY: `start` is at most `last`, and so many lanes are there behind that, as asserted above.
                    unsafe { vload_unaligned(elements.as_ptr().add(start)) }
                });
                for (products, left) in products.iter_mut().zip(left) {
                    let left = left.splat::<S>();
                    for (product, row) in products.iter_mut().zip(row) {
                        *product = left.mul_add(row, *product);
                    }
                }
            }
            put::<S, ROWS>(&products, sums, stride, add);
        }
    }
}

impl WithSimd for Column<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        if has_many_registers::<S>() {
            self.tiles::<S, 8>();
        } else {
            self.tiles::<S, 4>();
        }
    }
}

/// Writes or adds the products of a tile to rows that are `stride` apart.
#[inline(always)]
fn put<S: Simd, const ROWS: usize>(
    products: &[[Vector<S, f32>; VECTORS]; ROWS],
    sums: &mut [f32],
    stride: usize,
    add: bool,
) {
    for (products, row) in products.iter().zip(sums.chunks_mut(stride)) {
        for (product, sums) in products.iter().zip(row.chunks_exact_mut(S::lanes32())) {
            let to = sums.as_mut_ptr();
            // SAFETY: `sums` has as many elements as a vector has lanes: so it was cut.
            unsafe {
                let sum = if add { vload_unaligned::<S, f32>(to) + *product } else { *product };
                vstore_unaligned(to, sum);
            }
        }
    }
}
