//! A convolution as a matrix product of the kernels and the inputs of each pixel. The second matrix never exists as a whole:
//! a block of it is put together in a core's cache when it is needed (as in "cuDNN: Efficient Primitives for Deep
//! Learning", Chetlur et al. 2014, <https://arxiv.org/abs/1410.0759>).
//!
//! Back to the input, a stride above 1 cuts the pixels of the input into grids. The pixels of one grid are read by the same
//! taps, so that nothing is multiplied by the zeros in between.
//!
//! Every result is one sum in a fixed order, channel by channel and tap by tap, in parts of a fixed depth: it does not
//! depend on the number of tasks.

mod blocking;
mod compute;
mod grid;

use std::ops::Range;

use burn_flex::FlexTensor;
use oomph_core::{Account, charge};

use super::{
    algorithm::{ConvAlgorithm, ConvFrame, fill_tiles},
    product::ConvTask,
};
use crate::{
    interleave::{interleave, interleave_some},
    simd::SimdLoops,
    stored_float::StoredFloat,
    uninit::{self, UninitSlice},
    window::kernel_indices,
};

use blocking::LEAST_ROWS;
use compute::BlockProducts;
use grid::Grid;

pub(super) use blocking::Gather;

impl<E: StoredFloat> ConvAlgorithm<E> for Gather {
    type Weight = f32;

    fn frame(&self) -> ConvFrame {
        let of_grid = |grid: &Grid| grid.axes.iter().map(|axis| axis.grid).product::<usize>();
        let pixels: usize = self.grids.iter().map(of_grid).sum();
        ConvFrame {
            product: self.product,
            tile: self.tile,
            images: self.images,
            rows: [LEAST_ROWS, self.most_rows()],
            weight_elements: self.weight_elements(),
            elements_of_task: self.parts_of_workspace().iter().sum(),
            // If kernels are smaller than their stride, some pixels are in no grid.
            is_complete: pixels == self.product.target[0] * self.product.target[1],
        }
    }

    fn pack(&self, weights: &FlexTensor, memory: Vec<f32>) -> Vec<f32> {
        let weights = E::values(weights);
        let count = self.weight_elements();
        uninit::made_in(memory, count, |memory| fill_tiles(|| self.tiles(weights, memory))).0
    }

    #[inline(always)]
    fn compute(&self, weights: &[f32], source: &[E], task: &mut ConvTask<'_, E>, workspace: &mut [f32]) {
        let [copy, panel, _] = self.parts_of_workspace();
        let (copy, rest) = workspace.split_at_mut(copy);
        let (panel, sums) = rest.split_at_mut(panel);
        for grid in &self.grids {
            let offsets = charge(Account::Host, || grid.offsets(grid.at_once));
            for first in (0..grid.axes[0].grid).step_by(grid.height) {
                for channel in (0..self.product.channels).step_by(grid.at_once) {
                    let channels = channel..(channel + grid.at_once).min(self.product.channels);
                    let images = task.first_image..task.first_image + task.images.len();
                    let offsets = &offsets[..channels.len() * grid.taps()];
                    let rows = task.first_row..task.first_row + task.rows;
                    let height = grid.height.min(grid.axes[0].grid - first);
                    let columns = images.len() * height * grid.axes[1].grid;
                    let products = BlockProducts { gather: self, grid, weights, offsets, channel, columns };
                    let ahead = charge(Account::Host, || products.ahead(source, task, first));
                    if grid.direct {
                        let start = images.start * grid.steps[0] + channel * grid.steps[1];
                        let start = start + first * grid.axes[1].grid;
                        products.add(rows, &source[start..], copy, panel, sums, ahead);
                    } else {
                        grid.copy(self, source, images, channels, first, copy);
                        products.add(rows, copy, copy, panel, sums, ahead);
                    }
                }
                grid.put(self, task, first, sums);
            }
        }
    }
}

impl Gather {
    /// Elements of the weights in tiles.
    fn weight_elements(&self) -> usize {
        let taps: usize = self.grids.iter().map(Grid::taps).sum();
        taps * self.product.channels * self.tile.padded_rows(self.product.rows)
    }

    /// Grid by grid, block by block of channels.
    fn tiles<'a, E: StoredFloat>(
        &'a self,
        weights: &'a [E],
        mut memory: UninitSlice<'a>,
    ) -> Vec<impl SimdLoops + Send> {
        let rows = self.tile.rows;
        let mut tiles = Vec::new();
        for grid in &self.grids {
            for first in (0..self.product.channels).step_by(grid.at_once) {
                let channels = first..(first + grid.at_once).min(self.product.channels);
                let depth = channels.len() * grid.taps();
                let [block, behind] = memory.split(depth * self.tile.padded_rows(self.product.rows));
                memory = behind;
                let of_block = block.parts(depth * rows).enumerate();
                tiles.extend(of_block.map(|(index, tile)| GatherPacking {
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
}

/// Puts the weights of some rows and channels into a tile.
struct GatherPacking<'a, E> {
    gather: &'a Gather,
    grid: &'a Grid,
    weights: &'a [E],
    channels: Range<usize>,
    rows: Range<usize>,
    tile: UninitSlice<'a>,
}

impl<E: StoredFloat> SimdLoops for GatherPacking<'_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { gather, grid, weights, channels, rows, tile } = self;
        let tile = tile.zeroed();
        let [of_row, of_channel] = gather.product.weights;
        let taps =
            charge(Account::Host, || kernel_indices(&grid.axes, gather.product.kernel).collect::<Vec<_>>());
        if of_channel == taps.len() && taps.iter().copied().eq(0..taps.len()) {
            // The weights of a row are contiguous over channels and taps, in the order of the tile.
            let depth = channels.len() * taps.len();
            let start = channels.start * taps.len();
            let of_row = |row: usize| &weights[(rows.start + row) * of_row + start..][..depth];
            interleave(rows.len(), of_row, 0..depth, tile, gather.tile.rows);
            return;
        }
        for (channel, tile) in channels.zip(tile.chunks_exact_mut(taps.len() * gather.tile.rows)) {
            let first = channel * of_channel;
            if of_row == 1 {
                // The rows of one channel are contiguous.
                let weights = &weights[first + rows.start..first + rows.end];
                tile.iter_mut().zip(weights).for_each(|(to, weight)| *to = weight.widened());
                continue;
            }
            let of_channel = |row: usize| &weights[(rows.start + row) * of_row + first..];
            interleave_some(rows.len(), of_channel, taps.iter().copied(), tile, gather.tile.rows);
        }
    }
}
