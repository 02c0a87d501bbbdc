//! Direct convolutions of bf16 by dot products of pairs: the pixels of a band of lines are paired over channels once, and each tap reads them
//! at its own distance. Nothing is packed for each tap. With a stride of 2, pixels that a tap reads one after the other are put side by side.
//!
//! Every result is one sum in a fixed order, 32 channels by 32 and tap by tap in them: it does not depend on the number of tasks.

mod grid;
mod load;

use std::ops::Range;

use burn::tensor::bf16;
use burn_backend::DType;
use burn_flex::FlexTensor;
use oomph_bf16::{Element, Line, MatrixUnit, PlaneUnit, Planes, Rounded, SIDE, Vectors};
use oomph_core::{Account, charge};
use rayon::prelude::*;

use super::{
    algorithm::{ConvAlgorithm, ConvFrame},
    product::{ConvProduct, ConvTask},
};
use crate::{
    custom_op::split,
    matrix_unit::{OF_LINE, unit_for},
    simd::vectorised,
    stored_float::{StoredFloat, StoredFloats},
    tile::Tile,
    uninit,
    window::Axis,
    workers,
};

use grid::{Grid, Piece};
use load::LoadBand;

/// The least and the most rows of a task. Its pixels are paired once for all of them.
const ROWS: [usize; 2] = [128, 512];

/// Strips of pixels that are multiplied by the same rows at once.
const AT_ONCE: usize = 16;

/// Images that may stand side by side. Small images fill strips only together, and at their borders whole strips read zeros alone, which are
/// left out.
const IMAGES: [usize; 4] = [1, 8, 16, 32];

/// The least tasks with several images, so that several threads have some.
const TASKS: usize = 8;

/// The most time by that of the products of all taps of all pixels: with more, packing for each tap is as fast.
const MOST: f64 = 1.25;

/// A direct convolution.
pub(super) struct Direct {
    unit: MatrixUnit,
    planes: PlaneUnit,
    product: ConvProduct,
    /// Images of a task: those of a spot.
    images: usize,
    grids: Vec<Grid>,
}

impl Direct {
    /// The convolution with these grids, of numbers of a format. `None` if the processor cannot multiply planes, or if another algorithm is
    /// faster.
    pub(super) fn where_it_pays(product: ConvProduct, grids: &[[Axis; 2]], dtype: DType) -> Option<Self> {
        let unit = unit_for(dtype, dtype).filter(|_| dtype == DType::BF16)?;
        let planes = unit.for_planes()?;
        let is_near = grids.iter().flatten().all(|axis| axis.stride <= 2);
        // Whole steps of channels, and kernels whose taps would all be packed.
        if !is_near || !product.channels.is_multiple_of(SIDE) || product.kernel == [1; 2] {
            return None;
        }
        let tasks = |images| product.batch / images * product.rows.div_ceil(ROWS[0]);
        let of_spot = |images: &usize| *images == 1 || tasks(*images) >= TASKS;
        let timed = |images| {
            let direct = charge(Account::Host, || Self::new(unit, planes, product, grids, images));
            (direct.share_of_time(), direct)
        };
        let all = IMAGES.iter().copied().filter(of_spot).map(timed);
        let (share, fastest) = all.min_by(|(one, _), (other, _)| one.total_cmp(other))?;
        (product.rows >= SIDE && share <= MOST).then_some(fastest)
    }

    fn new(
        unit: MatrixUnit,
        planes: PlaneUnit,
        product: ConvProduct,
        grids: &[[Axis; 2]],
        images: usize,
    ) -> Self {
        let mut direct = Self { unit, planes, product, images, grids: Vec::new() };
        let mut weights = 0;
        for axes in grids {
            let grid = Grid::new(product, axes, images, weights);
            weights += product.rows.div_ceil(SIDE) * direct.lines_of_strip(&grid);
            direct.grids.push(grid);
        }
        direct
    }

    /// The time by that of the products of all taps of all pixels.
    fn share_of_time(&self) -> f64 {
        // Products that take as long as to load a number of one channel. Of several images the numbers are put side by side one by one.
        let load = if self.images == 1 { 8 } else { 40 };
        let of_grid = |grid: &Grid| grid.products() * ROWS[0] + grid.loaded() * load;
        let all = |grid: &Grid| grid.pixels() * grid.kernel.len() * ROWS[0];
        let [time, all] =
            [self.grids.iter().map(of_grid).sum::<usize>(), self.grids.iter().map(all).sum::<usize>()];
        time as f64 / all.max(1) as f64
    }

