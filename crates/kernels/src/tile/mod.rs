//! Products of matrices, a tile of the result at a time. The sums of a tile stay in registers.
//!
//! Only these loops use vector instructions by name. As plain arrays the compiler does not vectorise them: they compute
//! 5 GFLOP/s, against 160 of about 170 possible with the instructions (one core, AVX-512).

mod start;

use std::slice::Chunks;

use macerator::{Arch, Scalar, Simd, Vector, WithSimd, vload_unaligned, vstore_unaligned};

pub(crate) use self::start::{Onto, Start};
use crate::{
    prefetch::{self, Ahead},
    timing,
};

/// Vectors side by side in a tile.
const VECTORS: usize = 2;

/// Inner indices that are multiplied between two checks of the loop's end: a tenth faster than one by one, and a fifth
/// if another thread computes on the same core.
const AT_ONCE: usize = 4;

/// Columns of a tile, at most.
pub(crate) const MOST_COLUMNS: usize = 32;

/// The sums of a tile.
type TileSums<S, const ROWS: usize> = [[Vector<S, f32>; VECTORS]; ROWS];

/// Rows and columns of the tiles that this processor computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tile {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl Tile {
    /// Rows of the tiles of any processor, at most.
    pub(crate) const MOST_ROWS: usize = 12;

    /// Low tiles, which waste little on few rows: the sums take half of the registers.
    pub(crate) fn low() -> Self {
        Arch::new().dispatch(TilesOfProcessor)[0]
    }

    /// High tiles, for many rows: they read less for each product, and the sums take three quarters of the registers.
    pub(crate) fn high() -> Self {
        Arch::new().dispatch(TilesOfProcessor)[1]
    }

    /// Tiles for [scattered columns](Factors::Scattered).
    pub(crate) fn for_scattered() -> Self {
        Arch::new().dispatch(TilesOfProcessor)[2]
    }

    /// Columns that must be contiguous in memory. The next run of columns may be anywhere.
    pub(crate) fn run(self) -> usize {
        self.columns / VECTORS
    }

    /// The moments of a [`TileColumn`] of so many rows and inner indices at which it [looks ahead](Ahead).
    pub(crate) fn moments(self, rows: usize, inner: usize) -> usize {
        rows.div_ceil(self.rows) * Arch::new().dispatch(Moments(inner))
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

struct TilesOfProcessor;

impl WithSimd for TilesOfProcessor {
    type Output = [Tile; 3];

    fn with_simd<S: Simd>(self) -> [Tile; 3] {
        // With 16 registers, the sums of a low tile are too few to hide how long an instruction takes.
        let rows = if has_many_registers::<S>() { [8, Tile::MOST_ROWS, 8] } else { [4, 6, 6] };
        rows.map(|rows| Tile { rows, columns: VECTORS * S::lanes32() })
    }
}

/// Moments at which tiles look at other memory, of some inner indices.
struct Moments(usize);

impl WithSimd for Moments {
    type Output = usize;

    fn with_simd<S: Simd>(self) -> usize {
        self.0.div_ceil(stretch::<S>())
    }
}

/// Whether the processor has 32 vector registers, and not 16.
const fn has_many_registers<S: Simd>() -> bool {
    size_of::<S::Register>() >= 64 || cfg!(target_arch = "aarch64")
}

/// What is multiplied.
#[derive(Clone, Copy)]
pub(crate) enum Factors<'a> {
    /// Rows in tiles by a panel.
    Panel { tiles: &'a [f32], tile: Tile, panel: &'a [f32] },
    /// Rows in tiles [for them](Tile::for_scattered) by columns that are somewhere in memory.
    Scattered { tiles: &'a [f32], columns: ScatteredColumns<'a> },
    /// Rows that nobody put in tiles, as many as tiles [for scattered columns](Tile::for_scattered) have, by such columns.
    Separate { rows: SeparateRows<'a>, columns: ScatteredColumns<'a> },
}

