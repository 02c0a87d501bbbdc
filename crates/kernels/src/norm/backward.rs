use burn_backend::DType;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::{
    channel_rows::{Affine, ChannelRows},
    moments::sum,
};
use crate::{
    blocks::{Change, change_rows},
    simd::{SimdLoops, vectorised},
    stored_float::{BLOCK, StoredFloats},
};

/// The backward kernel of a normalisation.
pub(super) struct NormBackward<'a> {
    pub(super) shape: ChannelRows,
    pub(super) input: StoredFloats<'a>,
    pub(super) affine: Affine<'a>,
    pub(super) inverse: &'a [f32],
    pub(super) rectified: bool,
}

impl NormBackward<'_> {
    /// Masks `gradient` by the ReLU: 0 where the normalised value is not above 0.
    #[inline(always)]
    fn masked(&self, channel: usize, values: &[f32], gradient: &mut [f32]) {
        if self.rectified {
            let affine = self.affine.of_channel(channel);
            for (gradient, value) in gradient.iter_mut().zip(values) {
                *gradient = if affine(*value) > 0.0 { *gradient } else { 0.0 };
            }
        }
    }

    /// The gradients of weight and shift.
    pub(super) fn sums(&self, gradient: StoredFloats<'_>) -> (Vec<f32>, Vec<f32>) {
        let of = |channel| {
            let mut found = (0.0, 0.0);
            vectorised(ChannelSums { kernel: self, gradient, channel, found: &mut found });
            found
        };
        (0..self.shape.channels).into_par_iter().map(of).unzip()
    }

    pub(super) fn input_gradient(
        &self,
        gradient: FlexTensor,
        dtype: DType,
        weight: &[f32],
        shift: &[f32],
    ) -> FlexTensor {
        let row = self.shape.row;
        change_rows(gradient, dtype, row, InputGradient { kernel: self, weight, shift })
    }
}

/// Makes the gradient of the input from that of the output.
struct InputGradient<'a> {
    kernel: &'a NormBackward<'a>,
    /// The gradients of weight and shift.
    weight: &'a [f32],
    shift: &'a [f32],
}

impl Change for InputGradient<'_> {
    #[inline(always)]
    fn change(&self, at: usize, gradient: &mut [f32]) {
        let Self { kernel, weight, shift } = self;
        let count = kernel.shape.count() as f32;
        let channel = kernel.shape.channel(at);
        let mut buffer = [0.0; BLOCK];
        let values = kernel.input.read(at..at + gradient.len(), &mut buffer);
        kernel.masked(channel, values, gradient);
        let (mean, scale) = (kernel.affine.mean[channel], kernel.affine.scale[channel]);
        let slope = kernel.inverse[channel] * weight[channel] / count;
        let constant = shift[channel] / count;
        for (gradient, value) in gradient.iter_mut().zip(values) {
            *gradient = scale * (*gradient - constant - (value - mean) * slope);
        }
    }
}

/// Finds the gradients of a channel's weight and shift.
struct ChannelSums<'a> {
    kernel: &'a NormBackward<'a>,
    gradient: StoredFloats<'a>,
    channel: usize,
    found: &'a mut (f32, f32),
}

impl SimdLoops for ChannelSums<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { kernel, gradient, channel, found } = self;
        let (mut buffer, mut read, mut masked) = ([0.0; BLOCK], [0.0; BLOCK], [0.0; BLOCK]);
        let (mut weight, mut shift) = (0.0, 0.0);
        let mean = kernel.affine.mean[channel];
        for block in kernel.shape.blocks(channel) {
            let masked = &mut masked[..block.len()];
            masked.copy_from_slice(gradient.read(block.clone(), &mut read));
            let values = kernel.input.read(block, &mut buffer);
            kernel.masked(channel, values, masked);
            shift += sum(masked);
            masked.iter_mut().zip(values).for_each(|(product, value)| *product *= value - mean);
            weight += sum(masked);
        }
        *found = ((weight * f64::from(kernel.inverse[channel])) as f32, shift as f32);
    }
}

/// Makes the gradient before a ReLU from the one behind it.
pub(super) struct Masked<'a> {
    /// What the ReLU made.
    pub(super) output: StoredFloats<'a>,
}

impl Change for Masked<'_> {
    #[inline(always)]
    fn change(&self, at: usize, gradient: &mut [f32]) {
        let mut buffer = [0.0; BLOCK];
        let output = self.output.read(at..at + gradient.len(), &mut buffer);
        for (gradient, output) in gradient.iter_mut().zip(output) {
            *gradient = if *output > 0.0 { *gradient } else { 0.0 };
        }
    }
}
