//! Sizes of the algorithm, and where it pays.

use super::blocks::Blocks;
use crate::{conv::product::ConvProduct, tile::Tile, window::Axis};

/// Pixels of a patch down and across.
pub(in crate::conv) const PATCH: usize = 2;

/// Points of a window.
pub(super) const POINTS: usize = 16;

/// Elements of a kernel.
pub(in crate::conv) const TAPS: usize = 9;

/// The least and the most patches that are computed at once.
pub(super) const COLUMNS: [usize; 2] = [64, 128];

/// The most channels that are multiplied at once. With the same number of patches their points take 0.6 MiB of the
/// second-level cache.
pub(super) const CHANNELS: usize = 64;

/// The least and the most rows of a task. The points of its windows are computed once for all of them.
pub(super) const ROWS: [usize; 2] = [64, 256];

/// The approximate number of rows times patches per block: the products of their points take 1 MiB of the second-level
/// cache.
pub(super) const PRODUCTS: usize = 16 << 10;

/// Elements of a cache line. Rows that are read together are a power of two and one line apart, so that they do not evict
/// each other.
pub(super) const LINE: usize = 16;

/// Patches whose points are computed at once.
pub(super) const LANES: usize = 16;

/// A 3×3 convolution by Winograd's algorithm.
#[derive(Clone)]
pub(in crate::conv) struct Winograd {
    pub(super) tile: Tile,
    pub(super) product: ConvProduct,
    /// The row of the weights that is row 0.
    pub(super) first_row: usize,
    /// Whether kernels are rotated by 180°: backward, their last element belongs to the first pixel.
    pub(super) turned: bool,
    pub(super) blocks: Blocks,
    /// Channels that are multiplied at once.
    pub(super) at_once: usize,
}

impl Winograd {
    /// The algorithm for a convolution with these `grids`; `None` if it cannot compute that, or if plain products are
    /// faster.
    pub(in crate::conv) fn where_it_pays(product: ConvProduct, grids: &[[Axis; 2]]) -> Option<Self> {
        let [axes] = grids else { return None };
        if product.kernel != [3; 2] || !axes.iter().all(Axis::reads_three_around) {
            return None;
        }
        let made = Self::new(product, axes);
        // One row of patches of a wider image does not fit into the cache.
        (made.blocks.columns() <= COLUMNS[1] && made.pays()).then_some(made)
    }

    pub(in crate::conv) fn new(product: ConvProduct, axes: &[Axis; 2]) -> Self {
        let tile = Tile::for_scattered();
        let patches = product.target.map(|pixels| pixels.div_ceil(PATCH));
        let rows = tile.padded_rows(product.rows).clamp(1, ROWS[1]);
        let most = (PRODUCTS / rows).min(COLUMNS[1]);
        let blocks =
            Blocks::new(tile, product.batch, patches, [COLUMNS[0], most], product.rows.div_ceil(ROWS[0]));
        // The parts are as even as possible.
        let at_once = product.channels.div_ceil(product.channels.div_ceil(CHANNELS).max(1)).max(1);
        let turned = !axes[0].taps.is_sorted();
        Self { tile, product, first_row: 0, turned, blocks, at_once }
    }

    /// Estimates whether the algorithm is faster than plain products, in cycles of a processor with vectors of 16, which adds
    /// 32 products in a cycle. The other costs of a column, for each channel and row, and of a kernel were measured there. The
    /// choice is the same on other processors and for any number of threads.
    fn pays(&self) -> bool {
        const OF_CHANNEL: usize = 14;
        const OF_ROW: usize = 14;
        const OF_KERNEL: usize = 32;
        let ConvProduct { batch, channels, rows, target, .. } = self.product;
        let pixels = batch * target[0] * target[1];
        let columns = self.blocks.computed();
        let parts = rows.div_ceil(ROWS[1]);
        let kernels = channels * rows;
        let products = POINTS * kernels * columns / 32;
        let beside = columns * (channels * parts * OF_CHANNEL + rows * OF_ROW) + kernels * OF_KERNEL;
        products + beside < TAPS * kernels * pixels / 32
    }

    /// Elements from a row of a block to the next one.
    pub(super) fn stride(&self) -> usize {
        self.blocks.columns() + LINE
    }

    /// Elements from a point of `rows` rows of a block to the next one.
    pub(super) fn point(&self, rows: usize) -> usize {
        rows * self.stride() + LINE
    }

    /// Elements of a task's points, of its products, and of the memory between those and pixels.
    pub(super) fn parts_of_workspace(&self) -> [usize; 3] {
        let rows = self.tile.padded_rows(self.product.rows.min(ROWS[1]));
        // Four lines of pixels and their phases, or two.
        let elements_before_points = 4 * (PATCH * self.line() + self.phases());
        let elements_behind_products = 4 * PATCH * self.line();
        [
            POINTS * self.point(self.at_once),
            POINTS * self.point(rows),
            elements_before_points.max(elements_behind_products),
        ]
    }

    /// Patches of a block, in whole registers.
    pub(super) fn line(&self) -> usize {
        self.blocks.columns().next_multiple_of(LANES)
    }

    /// Elements of the left and of the right pixels of a line, with one before and one behind each.
    pub(super) fn phases(&self) -> usize {
        PATCH * (self.line() + 2)
    }
}
