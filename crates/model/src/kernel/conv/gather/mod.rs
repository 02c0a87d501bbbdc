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
mod task;

use std::mem::MaybeUninit;

use oomph_core::{Account, charge};
use rayon::prelude::*;

use super::window::Axis;
use crate::kernel::{
    Workspace,
    room::{self, Part},
    rows::Value,
    tile::Tile,
    vector::vectorised,
    workers,
};

use grid::Grid;
use packing::Packing;
use task::{Task, Work};

/// Columns of a block, at least and at most, where the images allow.
const COLUMNS: [usize; 2] = [128, 512];

/// Columns of a block of an image's rows at least: what neighbours of a block read is copied twice.
const COLUMNS_OF_ROWS: usize = 384;

/// Sums of a task, about: they stay in the second cache.
const SUMS: usize = 64 << 10;

/// What is convolved with what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub(super) batch: usize,
    /// Channels of input and output.
    pub(super) channels: [usize; 2],
    /// Height and width of input and output.
    pub(super) input: [usize; 2],
    pub(super) output: [usize; 2],
    pub(super) kernel: [usize; 2],
}

impl Sizes {
    pub(super) fn taps(self) -> usize {
        self.kernel[0] * self.kernel[1]
    }
}

/// How a convolution is computed.
pub(super) struct Gather {
    tile: Tile,
    batch: usize,
    channels: usize,
    rows: usize,
    source: [usize; 2],
    target: [usize; 2],
    kernel: [usize; 2],
    /// How far apart weights are from row to row, and from channel to channel.
    weights: [usize; 2],
    /// Images that a block has.
    images: usize,
    grids: Vec<Grid>,
}

impl Gather {
    /// From input to output.
    pub(super) fn forward(sizes: Sizes, axes: &[Axis; 2]) -> Self {
        let [channels, rows] = sizes.channels;
        let taps = sizes.taps();
        let ends = [sizes.input, sizes.output];
        Self::new(sizes, [channels, rows], ends, [channels * taps, taps], vec![axes.clone()])
    }

    /// From the output's gradient to the input's.
    pub(super) fn backward(sizes: Sizes, axes: &[Axis; 2]) -> Self {
        let [rows, channels] = sizes.channels;
        let taps = sizes.taps();
        let [down, across] = axes;
        let grids = (0..down.stride).flat_map(|y| (0..across.stride).map(move |x| [y, x]));
        let grids = grids.map(|[y, x]| [down.backward(y), across.backward(x)]);
        let grids = grids.filter(|axes| axes.iter().all(|axis| axis.grid > 0 && !axis.taps.is_empty()));
        let ends = [sizes.output, sizes.input];
        Self::new(sizes, [channels, rows], ends, [taps, rows * taps], grids.collect())
    }

    fn new(
        sizes: Sizes,
        [channels, rows]: [usize; 2],
        [source, target]: [[usize; 2]; 2],
        weights: [usize; 2],
        grids: Vec<[Axis; 2]>,
    ) -> Self {
        let (tile, batch) = (Tile::of_this_processor(), sizes.batch);
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
        Self { tile, batch, channels, rows, source, target, kernel: sizes.kernel, weights, images, grids }
    }