/// Rows of the left matrix, which begin `stride` elements behind each other.
#[derive(Clone, Copy)]
pub(crate) struct SeparateRows<'a> {
    pub(crate) elements: &'a [f32],
    pub(crate) count: usize,
    pub(crate) stride: usize,
}

/// The columns of a tile, in runs anywhere in memory. The row of inner index i begins at `offsets[i]`.
#[derive(Clone, Copy)]
pub(crate) struct ScatteredColumns<'a> {
    pub(crate) elements: &'a [f32],
    /// The begin of each run of columns, counted from the row's offset.
    pub(crate) runs: [usize; VECTORS],
    pub(crate) offsets: &'a [u32],
}

/// Takes the rows of a tile.
pub(crate) type TakeTile<'a> = dyn FnMut(&[f32]) + 'a;

/// A column of tiles of the result.
///
/// Tiles hold their rows inner index by inner index; so do panels, which hold the columns of a tile side by side.
pub(crate) struct TileColumn<'a> {
    pub(crate) factors: Factors<'a>,
    /// What the next product reads of its panel: it is brought into the cache meanwhile.
    pub(crate) next: &'a [f32],
    /// The result, in rows of `stride` elements. The tiles begin at the first element.
    pub(crate) sums: &'a mut [f32],
    pub(crate) stride: usize,
    /// What the products are added to.
    pub(crate) start: Start<'a>,
    /// Other memory that is brought into the cache meanwhile, instead of `next`.
    pub(crate) ahead: Option<&'a mut Ahead>,
    /// Takes the rows of each tile as soon as they are there: what it writes to memory is on its way while the next tile is computed.
    pub(crate) then: Option<&'a mut TakeTile<'a>>,
}

impl TileColumn<'_> {
    /// Computes the tiles. It is compiled once, and not inlined into the loops around.
    #[inline(never)]
    pub(crate) fn compute(self) {
        timing::count(|| self.products());
        Arch::new().dispatch(self);
    }

    fn products(&self) -> usize {
        let elements = match self.factors {
            Factors::Panel { tiles, .. } | Factors::Scattered { tiles, .. } => tiles.len(),
            Factors::Separate { rows, columns } => rows.count * columns.offsets.len(),
        };
        elements * Tile::low().columns
    }

    /// The numbers of rows are constants, so that each processor's tiles are compiled for two of them.
    #[inline(always)]
    fn tiles<S: Simd, const LOW: usize, const HIGH: usize, const SCATTERED: usize>(mut self) {
        match self.factors {
            Factors::Panel { tiles, tile, panel } if tile.rows == HIGH => {
                self.by_panel::<S, HIGH>(tiles, PanelRows { elements: panel });
            }
            Factors::Panel { tiles, panel, .. } => {
                self.by_panel::<S, LOW>(tiles, PanelRows { elements: panel });
            }
            Factors::Scattered { tiles, columns } => {
                let right = columns.checked(S::lanes32());
                let tiles = in_tiles::<SCATTERED>(tiles, columns.offsets.len());
                let ahead = self.ahead.take();
                match ahead {
                    Some(ahead) => self.put_all::<S, SCATTERED, _>(tiles, |left, begin| {
                        products(left, right, begin, || ahead.step())
                    }),
                    None => self
                        .put_all::<S, SCATTERED, _>(tiles, |left, begin| products(left, right, begin, || ())),
                }
            }
            Factors::Separate { rows, columns } => {
                let right = columns.checked(S::lanes32());
                let tiles = (0..rows.count).step_by(SCATTERED);
                self.put_all::<S, SCATTERED, _>(tiles, |first, begin| {
                    products_of_rows(rows.of_tile::<SCATTERED>(first, columns.offsets.len()), right, begin)
                });
            }
        }
    }

    #[inline(always)]
    fn by_panel<S: Simd, const ROWS: usize>(mut self, tiles: &[f32], right: PanelRows<'_>) {
        let inner = RightRows::<S>::len(right);
        let mut next = Next::new(self.next, tiles.len() / ROWS.max(1), stretch::<S>());
        let tiles = in_tiles::<ROWS>(tiles, inner);
        match self.ahead.take() {
            Some(ahead) => {
                self.put_all::<S, ROWS, _>(tiles, |left, begin| {
                    products(left, right, begin, || ahead.step())
                });
            }
            None => {
                self.put_all::<S, ROWS, _>(tiles, |left, begin| products(left, right, begin, || next.step()));
            }
        }
    }

    #[inline(always)]
    fn put_all<S: Simd, const ROWS: usize, L>(
        mut self,
        tiles: impl Iterator<Item = L>,
        mut products: impl FnMut(L, [Vector<S, f32>; VECTORS]) -> TileSums<S, ROWS>,
    ) {
        let begin = self.start.row.map_or([0.0f32.splat(); VECTORS], loaded);
        let mut onto = self.start.onto;
        for left in tiles {
            let Some(sums) = take(&mut self.sums, ROWS * self.stride) else { break };
            put(products(left, begin), sums, self.stride, onto);
            onto = onto.skip(sums.len());
            if let Some(then) = &mut self.then {
                then(sums);
            }
        }
    }
}