    /// Packed lines of 32 rows.
    fn lines_of_strip(&self, grid: &Grid) -> usize {
        self.product.channels * grid.kernel.len()
    }

    /// Elements of a task's products, and of its planes.
    fn parts_of_workspace(&self) -> [usize; 2] {
        let of_plane = self.grids.iter().map(|grid| grid.of_plane).max().unwrap_or(0);
        [AT_ONCE * SIDE * SIDE, self.product.channels / 2 * of_plane]
    }

    /// Packs all weights: grid by grid, strip by strip of rows, 32 channels by 32, and tap by tap in them.
    fn pack_all<W: Element>(&self, weights: &[W], memory: Vec<Line>) -> Vec<Line> {
        let ConvProduct { rows, channels, .. } = self.product;
        let [strips, steps] = [rows, channels].map(|count| count.div_ceil(SIDE));
        let lines = self.grids.iter().map(|grid| strips * self.lines_of_strip(grid)).sum();
        let mut packed = uninit::left_over_in(memory, lines);
        for grid in &self.grids {
            let of_step = grid.kernel.len() * SIDE;
            let of_grid = &mut packed[grid.weights..][..strips * steps * of_step];
            workers::for_each(of_grid.par_chunks_mut(of_step).enumerate(), |(index, to)| {
                let [row, channel] = [index / steps, index % steps].map(|at| at * SIDE);
                self.pack_weights(grid, weights, row..rows.min(row + SIDE), channel, to);
            });
        }
        packed
    }

    /// Packs the weights of at most 32 rows and of 32 channels, tap by tap.
    fn pack_weights<W: Element>(
        &self,
        grid: &Grid,
        weights: &[W],
        rows: Range<usize>,
        first_channel: usize,
        to: &mut [Line],
    ) {
        let [of_row, of_channel] = self.product.weights;
        let mut gathered = [[W::default(); SIDE]; SIDE];
        for (tap, to) in grid.kernel.iter().zip(to.chunks_exact_mut(SIDE)) {
            for (row, to) in rows.clone().zip(&mut gathered) {
                let from = &weights[row * of_row + first_channel * of_channel + tap..];
                to.iter_mut().zip(from.iter().step_by(of_channel)).for_each(|(to, from)| *to = *from);
            }
            let all = Vectors::along(gathered.as_flattened(), SIDE, SIDE);
            self.unit.pack_left(all.some_of(0..rows.len(), 0..SIDE), to);
        }
    }

    /// Multiplies the rows of a task by some strips of a band, and writes the products.
    #[inline(always)]
    fn multiply(
        &self,
        grid: &Grid,
        weights: &[Line],
        planes: &[f32],
        [band, strips]: [&Range<usize>; 2],
        products: &mut [f32],
        task: &mut ConvTask<'_, bf16>,
    ) {
        let (planes, taps) = (Planes { pairs: planes, of_plane: grid.of_plane }, grid.kernel.len());
        let (pieces, shifts): (Vec<_>, Vec<_>) = charge(Account::Host, || {
            let pieces = grid.pieces(band, strips.clone(), self.product.target[1]).collect();
            (pieces, strips.clone().map(|strip| grid.shifts(band, strip)).collect())
        });
        for (strip, left) in weights.chunks_exact(self.lines_of_strip(grid)).enumerate() {
            let of_strips = products.as_chunks_mut::<{ SIDE * SIDE }>().0;
            for ((column, shifts), products) in strips.clone().zip(&shifts).zip(of_strips) {
                self.planes.multiply(left, taps, planes, shifts, column * SIDE, products);
            }
            let first = strip * SIDE;
            for row in first..task.rows.min(first + SIDE) {
                for piece in &pieces {
                    self.put(piece, row, &products[(row - first) * SIDE..], task);
                }
            }
        }
    }

