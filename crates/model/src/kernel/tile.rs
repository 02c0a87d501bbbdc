//! Products of matrices, a tile of the result at a time: the sums of a tile stay in registers.
//!
//! These are the only loops of our kernels that use vector instructions by name: written as plain arrays they are
//! not vectorised and compute 5 GFLOP/s, and 160 of about 170 possible as they are (one core, AVX-512).

use macerator::{Arch, Scalar, Simd, Vector, WithSimd, vload_unaligned, vstore_unaligned};

/// Vectors side by side in a tile.
const VECTORS: usize = 2;

/// Inner indices that are multiplied without a look at how many are left: a tenth faster than one by one, and a fifth
/// where somebody else computes on the same core.
const AT_ONCE: usize = 4;

/// Columns of a tile, at most.
const MOST_COLUMNS: usize = 32;

/// The sums of a tile.
type Products<S, const ROWS: usize> = [[Vector<S, f32>; VECTORS]; ROWS];

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
        let Self { left, right, sums, stride, add } = self;
        right.check(S::lanes32());
        let lefts = left.chunks_exact((ROWS * right.offsets.len()).max(1));
        for (left, sums) in lefts.zip(sums.chunks_mut(ROWS * stride)) {
            let mut products: Products<S, ROWS> = [[0.0f32.splat(); VECTORS]; ROWS];
            let (left, rest) = left.as_chunks::<ROWS>().0.as_chunks::<AT_ONCE>();
            let (offsets, last) = right.offsets.as_chunks::<AT_ONCE>();
            for (left, offsets) in left.iter().zip(offsets) {
                for (left, offset) in left.iter().zip(offsets) {
                    // SAFETY: it was checked above, and the offset is one of the matrix's.
                    products = unsafe { right.multiply(*offset, left, products) };
                }
            }
            for (left, offset) in rest.iter().zip(last) {
                // SAFETY: as above.
                products = unsafe { right.multiply(*offset, left, products) };
            }
            put(products, sums, stride, add);
        }
    }
}

impl Right<'_> {
    /// # Panics
    /// Panics if a row does not end within the elements.
    #[inline(always)]
    fn check(self, lanes: usize) {
        let run = self.runs.into_iter().fold(0, usize::max);
        let row = self.offsets.iter().fold(0, |last, offset| last.max(*offset)) as usize;
        assert!(run + row + lanes <= self.elements.len(), "a row of the right matrix ends within it");
    }

    /// Adds what one inner index gives.
    ///
    /// # Safety
    /// [`check`](Self::check) went well for as many lanes, and `offset` is one of the offsets.
    #[inline(always)]
    unsafe fn multiply<S: Simd, const ROWS: usize>(
        self,
        offset: u32,
        left: &[f32; ROWS],
        mut products: Products<S, ROWS>,
    ) -> Products<S, ROWS> {
        let row: [Vector<S, f32>; VECTORS] = std::array::from_fn(|vector| {
            let start = offset as usize + self.runs[vector];
            // SAFETY: the row begins at such a place, and so many lanes are there behind that.
            unsafe { vload_unaligned(self.elements.as_ptr().add(start)) }
        });
        for (products, left) in products.iter_mut().zip(left) {
            let left = left.splat::<S>();
            for (product, row) in products.iter_mut().zip(row) {
                *product = left.mul_add(row, *product);
            }
        }
        products
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

/// Writes or adds the products of a tile to rows that are `stride` apart: to as many rows and columns as there are.
#[inline(always)]
fn put<S: Simd, const ROWS: usize>(products: Products<S, ROWS>, sums: &mut [f32], stride: usize, add: bool) {
    let columns = VECTORS * S::lanes32();
    if sums.len() >= (ROWS - 1) * stride + columns {
        // SAFETY: the last row ends within the sums, as was just seen.
        unsafe { write(products, sums.as_mut_ptr(), stride, add) };
        return;
    }
    assert!(columns <= MOST_COLUMNS, "no processor has vectors of more than 16 numbers");
    let mut whole = [[0.0; MOST_COLUMNS]; ROWS];
    // SAFETY: the columns have room in a row, as asserted above.
    unsafe { write(products, whole.as_mut_ptr().cast(), MOST_COLUMNS, false) };
    for (products, sums) in whole.iter().zip(sums.chunks_mut(stride)) {
        for (product, sum) in products[..columns].iter().zip(sums) {
            *sum = if add { *sum + product } else { *product };
        }
    }
}

/// Writes or adds a whole tile.
///
/// # Safety
/// There is room for all rows of the tile behind `to`.
#[inline(always)]
unsafe fn write<S: Simd, const ROWS: usize>(
    products: Products<S, ROWS>,
    to: *mut f32,
    stride: usize,
    add: bool,
) {
    for (index, products) in products.into_iter().enumerate() {
        for (vector, product) in products.into_iter().enumerate() {
            // SAFETY: each of them is within the tile.
            unsafe {
                let to = to.add(index * stride + vector * S::lanes32());
                let sum = if add { vload_unaligned::<S, f32>(to) + product } else { product };
                vstore_unaligned(to, sum);
            }
        }
    }
}
