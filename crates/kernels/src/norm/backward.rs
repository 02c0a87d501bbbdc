use std::ops::Deref;

use burn_backend::DType;
use burn_flex::FlexTensor;
use oomph_core::{Account, charge};
use rayon::prelude::*;

use super::{
    channel_rows::{Affine, Block, ChannelRows},
    moments::{TRACKS, total},
};
use crate::{
    blocks::{Change, change_rows},
    prefetch,
    simd::{SimdLoops, multiply_add, vectorised},
    stored_float::{BLOCK, Buffer, StoredFloat, StoredFloats, by_dtype, with_values},
    workers,
};

/// Blocks that are asked for ahead of the one that is summed: memory takes longer than a block.
const AHEAD: usize = 4;

/// The backward kernel of a normalisation.
pub(super) struct NormBackward<'a> {
    pub(super) shape: ChannelRows,
    pub(super) input: StoredFloats<'a>,
    pub(super) affine: Affine<'a>,
    pub(super) inverse: &'a [f32],
    pub(super) rectified: bool,
}

impl NormBackward<'_> {
    /// The gradients of weight and shift.
    pub(super) fn sums(&self, gradient: StoredFloats<'_>) -> (Vec<f32>, Vec<f32>) {
        let ChannelRows { batch, channels, row } = self.shape;
        with_values!(gradient, values => {
            let of = |channel: usize| {
                let rows = charge(Account::Host, || {
                    let row = |sample: usize| &values[(sample * channels + channel) * row..][..row];
                    (0..batch).map(row).collect::<Vec<_>>()
                });
                self.sums_of(channel, &rows)
            };
            workers::map((0..channels).into_par_iter(), of).unzip()
        })
    }

    /// The gradients of a channel's weight and shift, by the channel's rows of the gradient.
    fn sums_of<E: StoredFloat>(&self, channel: usize, rows: &[&[E]]) -> (f32, f32) {
        let mut found = (0.0, 0.0);
        vectorised(ChannelSums { kernel: self, channel, rows, found: &mut found });
        found
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

    /// All gradients, of which the input's overwrites that of the output. A channel's rows are read again as long as they lie in the cache.
    ///
    /// # Panics
    /// Panics if somebody else holds the gradient.
    pub(super) fn in_place(&self, mut gradient: FlexTensor) -> (FlexTensor, Vec<f32>, Vec<f32>) {
        assert!(gradient.is_unique(), "the gradient is overwritten");
        let (weight, shift) = by_dtype!(gradient.dtype(), E => {
            let rows = E::storage(&mut gradient).chunks_exact_mut(self.shape.row.max(1));
            let mut channels: Vec<_> =
                charge(Account::Host, || (0..self.shape.channels).map(|_| Vec::with_capacity(self.shape.batch)).collect());
            rows.enumerate().for_each(|(index, row)| channels[index % self.shape.channels].push(row));
            let channels = channels.into_par_iter().enumerate();
            workers::map(channels, |(channel, rows)| self.change_channel::<E>(channel, rows)).unzip()
        });
        (gradient, weight, shift)
    }

    /// Changes the gradient of the output into that of the input. The gradients of weight and shift.
    fn change_channel<E: StoredFloat>(&self, channel: usize, rows: Vec<&mut [E]>) -> (f32, f32) {
        let read = charge(Account::Host, || rows.iter().map(|row| &**row).collect::<Vec<_>>());
        let sums = self.sums_of(channel, &read);
        vectorised(ChannelGradient { kernel: self, channel, sums: [sums.0, sums.1], rows });
        sums
    }

    /// Makes the gradient of some `values` of the input from that of the output, by the gradients of weight and shift.
    #[inline(always)]
    fn change(&self, channel: usize, sums: [f32; 2], values: &[f32], gradient: &mut [f32]) {
        match self.rectified {
            true => self.change_masked::<true>(channel, sums, values, gradient),
            false => self.change_masked::<false>(channel, sums, values, gradient),
        }
    }

    /// As [`change`](Self::change); the gradient is 0 where a ReLU gave 0.
    #[inline(always)]
    fn change_masked<const RECTIFIED: bool>(
        &self,
        channel: usize,
        [weight, shift]: [f32; 2],
        values: &[f32],
        gradient: &mut [f32],
    ) {
        let count = self.shape.count() as f32;
        let affine = self.affine.of_channel(channel);
        let (mean, scale) = (self.affine.mean[channel], self.affine.scale[channel]);
        let (slope, constant) = (self.inverse[channel] * weight / count, shift / count);
        for (gradient, value) in gradient.iter_mut().zip(values) {
            let masked = masked::<RECTIFIED>(affine(*value), *gradient);
            *gradient = scale * (masked - constant - (value - mean) * slope);
        }
    }

    /// The sum of the gradients of a block, and that of their products with the distances from the mean. The gradient is 0 where a ReLU
    /// gave 0. Sums are of [`TRACKS`] numbers side by side.
    #[inline(always)]
    fn block_sums<const FUSED: bool, const RECTIFIED: bool>(
        &self,
        channel: usize,
        values: &[f32],
        gradient: &[f32],
    ) -> [f64; 2] {
        let affine = self.affine.of_channel(channel);
        let mean = self.affine.mean[channel];
        let (mut shift, mut weight) = ([0.0; TRACKS], [0.0; TRACKS]);
        let ((values, rest), (gradients, rest_of_gradients)) =
            (values.as_chunks::<TRACKS>(), gradient.as_chunks::<TRACKS>());
        for (values, gradients) in values.iter().zip(gradients) {
            for track in 0..TRACKS {
                let (value, gradient) = (values[track], gradients[track]);
                let masked = masked::<RECTIFIED>(affine(value), gradient);
                shift[track] += masked;
                weight[track] = multiply_add::<FUSED>(masked, value - mean, weight[track]);
            }
        }
        for (track, (value, gradient)) in rest.iter().zip(rest_of_gradients).enumerate() {
            let masked = masked::<RECTIFIED>(affine(*value), *gradient);
            shift[track] += masked;
            weight[track] = multiply_add::<FUSED>(masked, value - mean, weight[track]);
        }
        [total(&shift), total(&weight)]
    }
}