/// The tiles of rows, of so many inner indices. The iterators of slices divide to know how many there are: with few rows that takes a
/// hundredth of a product.
#[inline(always)]
fn in_tiles<const ROWS: usize>(tiles: &[f32], inner: usize) -> impl Iterator<Item = &[[f32; ROWS]]> {
    let mut rest = tiles;
    std::iter::from_fn(move || {
        let (tile, behind) = rest.split_at_checked((ROWS * inner).max(1))?;
        rest = behind;
        Some(tile.as_chunks::<ROWS>().0)
    })
}

/// Takes up to `count` elements from the begin of `rest`; nothing, if there are none.
#[inline(always)]
fn take<'a>(rest: &mut &'a mut [f32], count: usize) -> Option<&'a mut [f32]> {
    let count = count.min(rest.len());
    rest.split_off_mut(..count).filter(|taken| !taken.is_empty())
}

impl<'a> SeparateRows<'a> {
    /// # Panics
    /// Panics if the elements end before so many inner indices of these rows.
    #[inline(always)]
    fn of_tile<const ROWS: usize>(self, first: usize, inner: usize) -> [&'a [f32]; ROWS] {
        let mut rows: [&[f32]; ROWS] = [&[]; ROWS];
        for (index, row) in rows.iter_mut().enumerate() {
            *row = &self.elements[(first + index) * self.stride..][..inner];
        }
        rows
    }
}

impl WithSimd for TileColumn<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self) {
        if const { has_many_registers::<S>() } {
            self.tiles::<S, 8, 12, 8>();
        } else {
            self.tiles::<S, 4, 6, 6>();
        }
    }
}

/// Inner indices between two moments to look at other memory. With 16 registers the compiler keeps the sums in memory at such a
/// moment: for each four indices it would cost a third of the speed.
const fn stretch<S: Simd>() -> usize {
    if has_many_registers::<S>() { AT_ONCE } else { 8 * AT_ONCE }
}

/// The products of a tile. `meanwhile` is called for each [stretch] of inner indices.
///
/// # Panics
/// Panics if the factors have different inner indices.
#[inline(always)]
fn products<S: Simd, const ROWS: usize>(
    left: &[[f32; ROWS]],
    right: impl RightRows<S>,
    begin: [Vector<S, f32>; VECTORS],
    mut meanwhile: impl FnMut(),
) -> TileSums<S, ROWS> {
    assert_eq!(left.len(), right.len(), "both factors have the same inner indices");
    let mut products: TileSums<S, ROWS> = [begin; ROWS];
    let mut index = 0;
    for left in left.chunks(const { stretch::<S>() }) {
        meanwhile();
        let (whole, rest) = left.as_chunks::<AT_ONCE>();
        for left in whole {
            for left in left {
                // SAFETY: there are as many rows, as asserted.
                products = added(left, unsafe { right.row(index) }, products);
                index += 1;
            }
        }
        for left in rest {
            // SAFETY: as above.
            products = added(left, unsafe { right.row(index) }, products);
            index += 1;
        }
    }
    products
}

