use std::ops::Range;

use burn::tensor::Tensor;
use burn_backend::DType;
use burn_flex::FlexTensor;

use crate::{
    cast::cast,
    kernels::Kernels,
    prefetch,
    stored_float::{BLOCK, Buffer, StoredFloats, with_values},
};

/// The tensor as `[B, C, S]`, in 32 bits.
pub(super) fn rows_of(tensor: Tensor<4>) -> Tensor<3> {
    let [batch, channels, height, width] = tensor.dims();
    cast(tensor, DType::F32, Kernels::Composed).reshape([batch, channels, height * width])
}

/// A vector over channels, broadcast over `[B, C, S]`.
pub(super) fn over_rows(vector: Tensor<1>) -> Tensor<3> {
    let [channels] = vector.dims();
    vector.reshape([1, channels, 1])
}

/// The rows of `[B, C, H, W]`: one channel of one sample each.
#[derive(Clone, Copy)]
pub(super) struct ChannelRows {
    pub(super) batch: usize,
    pub(super) channels: usize,
    /// Elements of a row.
    pub(super) row: usize,
}

impl ChannelRows {
    pub(super) fn of(tensor: &Tensor<4>) -> Self {
        let [batch, channels, height, width] = tensor.dims();
        Self { batch, channels, row: height * width }
    }

    /// Values of each channel.
    pub(super) fn count(self) -> f64 {
        (self.batch * self.row) as f64
    }

    pub(super) fn channel(self, element: usize) -> usize {
        element / self.row.max(1) % self.channels
    }

    /// All blocks of a channel: parts of a row, or several rows.
    #[inline(always)]
    pub(super) fn blocks(self) -> impl Iterator<Item = Block> {
        let (at_once, of_row) = ((BLOCK / self.row.max(1)).max(1), BLOCK.min(self.row.max(1)));
        (0..self.batch).step_by(at_once).flat_map(move |sample| {
            let samples = [sample, (sample + at_once).min(self.batch)];
            let part = move |at| Block { samples, part: [at, (at + of_row).min(self.row)] };
            (0..self.row).step_by(of_row).map(part)
        })
    }

    /// The elements of a block in the memory of all rows: where those of a sample begin, and how many these are.
    #[inline(always)]
    fn place(self, channel: usize, sample: usize, block: &Block) -> Range<usize> {
        let first = (sample * self.channels + channel) * self.row;
        first + block.part[0]..first + block.part[1]
    }

    /// Begins to bring a channel's block into the cache: rows are far apart.
    #[inline(always)]
    pub(super) fn prefetch(self, values: StoredFloats<'_>, channel: usize, block: &Block) {
        with_values!(values, values => {
            for sample in block.samples[0]..block.samples[1] {
                prefetch::all(&values[self.place(channel, sample, block)]);
            }
        });
    }

    /// The elements of a channel's block, in 32 bits.
    #[inline(always)]
    pub(super) fn read<'a>(
        self,
        values: StoredFloats<'a>,
        channel: usize,
        block: &Block,
        buffer: &'a mut Buffer,
    ) -> &'a [f32] {
        if block.samples[1] - block.samples[0] == 1 {
            return values.read(self.place(channel, block.samples[0], block), buffer);
        }
        for (sample, to) in (block.samples[0]..).zip(buffer[..block.length()].chunks_exact_mut(self.row)) {
            values.load(self.place(channel, sample, block).start, to);
        }
        &buffer[..block.length()]
    }
}

/// At most [`BLOCK`] elements of a channel: a part of each row of some samples.
#[derive(Clone, Copy)]
pub(super) struct Block {
    /// The first sample, and the one behind the last.
    pub(super) samples: [usize; 2],
    /// The first element of a row, and the one behind the last.
    pub(super) part: [usize; 2],
}

impl Block {
    #[inline(always)]
    pub(super) fn length(&self) -> usize {
        (self.samples[1] - self.samples[0]) * (self.part[1] - self.part[0])
    }
}

/// y ↦ (y − mean) · scale + shift, channel by channel.
pub(crate) struct Affine<'a> {
    pub(super) mean: &'a [f32],
    pub(super) scale: &'a [f32],
    shift: &'a [f32],
}

impl<'a> Affine<'a> {
    pub(crate) fn of(vectors: &'a [FlexTensor]) -> Self {
        let [mean, scale, shift] = [0, 1, 2].map(|index: usize| vectors[index].storage());
        Self { mean, scale, shift }
    }

    #[inline(always)]
    pub(crate) fn of_channel(&self, channel: usize) -> impl Fn(f32) -> f32 + use<> {
        let (mean, scale, shift) = (self.mean[channel], self.scale[channel], self.shift[channel]);
        move |value| (value - mean) * scale + shift
    }
}
