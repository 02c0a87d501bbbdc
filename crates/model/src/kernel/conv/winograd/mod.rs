//! Convolutions of 3×3 by fewer products: a patch of 2×2 pixels is made of 16 products for each channel instead of 36
//! (the minimal filters F(2×2, 3×3) of "Fast Algorithms for Convolutional Neural Networks", Lavin and Gray 2015,
//! <https://arxiv.org/abs/1509.09308>).
//!
//! Kernels and windows of 4×4 pixels become 16 points each. At each point they are a product of matrices, channels by
//! patches, and what comes of it becomes the patch. Points are made of windows in a core's cache, some channels of some
//! patches at a time, and their products become patches there.
//!
//! To make points takes sums and differences alone, and halves of kernels: rounding grows little, as in the paper. A
//! pixel that is no number, or infinite, spreads over the patches whose windows have it, though not all their pixels read
//! it.
//!
//! Every result is one sum in an order of its own, in parts of as many channels: it does not depend on the number of
//! threads, nor on the batch where this is the way to compute it.

mod blocks;
mod lanes;
mod patches;
mod points;
mod weights;
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

use blocks::Blocks;
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

/// Channels that are multiplied at once, at most. With as many patches their points take 0.6 MiB of the second cache.
const CHANNELS: usize = 64;

/// Rows of a task at least, and at most: points are made of windows once for them.
const ROWS: [usize; 2] = [64, 256];

/// Rows times patches that are computed at once, about: the products of their points take 1 MiB of the second cache.
const PRODUCTS: usize = 16 << 10;

/// Elements of a cache line: rows that are read together are as much more apart than a power of two, and do not push
/// each other out.
const LINE: usize = 16;

/// How such a convolution is computed.
pub(super) struct Winograd {
    tile: Tile,
    product: Product,
    /// Whether the last element of a kernel reads the first pixel.
    turned: bool,
    blocks: Blocks,
    /// Channels that are multiplied at once.
    at_once: usize,
}

impl Winograd {
    /// Of a convolution with these `grids`, where it can be computed so and takes less time than with as many products as
    /// there are.
    pub(super) fn where_it_pays(product: Product, grids: &[[Axis; 2]]) -> Option<Self> {
        let [axes] = grids else { return None };
        if product.kernel != [3; 2] || !axes.iter().all(Axis::reads_three_around) {
            return None;
        }
        let made = Self::new(product, axes);
        // Of images that are wider a row of patches alone is more than stays in the cache.
        (made.blocks.columns() <= COLUMNS[1] && made.pays()).then_some(made)
    }

    pub(super) fn new(product: Product, axes: &[Axis; 2]) -> Self {
        let tile = Tile::of_this_processor();
        let patches = product.target.map(|pixels| pixels.div_ceil(PATCH));
        let rows = tile.padded_rows(product.rows).clamp(1, ROWS[1]);
        let most = (PRODUCTS / rows).min(COLUMNS[1]);
        let blocks = Blocks::new(tile, product.batch, patches, [COLUMNS[0], most]);
        // As even parts as can be.
        let at_once = product.channels.div_ceil(product.channels.div_ceil(CHANNELS).max(1)).max(1);
        let turned = !axes[0].taps.is_sorted();
        Self { tile, product, turned, blocks, at_once }
    }

    /// Whether it takes less time, about: counted in steps of a processor with vectors of 16, which adds 32 products in
    /// one. What a column takes beside, for each channel and row, and each kernel, was measured there. Others choose the
    /// same, and so does one thread as many.
    fn pays(&self) -> bool {
        const OF_CHANNEL: usize = 20;
        const OF_ROW: usize = 16;
        const OF_KERNEL: usize = 32;
        let Product { batch, channels, rows, target, .. } = self.product;
        let pixels = batch * target[0] * target[1];
        let columns = self.blocks.computed();
        let parts = rows.div_ceil(ROWS[1]);
        let kernels = channels * rows;
        let products = POINTS * kernels * columns / 32;
        let beside = columns * (channels * parts * OF_CHANNEL + rows * OF_ROW) + kernels * OF_KERNEL;
        products + beside < TAPS * kernels * pixels / 32
    }

    /// Elements from a row of a block to the next one.
    fn stride(&self) -> usize {
        self.blocks.columns() + LINE
    }

    /// Elements from a point of `rows` rows of a block to the next one.
    fn point(&self, rows: usize) -> usize {
        rows * self.stride() + LINE
    }

    /// Elements of a task's points, its products, and what stands between pixels and those.
    fn parts_of_workspace(&self) -> [usize; 3] {
        let rows = self.tile.padded_rows(self.product.rows.min(ROWS[1]));
        [
            POINTS * self.point(self.at_once),
            POINTS * self.point(rows),
            self.elements_before_points().max(self.elements_behind_products()),
        ]
    }
}

impl Way for Winograd {
    fn product(&self) -> &Product {
        &self.product
    }

    fn tile(&self) -> Tile {
        self.tile
    }

    fn images(&self) -> usize {
        self.blocks.images
    }

    fn rows(&self) -> [usize; 2] {
        ROWS
    }

    fn weight_elements(&self) -> usize {
        POINTS * self.product.channels * self.tile.padded_rows(self.product.rows)
    }

    fn elements_of_task(&self) -> usize {
        self.parts_of_workspace().iter().sum()
    }

    fn is_complete(&self) -> bool {
        true
    }

    /// Part by part of the channels, point by point: those of the same rows and channels are filled together.
    fn tiles<'a, E: Value>(&'a self, weights: &'a [E], mut room: Part<'a>) -> Vec<impl Loops + Send> {
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

    fn compute<E: Value>(&self, weights: &[f32], source: &[E], mut task: Task<'_, E>, workspace: &mut [f32]) {
        vectorised(Work { winograd: self, weights, source, task: &mut task, workspace });
    }
}
