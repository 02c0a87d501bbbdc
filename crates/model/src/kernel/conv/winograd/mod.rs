//! Convolutions of 3×3 by fewer products: a patch of 2×2 pixels is made of 16 products for each channel instead of 36
//! (the minimal filters F(2×2, 3×3) of "Fast Algorithms for Convolutional Neural Networks", Lavin and Gray 2015,
//! <https://arxiv.org/abs/1509.09308>).
//!
//! Kernels and windows of 4×4 pixels become 16 points each. At each point they are a product of matrices, channels by
//! patches, and what comes of it becomes the patch. Points are made of windows in a core's cache, some channels of some
//! patches at a time, and their products become patches there.
//!
//! To make points takes sums and differences alone, and halves of kernels: rounding grows little, as in the paper.
//! Every result is one sum in an order of its own, in parts of as many channels: it does not depend on how the work is
//! cut.

mod lanes;
mod patches;
mod points;
mod weights;
mod work;

use std::mem::MaybeUninit;

use oomph_core::{Account, charge};

use super::{product::Product, window::Axis};
use crate::kernel::{Workspace, room, rows::Value, tile::Tile, vector::vectorised, workers};

use weights::Packing;
use work::Work;

/// Pixels of a patch down and across.
const PATCH: usize = 2;

/// Points of a window.
const POINTS: usize = 16;

/// Elements of a kernel.
const TAPS: usize = 9;

/// Patches that are computed at once, at least where there are so many, and at most.
const COLUMNS: [usize; 2] = [64, 128];

/// Rows of a task at least, and at most: points are made of windows once for them.
const ROWS: [usize; 2] = [64, 256];

/// Products of a point, and elements of it, that stay in the second cache.
const CACHED: [usize; 2] = [16 << 10, 8 << 10];

/// Elements of a cache line: rows that are read together are as much more apart than a power of two, and do not push
/// each other out.
const LINE: usize = 16;

/// How such a convolution is computed.
pub(super) struct Winograd {
    tile: Tile,
    product: Product,
    /// Whether the last element of a kernel reads the first pixel.
    turned: bool,
    /// Patches down and across.
    patches: [usize; 2],
    /// Images of a block.
    images: usize,
    /// Rows of patches of a block.
    height: usize,
    /// Channels that are multiplied at once.
    at_once: usize,
}

impl Winograd {
    /// Of a convolution with these `grids`, where it takes less time than with as many products as there are.
    pub(super) fn where_it_pays(product: Product, grids: &[[Axis; 2]]) -> Option<Self> {
        let [axes] = grids else { return None };
        if !axes.iter().all(Axis::reads_three_around) {
            return None;
        }
        let made = Self::new(product, axes);
        made.pays().then_some(made)
    }

    pub(super) fn new(product: Product, axes: &[Axis; 2]) -> Self {
        let tile = Tile::of_this_processor();
        let patches = product.target.map(|pixels| pixels.div_ceil(PATCH));
        let rows = tile.padded_rows(product.rows).min(ROWS[1]);
        let most = (CACHED[0] / rows.max(1)).min(COLUMNS[1]);
        let [images, height] = block(tile, product.batch, patches, most);
        let columns = tile.padded_columns(images * height * patches[1]);
        let most = (CACHED[1] / columns.max(1)).max(1);
        // As even parts as can be.
        let at_once = product.channels.div_ceil(product.channels.div_ceil(most).max(1)).max(1);
        let turned = axes[0].taps[0] > 0;
        Self { tile, product, turned, patches, images, height, at_once }
    }

    /// Whether it takes less time, about: counted in steps of a processor, which adds 32 products in one. What a point
    /// of a channel, a row or a kernel takes beside was measured.
    fn pays(&self) -> bool {
        const OF_CHANNEL: usize = 20;
        const OF_ROW: usize = 16;
        const OF_KERNEL: usize = 32;
        let Product { batch, channels, rows, target, .. } = self.product;
        let pixels = batch * target[0] * target[1];
        let blocks = batch.div_ceil(self.images) * self.patches[0].div_ceil(self.height);
        let columns = blocks * self.columns();
        let parts = rows.div_ceil(ROWS[1]);
        let kernels = channels * rows;
        let products = POINTS * kernels * columns / 32;
        let beside = columns * (channels * parts * OF_CHANNEL + rows * OF_ROW) + kernels * OF_KERNEL;
        products + beside < TAPS * kernels * pixels / 32
    }

    /// Columns of a block.
    fn columns(&self) -> usize {
        self.tile.padded_columns(self.images * self.height * self.patches[1])
    }

    /// Elements from a row of a block to the next one.
    fn stride(&self) -> usize {
        self.columns() + LINE
    }

