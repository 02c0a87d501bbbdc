use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{prelude::*, std::FastDivmod};

use crate::{launch::THREADS, tensor::sizes};

/// Cubes that fill any card. The number is the same for all cards, so that sums have one order.
const CUBES: usize = 1024;

/// Values that make a cube worth its cost.
const LEAST: usize = 8 * THREADS as usize;

/// How the values of each channel of `[B, C, H, W]` are parted among cubes.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub(super) channels: usize,
    /// Vectors of a row, which is one channel of one sample.
    row: usize,
    /// Vectors of a channel.
    vectors: usize,
    /// Vectors of a part.
    of_each: usize,
    /// Parts of a channel.
    pub(super) parts: usize,
}

impl Parts {
    pub(super) fn new<R: CubeRuntime>(tensor: &CubeTensor<R>, width: usize) -> Self {
        let [batch, channels, height, columns] = sizes(tensor);
        let row = height * columns / width;
        let vectors = batch * row;
        let wanted = CUBES.div_ceil(channels.max(1)).min(vectors * width / LEAST).max(1);
        let of_each = vectors.div_ceil(wanted).max(1);
        Self { channels, row, vectors, of_each, parts: vectors.div_ceil(of_each).max(1) }
    }

    pub(super) fn cubes(self) -> CubeCount {
        CubeCount::new_2d(self.channels as u32, self.parts as u32)
    }

    pub(super) fn argument<R: CubeRuntime>(self) -> ChannelPartLaunch<R> {
        ChannelPartLaunch::new(self.row, self.row, self.vectors, self.of_each)
    }
}

/// The part of a channel that this cube has: the cube's column is the channel, and its row the part.
#[derive(CubeType, CubeLaunch, Clone, Copy)]
pub(super) struct ChannelPart {
    in_rows: FastDivmod<usize>,
    row: usize,
    pub(super) vectors: usize,
    pub(super) of_each: usize,
}

#[cube]
impl ChannelPart {
    /// The first vector of the part.
    pub(super) fn begin(&self) -> usize {
        CUBE_POS_Y as usize * self.of_each
    }

    /// The end of the part.
    pub(super) fn end(&self) -> usize {
        min(self.vectors, self.begin() + self.of_each)
    }

    /// The place in the tensor of a vector of the channel.
    pub(super) fn place(&self, vector: usize) -> usize {
        let (sample, at) = self.in_rows.div_mod(vector);
        (sample * CUBE_COUNT_X as usize + CUBE_POS_X as usize) * self.row + at
    }
}
