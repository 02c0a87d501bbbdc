use std::ops::Range;

use burn::tensor::Tensor;
use burn_backend::DType;
use burn_flex::FlexTensor;

use crate::{cast::cast, kernels::Kernels, stored_float::BLOCK};

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

    /// All blocks of a channel.
    #[inline(always)]
    pub(super) fn blocks(self, channel: usize) -> impl Iterator<Item = Range<usize>> {
        (0..self.batch).flat_map(move |sample| {
            let start = (sample * self.channels + channel) * self.row;
            let end = start + self.row;
            (start..end).step_by(BLOCK).map(move |at| at..(at + BLOCK).min(end))
        })
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