    /// Elements from a point of `rows` rows of a block to the next one.
    fn point(&self, rows: usize) -> usize {
        rows * self.stride() + LINE
    }

    /// Elements of the kernels' points, in tiles.
    fn weight_elements(&self) -> usize {
        POINTS * self.product.channels * self.tile.padded_rows(self.product.rows)
    }

    /// Elements of a task's points, its products, and what stands between pixels and those.
    fn parts_of_workspace(&self) -> [usize; 3] {
        let rows = self.tile.padded_rows(self.product.rows.min(ROWS[1]));
        [
            POINTS * self.point(self.at_once),
            POINTS * self.point(rows),
            self.elements_between().max(self.elements_behind()),
        ]
    }

    pub(super) fn workspace(&self) -> Workspace {
        let rows = self.product.rows.div_ceil(self.tile.rows);
        Workspace {
            shared: self.weight_elements(),
            of_each: self.parts_of_workspace().iter().sum(),
            tasks: self.product.batch.div_ceil(self.images) * rows,
        }
    }

    /// Writes the target.
    pub(super) fn run<E: Value>(&self, weights: &[E], source: &[E], target: &mut [MaybeUninit<E>]) {
        // Within the pool, so that its threads are waited for once.
        rayon::scope(|_| {
            let packed = self.packed(weights);
            let rows = self.product.rows_of_a_task(self.tile, self.images, ROWS[0]..ROWS[1]);
            let tasks = charge(Account::Host, || self.product.tasks(self.images, rows, target));
            workers::each(tasks.into_iter(), self.workspace(), |mut task, workspace| {
                vectorised(Work { winograd: self, weights: &packed, source, task: &mut task, workspace });
            });
        });
    }

    /// The kernels' points in tiles: part by part of the channels, point by point.
    fn packed<E: Value>(&self, weights: &[E]) -> Vec<f32> {
        let parts = self.product.channels.div_ceil(self.at_once);
        let rows = self.product.rows.div_ceil(self.tile.rows);
        let (packed, ()) = room::made(self.weight_elements(), |room| {
            let tiles = charge(Account::Host, || self.tiles(weights, room));
            workers::all(parts * rows, tiles.into_iter(), vectorised);
        });
        packed
    }

    /// How the tiles of weights are filled: those of the same rows and channels together.
    fn tiles<'a, E: Value>(&'a self, weights: &'a [E], mut room: room::Part<'a>) -> Vec<Packing<'a, E>> {
        let Product { channels, rows, .. } = self.product;
        let of_tile = self.tile.rows;
        let mut tiles = Vec::new();
        for first in (0..channels).step_by(self.at_once) {
            let channels = first..(first + self.at_once).min(channels);
            let depth = channels.len();
            let [block, behind] = room.split(POINTS * depth * self.tile.padded_rows(rows));
            room = behind;
            let before = tiles.len();
            tiles.extend((0..rows).step_by(of_tile).map(|first| Packing {
                winograd: self,
                weights,
                channels: channels.clone(),
                rows: first..(first + of_tile).min(rows),
                points: Vec::with_capacity(POINTS),
            }));
            let of_points = block.parts(depth * self.tile.padded_rows(rows));
            for point in of_points {
                let of_rows = point.parts(depth * of_tile);
                of_rows.zip(&mut tiles[before..]).for_each(|(tile, packing)| packing.points.push(tile));
            }
        }
        tiles
    }
}

/// Images and rows of patches of a block of `most` columns at most: such that little of the last tile's is unused.
fn block(tile: Tile, batch: usize, [height, width]: [usize; 2], most: usize) -> [usize; 2] {
    let batch = batch.max(1);
    let columns = |[images, rows]: [usize; 2]| images * rows * width;
    // Of all columns that are computed, those that are used.
    let used = |[images, rows]: [usize; 2]| {
        let of_images = |images: usize| {
            let computed = |rows: usize| tile.padded_columns(images * rows * width);
            height / rows * computed(rows) + computed(height % rows)
        };
        let all = batch / images * of_images(images) + of_images(batch % images);
        (batch * height * width) as f64 / all.max(1) as f64
    };
    let rows = move |images: usize| (most / (images * width).max(1)).clamp(1, height.max(1));
    let candidates = (1..=batch.min((most / width.max(1)).max(1)))
        .flat_map(move |images| (1..=rows(images)).map(move |rows| [images, rows]));
    let best = candidates.clone().map(used).fold(0.0, f64::max);
    let good = candidates.filter(|block| used(*block) >= 0.98 * best);
    let least = COLUMNS[0].min(batch * height * width);
    let enough = good.clone().find(|block| columns(*block) >= least);
    enough.or_else(|| good.max_by_key(|block| columns(*block))).unwrap_or([1, 1])
}
