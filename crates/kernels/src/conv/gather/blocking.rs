//! How the pixels of a convolution are cut into blocks.

use super::grid::Grid;
use crate::{conv::product::ConvProduct, tile::Tile, window::Axis};

/// The least and the most columns of a block, if the images allow.
const COLUMNS: [usize; 2] = [128, 512];

/// The least columns of a block of some rows of an image: pixels at its borders are copied twice.
const COLUMNS_OF_ROWS: usize = 192;

/// The least rows of a task: to put a block together takes as long as a few rows of products.
pub(super) const LEAST_ROWS: usize = 32;

/// About the most sums of a task: they fit into the second-level cache.
const SUMS: usize = 64 << 10;

/// A convolution by gathered blocks.
pub(in crate::conv) struct Gather {
    pub(super) tile: Tile,
    pub(super) product: ConvProduct,
    /// Images of a block.
    pub(super) images: usize,
    pub(super) grids: Vec<Grid>,
}

impl Gather {
    pub(in crate::conv) fn new(product: ConvProduct, grids: Vec<[Axis; 2]>) -> Self {
        let tile = Tile::for_scattered();
        let ConvProduct { batch, channels, rows, .. } = product;
        let largest = grids.iter().map(|axes| axes.each_ref().map(|axis| axis.grid));
        let largest = largest.max_by_key(|[height, width]| height * width).unwrap_or([1, 1]);
        let [images, height] = block(tile, batch, largest);
        let mut before = 0;
        let grids = grids.into_iter().map(|axes| {
            let grid = Grid::new(axes, tile, [images, height], channels, before);
            before += grid.taps() * channels * tile.padded_rows(rows);
            grid
        });
        let grids = grids.collect();
        Self { tile, product, images, grids }
    }

    /// Elements of a task's copy of the source, its panel and its sums.
    pub(super) fn parts_of_workspace(&self) -> [usize; 3] {
        let copied = self.grids.iter().filter(|grid| !grid.direct);
        let copy = copied.map(|grid| grid.at_once * self.images * grid.plane);
        let depth = self.grids.iter().map(|grid| grid.at_once * grid.taps());
        let columns = self.grids.iter().map(|grid| grid.panels.len() * self.tile.columns);
        let rows = self.tile.padded_rows(self.most_rows());
        [
            // A tile reads whole runs, beyond the last column too.
            copy.max().unwrap_or(0) + self.tile.columns,
            depth.max().unwrap_or(0) * self.tile.columns,
            columns.max().unwrap_or(0) * rows,
        ]
    }

    /// The most rows of a task.
    pub(super) fn most_rows(&self) -> usize {
        const LEAST: usize = 256;
        let columns = self.grids.iter().map(|grid| grid.panels.len() * self.tile.columns);
        self.product.rows.min(LEAST.max(SUMS / columns.max().unwrap_or(1).max(1)))
    }
}

/// Images and rows of pixels of a block, chosen such that few columns of the last tile are unused.
fn block(tile: Tile, batch: usize, [height, width]: [usize; 2]) -> [usize; 2] {
    let [least, most] = COLUMNS;
    // A block is either some rows of an image, or some images.
    let (unit, count, least) =
        if height * width > most { (width, height, COLUMNS_OF_ROWS) } else { (height * width, batch, least) };
    let count = count.max(1);
    let used = |at_once: usize| {
        let computed = |units: usize| tile.padded_columns(units * unit);
        let all = count / at_once * computed(at_once) + computed(count % at_once);
        (count * unit) as f64 / all.max(1) as f64
    };
    let candidates = 1..=(most / unit.max(1)).clamp(1, count);
    let best = candidates.clone().map(used).fold(0.0, f64::max);
    let good = |at_once: &usize| used(*at_once) >= 0.98 * best;
    let enough = |at_once: &usize| at_once * unit >= least.min(count * unit);
    let found = candidates.clone().find(|at_once| good(at_once) && enough(at_once));
    let at_once = found.or_else(|| candidates.rev().find(good)).unwrap_or(1);
    if height * width > most { [1, at_once] } else { [at_once, height.max(1)] }
}
