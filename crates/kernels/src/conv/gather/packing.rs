use std::ops::Range;

use oomph_core::{Account, charge};

use super::{blocking::Gather, grid::Grid};
use crate::{interleave::interleave, simd::SimdLoops, stored_float::StoredFloat, uninit::UninitSlice};

/// Puts the weights of some rows and channels into a tile.
pub(super) struct GatherPacking<'a, E> {
    pub(super) gather: &'a Gather,
    pub(super) grid: &'a Grid,
    pub(super) weights: &'a [E],
    pub(super) channels: Range<usize>,
    pub(super) rows: Range<usize>,
    pub(super) tile: UninitSlice<'a>,
}

impl<E: StoredFloat> SimdLoops for GatherPacking<'_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { gather, grid, weights, channels, rows, tile } = self;
        let tile = tile.zeroed();
        let [of_row, of_channel] = gather.product.weights;
        let taps = charge(Account::Host, || grid.kernel_indices(gather.product.kernel).collect::<Vec<_>>());
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
            interleave(rows.len(), of_channel, taps.iter().copied(), tile, gather.tile.rows);
        }
    }
}