/// The products of a tile whose rows are separate.
///
/// # Panics
/// Panics if the factors have different inner indices.
#[inline(always)]
fn products_of_rows<S: Simd, const ROWS: usize>(
    left: [&[f32]; ROWS],
    right: impl RightRows<S>,
    begin: [Vector<S, f32>; VECTORS],
) -> TileSums<S, ROWS> {
    for row in left {
        assert_eq!(row.len(), right.len(), "both factors have the same inner indices");
    }
    let mut products: TileSums<S, ROWS> = [begin; ROWS];
    for index in 0..right.len() {
        let mut of_index = [0.0; ROWS];
        for (to, row) in of_index.iter_mut().zip(left) {
            // SAFETY: each row has as many elements as there are rows of the right matrix, as asserted.
            *to = unsafe { *row.get_unchecked(index) };
        }
        // SAFETY: there are as many rows.
        products = added(&of_index, unsafe { right.row(index) }, products);
    }
    products
}

/// Adds the products of one inner index.
#[inline(always)]
fn added<S: Simd, const ROWS: usize>(
    left: &[f32; ROWS],
    right: [Vector<S, f32>; VECTORS],
    mut products: TileSums<S, ROWS>,
) -> TileSums<S, ROWS> {
    for (products, left) in products.iter_mut().zip(left) {
        let left = left.splat::<S>();
        for (product, right) in products.iter_mut().zip(right) {
            *product = left.mul_add(right, *product);
        }
    }
    products
}

/// The right matrix of a product, as wide as a tile.
trait RightRows<S: Simd>: Copy {
    /// Rows.
    fn len(self) -> usize;

    /// A row.
    ///
    /// # Safety
    /// The index is less than [`len`](Self::len).
    unsafe fn row(self, index: usize) -> [Vector<S, f32>; VECTORS];
}

/// A panel.
#[derive(Clone, Copy)]
struct PanelRows<'a> {
    elements: &'a [f32],
}

impl<S: Simd> RightRows<S> for PanelRows<'_> {
    #[inline(always)]
    fn len(self) -> usize {
        self.elements.len() / (VECTORS * S::lanes32())
    }

    #[inline(always)]
    unsafe fn row(self, index: usize) -> [Vector<S, f32>; VECTORS] {
        std::array::from_fn(|vector| {
            let start = (index * VECTORS + vector) * S::lanes32();
            // SAFETY: the caller promises that there is the row, which ends within the elements.
            unsafe { vload_unaligned(self.elements.as_ptr().add(start)) }
        })
    }
}

impl<'a> ScatteredColumns<'a> {
    /// # Panics
    /// Panics if a row of vectors of `lanes` does not end within the elements.
    #[inline(always)]
    fn checked(self, lanes: usize) -> CheckedColumns<'a> {
        let run = self.runs.into_iter().fold(0, usize::max);
        let row = self.offsets.iter().fold(0, |last, offset| last.max(*offset)) as usize;
        assert!(run + row + lanes <= self.elements.len(), "a row of the right matrix ends within it");
        CheckedColumns(self)
    }
}

/// Columns whose rows end within their elements, by vectors of this processor.
#[derive(Clone, Copy)]
struct CheckedColumns<'a>(ScatteredColumns<'a>);

impl<S: Simd> RightRows<S> for CheckedColumns<'_> {
    #[inline(always)]
    fn len(self) -> usize {
        self.0.offsets.len()
    }

    #[inline(always)]
    unsafe fn row(self, index: usize) -> [Vector<S, f32>; VECTORS] {
        let Self(ScatteredColumns { elements, runs, offsets }) = self;
        // SAFETY: the caller promises that there is the row.
        let offset = unsafe { *offsets.get_unchecked(index) } as usize;
        // SAFETY: the lanes behind the begin of each run are within the elements, as was checked.
        runs.map(|run| unsafe { vload_unaligned(elements.as_ptr().add(offset + run)) })
    }
}

