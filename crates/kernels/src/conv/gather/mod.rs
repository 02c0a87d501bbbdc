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
mod packing;

use super::{
    algorithm::ConvAlgorithm,
    product::{ConvProduct, ConvTask},
};
use crate::{simd::SimdLoops, stored_float::StoredFloat, tile::Tile, uninit::UninitSlice};

use blocking::LEAST_ROWS;
use compute::compute;
use grid::Grid;
use packing::GatherPacking;

pub(super) use blocking::Gather;

impl ConvAlgorithm for Gather {
    fn product(&self) -> &ConvProduct {
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

    /// If kernels are smaller than their stride, some pixels are in no grid.
    fn is_complete(&self) -> bool {
        let of_grid = |grid: &Grid| grid.axes.iter().map(|axis| axis.grid).product::<usize>();
        self.grids.iter().map(of_grid).sum::<usize>() == self.product.target[0] * self.product.target[1]
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
