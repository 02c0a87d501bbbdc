//! 3×3 convolutions with fewer products: a patch of 2×2 pixels takes 16 products for each channel instead of 36 (the minimal
//! filters F(2×2, 3×3) of "Fast Algorithms for Convolutional Neural Networks", Lavin and Gray 2015,
//! <https://arxiv.org/abs/1509.09308>).
//!
//! Kernels and windows of 4×4 pixels become 16 points each. Each point is a matrix product, channels by patches, and the
//! products of all points become the patch. Points are computed in a core's cache, for some channels of some patches at a
//! time, and their products become patches there.
//!
//! Points take only sums, differences and halves of kernels: rounding grows little, as in the paper. A pixel that is NaN or
//! infinite spreads over all pixels of the patches whose windows contain it.
//!
//! Every result is one sum in a fixed order, in parts of as many channels. It does not depend on the number of threads, nor
//! on the batch as long as this algorithm is chosen.

mod blocking;
mod blocks;
mod gradient;
mod kernels;
mod packing;
mod patches;
mod points;

use std::ops::Range;

use burn_flex::FlexTensor;
use oomph_core::{Account, charge};

use super::{
    algorithm::{ConvAlgorithm, ConvFrame, fill_tiles},
    product::{ConvProduct, ConvTask},
};
use crate::{
    simd::SimdLoops,
    stored_float::StoredFloat,
    tile::{Factors, ScatteredColumns, Start, TileColumn},
    uninit::{self, UninitSlice},
};

use blocking::{POINTS, ROWS};
use packing::WinogradPacking;

pub(super) use blocking::{PATCH, TAPS, Winograd};
pub(super) use blocks::{Blocks, TASKS, Windows};
pub(super) use gradient::KernelGradient;
pub(super) use kernels::add_kernels;
pub(super) use packing::kernel_points;
pub(super) use patches::put_pixels;

impl<E: StoredFloat> ConvAlgorithm<E> for Winograd {
    type Weight = f32;

    fn frame(&self) -> ConvFrame {
        ConvFrame {
            product: self.product,
            tile: self.tile,
            images: self.blocks.images,
            rows: ROWS,
            weight_elements: self.weight_elements(),
            elements_of_task: self.parts_of_workspace().iter().sum(),
            is_complete: true,
        }
    }

    fn of_rows(&self, rows: Range<usize>) -> Option<Self> {
        let product = ConvProduct { rows: rows.len(), ..self.product };
        Some(Self { product, first_row: self.first_row + rows.start, ..self.clone() })
    }

    fn pack(&self, weights: &FlexTensor, memory: Vec<f32>) -> Vec<f32> {
        let weights = E::values(weights);
        let count = self.weight_elements();
        uninit::made_in(memory, count, |memory| fill_tiles(|| self.tiles(weights, memory))).0
    }

    #[inline(always)]
    fn compute(&self, weights: &[f32], source: &[E], task: &mut ConvTask<'_, E>, workspace: &mut [f32]) {
        let [points, products, _] = self.parts_of_workspace();
        let (points, rest) = workspace.split_at_mut(points);
        let (products, between) = rest.split_at_mut(products);
        let stride = self.stride();
        let offsets: Vec<_> =
            charge(Account::Host, || (0..self.at_once).map(|channel| (channel * stride) as u32).collect());
        let padded = self.tile.padded_rows(task.rows);
        let apart = [self.point(self.at_once), self.point(padded)];
        let images = task.first_image..task.first_image + task.images.len();
        for windows in self.blocks.windows(images) {
            for first in (0..self.product.channels).step_by(self.at_once) {
                let channels = first..(first + self.at_once).min(self.product.channels);
                let offsets = &offsets[..channels.len()];
                self.make_points(&windows, channels.clone(), source, points, between);
                let rows = task.first_row..task.first_row + padded;
                let columns = self.blocks.patches_of(&windows);
                for point in 0..POINTS {
                    let tiles = self.tiles_of(weights, point, channels.clone(), rows.clone());
                    let points = &points[point * apart[0]..];
                    let products = &mut products[point * apart[1]..][..padded * stride];
                    for column in (0..columns).step_by(self.tile.columns) {
                        let elements = &points[column..];
                        let columns = ScatteredColumns { elements, runs: [0, self.tile.run()], offsets };
                        let factors = Factors::Scattered { tiles, columns };
                        let sums = &mut products[column..];
                        TileColumn {
                            factors,
                            next: &[],
                            ahead: None,
                            sums,
                            stride,
                            start: Start::adding(first > 0),
                            then: None,
                        }
                        .compute();
                    }
                }
            }
            for row in 0..task.rows {
                self.put_patches(&windows, row, &products[row * stride..], apart[1], task, between);
            }
        }
    }
}

impl Winograd {
    /// Elements of the weights in tiles.
    fn weight_elements(&self) -> usize {
        POINTS * self.product.channels * self.tile.padded_rows(self.product.rows)
    }

    /// Part by part of the channels, point by point. The tiles of the same rows and channels are filled together.
    fn tiles<'a, E: StoredFloat>(
        &'a self,
        weights: &'a [E],
        mut memory: UninitSlice<'a>,
    ) -> Vec<impl SimdLoops + Send> {
        let ConvProduct { channels, rows, .. } = self.product;
        let of_tile = self.tile.rows;
        let mut tiles = Vec::new();
        for first in (0..channels).step_by(self.at_once) {
            let channels = first..(first + self.at_once).min(channels);
            let depth = channels.len();
            let [block, behind] = memory.split(POINTS * depth * self.tile.padded_rows(rows));
            memory = behind;
            let before = tiles.len();
            tiles.extend((0..rows).step_by(of_tile).map(|first| WinogradPacking {
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

impl Winograd {
    /// The tiles of weights of some rows and channels for a point.
    #[inline(always)]
    fn tiles_of<'a>(
        &self,
        weights: &'a [f32],
        point: usize,
        channels: Range<usize>,
        rows: Range<usize>,
    ) -> &'a [f32] {
        let of_channels = POINTS * channels.start + point * channels.len();
        let before = of_channels * self.tile.padded_rows(self.product.rows);
        &weights[before + rows.start * channels.len()..][..rows.len() * channels.len()]
    }
}