/// Brings memory into the cache, some of it with each stretch of a product.
struct Next<'a> {
    lines: Chunks<'a, f32>,
    of_step: usize,
}

impl<'a> Next<'a> {
    /// All of `memory` within so many inner indices of tiles, some with each of their stretches; nothing, if these are few: then asking would
    /// take longer than it saves.
    fn new(memory: &'a [f32], inner: usize, stretch: usize) -> Self {
        const MOST: usize = 2;
        let lines = memory.chunks(prefetch::LINE / size_of::<f32>());
        let (count, steps) = (lines.len(), (inner / stretch).max(1));
        // A division would take longer than to try the few numbers.
        match (1..=MOST * stretch / AT_ONCE).find(|of_step| of_step * steps >= count) {
            Some(of_step) => Self { lines, of_step },
            None => Self { lines: [].chunks(1), of_step: 0 },
        }
    }

    #[inline(always)]
    fn step(&mut self) {
        for line in self.lines.by_ref().take(self.of_step) {
            prefetch::line(line);
        }
    }
}

/// The vectors of a row as wide as a tile.
///
/// # Panics
/// Panics if the row is shorter.
#[inline(always)]
fn loaded<S: Simd>(row: &[f32]) -> [Vector<S, f32>; VECTORS] {
    let row = &row[..VECTORS * S::lanes32()];
    // SAFETY: the row has as many numbers.
    std::array::from_fn(|vector| unsafe { vload_unaligned(row.as_ptr().add(vector * S::lanes32())) })
}

/// Writes the products of a tile to rows that are `stride` apart, added to what `onto` says. Rows and columns beyond the end of `sums` are
/// left out.
#[inline(always)]
fn put<S: Simd, const ROWS: usize>(
    products: TileSums<S, ROWS>,
    sums: &mut [f32],
    stride: usize,
    onto: Onto<'_>,
) {
    let columns = VECTORS * S::lanes32();
    let reach = (ROWS - 1) * stride + columns;
    if sums.len() >= reach {
        let to = sums.as_mut_ptr();
        let from = match onto {
            Onto::Nothing => None,
            Onto::Sums => Some(to.cast_const()),
            Onto::Rows(rows) => Some(rows[..reach].as_ptr()),
        };
        // SAFETY: the last row ends within the sums, and within the rows to add to, as the conditions say.
        unsafe { write(products, to, stride, from) };
        return;
    }
    assert!(columns <= MOST_COLUMNS, "no processor has vectors of more than 16 numbers");
    let mut whole = [[0.0; MOST_COLUMNS]; ROWS];
    // SAFETY: a row has space for the columns, as asserted above.
    unsafe { write(products, whole.as_mut_ptr().cast(), MOST_COLUMNS, None) };
    for (index, (products, sums)) in whole.iter().zip(sums.chunks_mut(stride)).enumerate() {
        for (column, (product, sum)) in products[..columns].iter().zip(sums).enumerate() {
            *sum = match onto {
                Onto::Nothing => *product,
                Onto::Sums => *sum + product,
                Onto::Rows(rows) => rows[index * stride + column] + product,
            };
        }
    }
}

/// Writes a whole tile, added to the numbers that lie alike from a place on.
///
/// # Safety
/// The memory behind `to`, and behind `onto`, holds all rows of the tile.
#[inline(always)]
unsafe fn write<S: Simd, const ROWS: usize>(
    products: TileSums<S, ROWS>,
    to: *mut f32,
    stride: usize,
    onto: Option<*const f32>,
) {
    for (index, products) in products.into_iter().enumerate() {
        for (vector, product) in products.into_iter().enumerate() {
            let at = index * stride + vector * S::lanes32();
            // SAFETY: each vector is within the tile, for which there is space behind both.
            unsafe {
                let sum = match onto {
                    Some(onto) => vload_unaligned::<S, f32>(onto.add(at)) + product,
                    None => product,
                };
                vstore_unaligned(to.add(at), sum);
            }
        }
    }
}
