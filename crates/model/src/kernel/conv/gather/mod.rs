//! A convolution as a product of matrices: the kernels, and of each pixel what it reads. The second matrix is never
//! there as a whole; a block of it is put together in a core's cache when it is needed (as in "cuDNN: Efficient
//! Primitives for Deep Learning", Chetlur et al. 2014, <https://arxiv.org/abs/1410.0759>).
//!
//! What goes back to the input is of the same kind. Where the stride is not 1, the pixels of the input that are read by
//! the same taps make a grid of their own each, so that nothing is multiplied by zeros in between.
//!
//! Every result is one sum in an order of its own, channel by channel and tap by tap, in parts of about [`DEPTH`]:
//! it does not depend on how the work is cut.

mod grid;
mod packing;
mod work;

use super::{
    product::{Product, Task},
    way::Way,
    window::Axis,
};
use crate::kernel::{
    room::Part,
    rows::Value,
    tile::Tile,
    vector::{Loops, vectorised},
};

use grid::Grid;
use packing::Packing;
use work::Work;

/// Columns of a block, at least and at most, where the images allow.
const COLUMNS: [usize; 2] = [128, 512];

/// Columns of a block of an image's rows at least: what neighbours of a block read is copied twice.
const COLUMNS_OF_ROWS: usize = 384;

/// Rows of a task at least: putting a block together takes as long as a few rows of products.
const LEAST_ROWS: usize = 32;

/// Sums of a task, about: they stay in the second cache.
const SUMS: usize = 64 << 10;

/// How a convolution is computed.
pub(super) struct Gather {
    tile: Tile,
    product: Product,
    /// Images that a block has.
    images: usize,
    grids: Vec<Grid>,
}

impl Gather {
    pub(super) fn new(product: Product, grids: Vec<[Axis; 2]>) -> Self {
        let tile = Tile::of_this_processor();
        let Product { batch, channels, rows, .. } = product;
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
    fn parts_of_workspace(&self) -> [usize; 3] {
        let copied = self.grids.iter().filter(|grid| !grid.direct);
        let copy = copied.map(|grid| grid.at_once * self.images * grid.plane);
        let depth = self.grids.iter().map(|grid| grid.at_once * grid.taps());
        let columns = self.grids.iter().map(|grid| grid.panels.len() * self.tile.columns);
        let rows = self.tile.padded_rows(self.most_rows());
        [
            // A tile reads whole runs, behind the last column too.
            copy.max().unwrap_or(0) + self.tile.columns,
            depth.max().unwrap_or(0) * self.tile.columns,
            columns.max().unwrap_or(0) * rows,
        ]
    }

    /// Rows that a task computes at most.
    fn most_rows(&self) -> usize {
        const LEAST: usize = 256;
        let columns = self.grids.iter().map(|grid| grid.panels.len() * self.tile.columns);
        self.product.rows.min(LEAST.max(SUMS / columns.max().unwrap_or(1).max(1)))
    }
}

impl Way for Gather {
    fn product(&self) -> &Product {
        &self.product
    }

    fn tile(&self) -> Tile {
        self.tile
    }

    fn images(&self) -> usize {
        self.images
    }

    fn rows(&self) -> [usize; 2] {
        [LEAST_ROWS, self.most_rows()]
    }

    fn weight_elements(&self) -> usize {
        let taps: usize = self.grids.iter().map(Grid::taps).sum();
        taps * self.product.channels * self.tile.padded_rows(self.product.rows)
    }

    fn elements_of_task(&self) -> usize {
        self.parts_of_workspace().iter().sum()
    }

    /// Where kernels are smaller than their stride, some pixels are read by none.
    fn is_complete(&self) -> bool {
        let of_grid = |grid: &Grid| grid.axes.iter().map(|axis| axis.grid).product::<usize>();
        self.grids.iter().map(of_grid).sum::<usize>() == self.product.target[0] * self.product.target[1]
    }

    /// Grid by grid, block by block of channels.
    fn tiles<'a, E: Value>(&'a self, weights: &'a [E], mut room: Part<'a>) -> Vec<impl Loops + Send> {
        let rows = self.tile.rows;
        let mut tiles = Vec::new();
        for grid in &self.grids {
            for first in (0..self.product.channels).step_by(grid.at_once) {
                let channels = first..(first + grid.at_once).min(self.product.channels);
                let depth = channels.len() * grid.taps();
                let [block, behind] = room.split(depth * self.tile.padded_rows(self.product.rows));
                room = behind;
                let of_block = block.parts(depth * rows).enumerate();
                tiles.extend(of_block.map(|(index, tile)| Packing {
                    gather: self,
                    grid,
                    weights,
                    channels: channels.clone(),
                    rows: index * rows..((index + 1) * rows).min(self.product.rows),
                    tile,
                }));
            }
        }
        tiles
    }

    fn compute<E: Value>(&self, weights: &[f32], source: &[E], mut task: Task<'_, E>, workspace: &mut [f32]) {
        vectorised(Work { gather: self, weights, source, task: &mut task, workspace });
    }
}

/// Images and rows of pixels of a block: such that little of the last tile's columns is unused.
fn block(tile: Tile, batch: usize, [height, width]: [usize; 2]) -> [usize; 2] {
    let [least, most] = COLUMNS;
    // Either some rows of an image, or some images.
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