/// The gradient behind a normalisation: 0 where a ReLU, if there is one, gave 0 for the `normed` value.
#[inline(always)]
fn masked<const RECTIFIED: bool>(normed: f32, gradient: f32) -> f32 {
    if !RECTIFIED || normed > 0.0 { gradient } else { 0.0 }
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
    fn change(&self, at: usize, gradient: &mut [f32], beside: &mut Buffer) {
        let Self { kernel, weight, shift } = self;
        let channel = kernel.shape.channel(at);
        let values = kernel.input.read(at..at + gradient.len(), beside);
        kernel.change(channel, [weight[channel], shift[channel]], values, gradient);
    }
}

/// Makes the gradient of a channel of the input from that of the output, in place.
struct ChannelGradient<'a, 'b, E> {
    kernel: &'a NormBackward<'a>,
    channel: usize,
    /// The gradients of weight and shift.
    sums: [f32; 2],
    rows: Vec<&'b mut [E]>,
}

impl<E: StoredFloat> SimdLoops for ChannelGradient<'_, '_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { kernel, channel, sums, mut rows } = self;
        let (mut buffer, mut gradients) = ([0.0; BLOCK], [0.0; BLOCK]);
        for block in kernel.shape.blocks() {
            let ([first, end], [from, to]) = (block.samples, block.part);
            let gradients = &mut gradients[..block.length()];
            widen(&rows, &block, gradients);
            let values = kernel.shape.read(kernel.input, channel, &block, &mut buffer);
            kernel.change(channel, sums, values, gradients);
            for (row, wide) in rows[first..end].iter_mut().zip(gradients.chunks_exact(to - from)) {
                for (gradient, wide) in row[from..to].iter_mut().zip(wide) {
                    *gradient = E::rounded(*wide);
                }
            }
        }
    }
}

/// Makes 32 bits of a block of a channel's rows.
#[inline(always)]
fn widen<E: StoredFloat>(rows: &[impl Deref<Target = [E]>], block: &Block, wide: &mut [f32]) {
    let ([first, end], [from, to]) = (block.samples, block.part);
    for (row, wide) in rows[first..end].iter().zip(wide.chunks_exact_mut(to - from)) {
        for (wide, element) in wide.iter_mut().zip(&row[from..to]) {
            *wide = element.widened();
        }
    }
}

/// Finds the gradients of a channel's weight and shift.
struct ChannelSums<'a, E> {
    kernel: &'a NormBackward<'a>,
    channel: usize,
    /// The channel's rows of the gradient.
    rows: &'a [&'a [E]],
    found: &'a mut (f32, f32),
}

impl<E: StoredFloat> SimdLoops for ChannelSums<'_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { kernel, channel, rows, found } = self;
        let (mut buffer, mut gradient) = ([0.0; BLOCK], [0.0; BLOCK]);
        let (mut weight, mut shift) = (0.0, 0.0);
        let mut next = kernel.shape.blocks().skip(AHEAD);
        for block in kernel.shape.blocks() {
            if let Some(next) = next.next() {
                kernel.shape.prefetch(kernel.input, channel, &next);
                let ([first, end], [from, to]) = (next.samples, next.part);
                rows[first..end].iter().for_each(|row| prefetch::all(&row[from..to]));
            }
            let gradient = &mut gradient[..block.length()];
            widen(rows, &block, gradient);
            let values = kernel.shape.read(kernel.input, channel, &block, &mut buffer);
            let sums = match kernel.rectified {
                true => kernel.block_sums::<FUSED, true>(channel, values, gradient),
                false => kernel.block_sums::<FUSED, false>(channel, values, gradient),
            };
            shift += sums[0];
            weight += sums[1];
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
    fn change(&self, at: usize, gradient: &mut [f32], beside: &mut Buffer) {
        let output = self.output.read(at..at + gradient.len(), beside);
        for (gradient, output) in gradient.iter_mut().zip(output) {
            *gradient = masked::<true>(*output, *gradient);
        }
    }
}
