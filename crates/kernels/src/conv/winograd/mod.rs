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
mod compute;
mod packing;
mod patches;
mod pieces;
mod points;

use super::{
    algorithm::ConvAlgorithm,
    product::{ConvProduct, ConvTask},
};
use crate::{simd::SimdLoops, stored_float::StoredFloat, tile::Tile, uninit::UninitSlice};

use blocking::{POINTS, ROWS};
use compute::compute;
use packing::WinogradPacking;

pub(super) use blocking::Winograd;

impl ConvAlgorithm for Winograd {
    fn product(&self) -> &ConvProduct {
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

    #[inline(always)]
    fn compute<E: StoredFloat>(
        &self,
        weights: &[f32],
        source: &[E],
        task: &mut ConvTask<'_, E>,
        workspace: &mut [f32],
    ) {
        compute(self, weights, source, task, workspace);
    }
}
