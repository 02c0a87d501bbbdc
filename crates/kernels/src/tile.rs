//! Products of matrices, a tile of the result at a time. The sums of a tile stay in registers.
//!
//! Only these loops use vector instructions by name. As plain arrays the compiler does not vectorise them: they compute
//! 5 GFLOP/s, against 160 of about 170 possible with the instructions (one core, AVX-512).

use macerator::{Arch, Scalar, Simd, Vector, WithSimd, vload_unaligned, vstore_unaligned};

/// Vectors side by side in a tile.
const VECTORS: usize = 2;

/// Inner indices that are multiplied between two checks of the loop's end: a tenth faster than one by one, and a fifth
/// if another thread computes on the same core.
const AT_ONCE: usize = 4;

/// Columns of a tile, at most.
const MOST_COLUMNS: usize = 32;

/// The sums of a tile.
type TileSums<S, const ROWS: usize> = [[Vector<S, f32>; VECTORS]; ROWS];

/// Rows and columns of the tiles that this processor computes. The sums take at most half of the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl Tile {
    pub(crate) fn of_this_processor() -> Self {
        Arch::new().dispatch(TileOfProcessor)
    }

    /// Columns that must be contiguous in memory. The next run of columns may be anywhere.
    pub(crate) fn run(self) -> usize {
        self.columns / VECTORS
    }

    /// The offset of each row of a panel, in which the columns of a tile are contiguous.
    pub(crate) fn panel_offsets(self, rows: usize) -> Vec<u32> {
        (0..rows).map(|row| (row * self.columns) as u32).collect()
    }

    /// `rows`, rounded up to whole tiles.
    pub(crate) fn padded_rows(self, rows: usize) -> usize {
        rows.next_multiple_of(self.rows)
    }

    /// `columns`, rounded up to whole tiles.
    pub(crate) fn padded_columns(self, columns: usize) -> usize {
        columns.next_multiple_of(self.columns)
    }
}

struct TileOfProcessor;

impl WithSimd for TileOfProcessor {
    type Output = Tile;

    fn with_simd<S: Simd>(self) -> Tile {
        Tile { rows: if has_many_registers::<S>() { 8 } else { 4 }, columns: VECTORS * S::lanes32() }
    }
}

/// Whether the processor has 32 vector registers, and not 16.
const fn has_many_registers<S: Simd>() -> bool {
    size_of::<S::Register>() >= 64 || cfg!(target_arch = "aarch64")
}

/// The right matrix of a product. The row of inner index i begins at `offsets[i]`.
#[derive(Clone, Copy)]
pub(crate) struct RightMatrix<'a> {
    pub(crate) elements: &'a [f32],
    /// The begin of each run of columns, counted from the row's offset.
    pub(crate) runs: [usize; VECTORS],
    pub(crate) offsets: &'a [u32],
}

/// A column of tiles of the result: each tile is some rows of `left` times `right`.
pub(crate) struct TileColumn<'a> {
    /// Tile by tile, inner index by inner index, the elements of the tile's rows.
    pub(crate) left: &'a [f32],
    pub(crate) right: RightMatrix<'a>,
    /// The result, in rows of `stride` elements. The tiles begin at the first element.
    pub(crate) sums: &'a mut [f32],
    pub(crate) stride: usize,
    /// Whether the products are added to `sums`; else they overwrite it.
    pub(crate) add: bool,
}

impl TileColumn<'_> {
    /// Computes the tiles. It is compiled once, and not inlined into the loops around.
    #[inline(never)]
    pub(crate) fn compute(self) {
        Arch::new().dispatch(self);
    }

    #[inline(always)]
    fn tiles<S: Simd, const ROWS: usize>(self) {
        let Self { left, right, sums, stride, add } = self;
        right.check(S::lanes32());
        let lefts = left.chunks_exact((ROWS * right.offsets.len()).max(1));
        for (left, sums) in lefts.zip(sums.chunks_mut(ROWS * stride)) {
            let mut products: TileSums<S, ROWS> = [[0.0f32.splat(); VECTORS]; ROWS];
            let (left, rest) = left.as_chunks::<ROWS>().0.as_chunks::<AT_ONCE>();
            let (offsets, last) = right.offsets.as_chunks::<AT_ONCE>();
            for (left, offsets) in left.iter().zip(offsets) {
                for (left, offset) in left.iter().zip(offsets) {
                    // SAFETY: the matrix was checked above, and the offset is one of its offsets.
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

impl RightMatrix<'_> {
    /// # Panics
    /// Panics if a row does not end within the elements.
    #[inline(always)]
    fn check(self, lanes: usize) {
        let run = self.runs.into_iter().fold(0, usize::max);
        let row = self.offsets.iter().fold(0, |last, offset| last.max(*offset)) as usize;
        assert!(run + row + lanes <= self.elements.len(), "a row of the right matrix ends within it");
    }

    /// Adds the products of one inner index.
    ///
    /// # Safety
    /// [`check`](Self::check) succeeded for as many lanes, and `offset` is one of the offsets.
    #[inline(always)]
    unsafe fn multiply<S: Simd, const ROWS: usize>(
        self,
        offset: u32,
        left: &[f32; ROWS],
        mut products: TileSums<S, ROWS>,
    ) -> TileSums<S, ROWS> {
        let row: [Vector<S, f32>; VECTORS] = std::array::from_fn(|vector| {
            let start = offset as usize + self.runs[vector];
            // SAFETY: `check` asserted that the lanes behind the begin of this run are within the elements.
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

impl WithSimd for TileColumn<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        // Constant, so that each processor's tiles are compiled for one number of rows.
        if const { has_many_registers::<S>() } {
            self.tiles::<S, 8>();
        } else {
            self.tiles::<S, 4>();
        }
    }
}

/// Writes or adds the products of a tile to rows that are `stride` apart. Rows and columns beyond the end of `sums` are
/// left out.
#[inline(always)]
fn put<S: Simd, const ROWS: usize>(products: TileSums<S, ROWS>, sums: &mut [f32], stride: usize, add: bool) {
    let columns = VECTORS * S::lanes32();
    if sums.len() >= (ROWS - 1) * stride + columns {
        // SAFETY: the last row ends within the sums, by the condition above.
        unsafe { write(products, sums.as_mut_ptr(), stride, add) };
        return;
    }
    assert!(columns <= MOST_COLUMNS, "no processor has vectors of more than 16 numbers");
    let mut whole = [[0.0; MOST_COLUMNS]; ROWS];
    // SAFETY: a row has space for the columns, as asserted above.
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
/// The memory behind `to` holds all rows of the tile.
#[inline(always)]
unsafe fn write<S: Simd, const ROWS: usize>(
    products: TileSums<S, ROWS>,
    to: *mut f32,
    stride: usize,
    add: bool,
) {
    for (index, products) in products.into_iter().enumerate() {
        for (vector, product) in products.into_iter().enumerate() {
            // SAFETY: each vector is within the tile, for which there is space behind `to`.
            unsafe {
                let to = to.add(index * stride + vector * S::lanes32());
                let sum = if add { vload_unaligned::<S, f32>(to) + product } else { product };
                vstore_unaligned(to, sum);
            }
        }
    }
}