    /// Elements of the weights in tiles.
    fn weight_elements(&self) -> usize {
        let taps: usize = self.grids.iter().map(Grid::taps).sum();
        taps * self.channels * self.tile.padded_rows(self.rows)
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

    pub(super) fn workspace(&self) -> Workspace {
        let rows = self.rows.div_ceil(self.tile.rows);
        Workspace {
            shared: self.weight_elements(),
            of_each: self.parts_of_workspace().iter().sum(),
            tasks: self.batch.div_ceil(self.images) * rows,
        }
    }

    /// Rows that a task computes at most.
    fn most_rows(&self) -> usize {
        const LEAST: usize = 256;
        let columns = self.grids.iter().map(|grid| grid.panels.len() * self.tile.columns);
        self.rows.min(LEAST.max(SUMS / columns.max().unwrap_or(1).max(1)))
    }

    /// Rows that a task computes: fewer where there would not be tasks enough for all threads.
    fn rows_of_a_task(&self) -> usize {
        /// Putting a block together takes as long as a few rows of products.
        const LEAST: usize = 32;
        let groups = self.batch.div_ceil(self.images).max(1);
        let threads = rayon::current_num_threads();
        let tasks = if threads > 1 { 4 * threads } else { 1 };
        let parts =
            tasks.div_ceil(groups).min(self.rows.div_ceil(LEAST)).max(self.rows.div_ceil(self.most_rows()));
        self.tile.padded_rows(self.rows.div_ceil(parts.max(1)))
    }

    /// Writes the target.
    pub(super) fn run<E: Value>(&self, weights: &[E], source: &[E], target: &mut [MaybeUninit<E>]) {
        if !self.is_complete() {
            target.par_iter_mut().for_each(|element| {
                element.write(E::ZERO);
            });
        }
        // Within the pool, so that its threads are waited for once.
        rayon::scope(|_| {
            let packed = self.packed(weights);
            let tasks = charge(Account::Host, || self.tasks(self.rows_of_a_task(), target));
            workers::each(tasks.into_iter(), self.workspace(), |mut task, workspace| {
                vectorised(Work { gather: self, weights: &packed, source, task: &mut task, workspace });
            });
        });
    }

    /// Whether every pixel of the target is of a grid: where kernels are smaller than their stride, some are read by none.
    fn is_complete(&self) -> bool {
        let of_grid = |grid: &Grid| grid.axes.iter().map(|axis| axis.grid).product::<usize>();
        self.grids.iter().map(of_grid).sum::<usize>() == self.target[0] * self.target[1]
    }

    /// The weights in tiles: grid by grid, block by block of channels.
    fn packed<E: Value>(&self, weights: &[E]) -> Vec<f32> {
        let (packed, ()) = room::made(self.weight_elements(), |room| {
            let tiles = charge(Account::Host, || self.tiles(weights, room));
            workers::all(tiles.len(), tiles.into_iter(), vectorised);
        });
        packed
    }

    /// How each tile of weights is filled.
    fn tiles<'a, E: Value>(&'a self, weights: &'a [E], mut room: Part<'a>) -> Vec<Packing<'a, E>> {
        let rows = self.tile.rows;
        let mut tiles = Vec::new();
        for grid in &self.grids {
            for first in (0..self.channels).step_by(grid.at_once) {
                let channels = first..(first + grid.at_once).min(self.channels);
                let depth = channels.len() * grid.taps();
                let [block, behind] = room.split(depth * self.tile.padded_rows(self.rows));
                room = behind;
                let of_block = block.parts(depth * rows).enumerate();
                tiles.extend(of_block.map(|(index, tile)| Packing {
                    gather: self,
                    grid,
                    weights,
                    channels: channels.clone(),
                    rows: index * rows..((index + 1) * rows).min(self.rows),
                    tile,
                }));
            }
        }
        tiles
    }

    /// Cuts the target into what is computed at once: some images, some rows.
    fn tasks<'a, T>(&self, rows: usize, target: &'a mut [MaybeUninit<T>]) -> Vec<Task<'a, T>> {
        let pixels = self.target[0] * self.target[1];
        let parts = self.rows.div_ceil(rows);
        let groups = self.batch.div_ceil(self.images);
        let task = |index: usize| {
            let first_row = index % parts * rows;
            Task {
                first_image: index / parts * self.images,
                first_row,
                rows: rows.min(self.rows - first_row),
                images: Vec::new(),
            }
        };
        let mut tasks: Vec<_> = (0..groups * parts).map(task).collect();
        for (image, elements) in target.chunks_mut((self.rows * pixels).max(1)).enumerate() {
            for (part, elements) in elements.chunks_mut(rows * pixels).enumerate() {
                tasks[image / self.images * parts + part].images.push(elements);
            }
        }
        tasks
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