    /// Writes the products of a row with some pixels. From each strip to the next one there are those of 32 rows.
    #[inline(always)]
    fn put(&self, piece: &Piece, row: usize, products: &[f32], task: &mut ConvTask<'_, bf16>) {
        let Piece { first, length, target } = *piece;
        let place = |spot: usize, image: usize| {
            let position = spot * self.images + image;
            position / SIDE * SIDE * SIDE + position % SIDE
        };
        if self.images == 1 {
            return task.write_every(0, row, target, &products[place(first, 0)..][..length]);
        }
        let mut pixels = [0.0; AT_ONCE * SIDE];
        for image in 0..task.images.len() {
            let spots = first..first + length;
            pixels.iter_mut().zip(spots).for_each(|(to, spot)| *to = products[place(spot, image)]);
            task.write_every(image, row, target, &pixels[..length]);
        }
    }
}

impl ConvAlgorithm<bf16> for Direct {
    type Weight = Line;

    fn frame(&self) -> ConvFrame {
        let ConvProduct { rows, target, .. } = self.product;
        let lines = self.grids.iter().map(|grid| rows.div_ceil(SIDE) * self.lines_of_strip(grid));
        ConvFrame {
            product: self.product,
            tile: Tile { rows: SIDE, columns: SIDE },
            images: self.images,
            rows: ROWS,
            weight_elements: lines.sum::<usize>() * OF_LINE,
            elements_of_task: self.parts_of_workspace().iter().sum(),
            // If kernels are smaller than their stride, some pixels are in no grid.
            is_complete: self.grids.iter().map(Grid::pixels).sum::<usize>() == target[0] * target[1],
        }
    }

    fn pack(&self, weights: &FlexTensor, memory: Vec<Line>) -> Vec<Line> {
        match StoredFloats::of(weights) {
            StoredFloats::F32(wide) => self.pack_all(Rounded::all(wide), memory),
            _ => self.pack_all(bf16::values(weights), memory),
        }
    }

    #[inline(always)]
    fn compute(
        &self,
        weights: &[Line],
        source: &[bf16],
        task: &mut ConvTask<'_, bf16>,
        workspace: &mut [f32],
    ) {
        let ConvProduct { channels, source: [height, width], .. } = self.product;
        let [products, planes] = split(workspace, self.parts_of_workspace());
        let of_image = channels * height * width;
        let images = &source[task.first_image * of_image..][..task.images.len() * of_image];
        for grid in &self.grids {
            let of_strip = self.lines_of_strip(grid);
            let left = &weights[grid.weights + task.first_row / SIDE * of_strip..];
            let left = &left[..task.rows.div_ceil(SIDE) * of_strip];
            let planes = &mut planes[..channels / 2 * grid.of_plane];
            for band in grid.bands() {
                let count = task.images.len();
                vectorised(LoadBand { grid, images, count, band: band.clone(), planes });
                let strips = grid.strips(band.len());
                for first in (0..strips).step_by(AT_ONCE) {
                    let strips = first..strips.min(first + AT_ONCE);
                    self.multiply(grid, left, planes, [&band, &strips], products, task);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv::product::ConvSizes;

    /// Images of a spot, where the algorithm is chosen.
    fn images(batch: usize, channels: [usize; 2], size: usize, kernel: usize) -> Option<usize> {
        let axes = [size; 2].map(|size| Axis::forward(size, kernel, 1, kernel / 2));
        let sizes = ConvSizes { batch, channels, input: [size; 2], output: [size; 2], kernel: [kernel; 2] };
        let direct = Direct::where_it_pays(ConvProduct::forward(sizes), &[axes], DType::BF16);
        direct.map(|direct| direct.images)
    }

    #[test]
    fn it_is_chosen_where_it_pays() {
        if unit_for(DType::BF16, DType::BF16).and_then(MatrixUnit::for_planes).is_none() {
            return println!("skipped: this processor has no dot products of bf16, or tiles");
        }
        assert_eq!(images(8, [64, 64], 56, 3), Some(1));
        // Small images stand side by side, if several threads have tasks then.
        assert!(images(32, [512, 512], 4, 3) > Some(1));
        assert_eq!(images(2, [512, 512], 4, 3), None);
        // Channels that are no whole steps, and kernels of one tap.
        assert_eq!(images(8, [48, 64], 56, 3), None);
        assert_eq!(images(8, [64, 64], 56, 1), None);
    }
}
