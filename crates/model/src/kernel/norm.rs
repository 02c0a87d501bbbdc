//! Batch normalisation with what surrounds it in a residual network: the sum with a shortcut, and the rectifier.
//!
//! Letters: B batch, C channels, S = H·W positions. A row is one channel of one sample.

use std::{ops::Range, sync::Arc};

use burn::tensor::{Tensor, TensorData};
use burn_backend::DType;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::{
    Kernels, Own, cast,
    rows::{BLOCK, Values, change_rows, sum, vector},
    vector::by_vectors,
};
use crate::{AnyTensor, ModelError, Peers};

/// Mean and biased variance of each channel of `[B, C, H, W]`, as `[C]` of 32 bits.
pub(crate) fn moments(input: &Tensor<4>, kernels: Kernels) -> [Tensor<1>; 2] {
    let shape @ Rows { channels, .. } = Rows::of(input);
    if kernels == Kernels::Composed {
        // Over space and then over the batch: the sums keep one order, whatever the number of threads.
        let flat = rows_of(input.clone());
        let mean = flat.clone().mean_dim(2).mean_dim(0);
        let variance = (flat - mean.clone()).square().mean_dim(2).mean_dim(0);
        return [mean.reshape([channels]), variance.reshape([channels])];
    }
    let operation = Own {
        name: "channel_moments",
        inputs: vec![input.clone().into()],
        outputs: vec![(vec![channels], DType::F32); 2],
        in_place: 0,
    };
    vectors(operation.run(|inputs| {
        let of = |channel| by_vectors(|| own_moments(Values::of(&inputs[0]), shape, channel));
        let moments = (0..channels).into_par_iter().map(of);
        let (mean, variance) = moments.unzip();
        vec![vector(mean), vector(variance)]
    }))
}

fn vectors<const N: usize>(outputs: Vec<AnyTensor>) -> [Tensor<1>; N] {
    let vectors: Vec<Tensor<1>> = outputs.into_iter().filter_map(AnyTensor::float).collect();
    // Operations declare as many vectors as are asked for.
    vectors.try_into().expect("the operation gives vectors")
}

/// `[B, C, S]` of 32 bits.
fn rows_of(tensor: Tensor<4>) -> Tensor<3> {
    let [batch, channels, height, width] = tensor.dims();
    cast(tensor, DType::F32, Kernels::Composed).reshape([batch, channels, height * width])
}

/// A vector over channels, to go with `[B, C, S]`.
fn over_rows(vector: Tensor<1>) -> Tensor<3> {
    let [channels] = vector.dims();
    vector.reshape([1, channels, 1])
}

#[derive(Clone, Copy)]
struct Rows {
    batch: usize,
    channels: usize,
    /// Elements of a row.
    row: usize,
}

impl Rows {
    fn of(tensor: &Tensor<4>) -> Self {
        let [batch, channels, height, width] = tensor.dims();
        Self { batch, channels, row: height * width }
    }

    /// Values of each channel.
    fn count(self) -> f64 {
        (self.batch * self.row) as f64
    }

    fn channel(self, element: usize) -> usize {
        element / self.row.max(1) % self.channels
    }

    /// Calls `visit` with all blocks of a channel.
    #[inline]
    fn blocks(self, channel: usize, mut visit: impl FnMut(Range<usize>)) {
        for sample in 0..self.batch {
            let start = (sample * self.channels + channel) * self.row;
            for at in (start..start + self.row).step_by(BLOCK) {
                visit(at..(at + BLOCK).min(start + self.row));
            }
        }
    }
}

#[inline]
fn own_moments(values: Values<'_>, shape: Rows, channel: usize) -> (f32, f32) {
    let mut buffer = [0.0; BLOCK];
    let mut total = 0.0;
    shape.blocks(channel, |block| total += sum(values.read(block, &mut buffer)));
    let mean = (total / shape.count()) as f32;
    let (mut squares, mut squared) = (0.0, [0.0; BLOCK]);
    shape.blocks(channel, |block| {
        let values = values.read(block, &mut buffer);
        for (square, value) in squared.iter_mut().zip(values) {
            *square = (value - mean) * (value - mean);
        }
        squares += sum(&squared[..values.len()]);
    });
    (mean, (squares / shape.count()) as f32)
}

/// A normalisation with its statistics: y ↦ (y − mean) · scale + shift, with scale = weight · inverse. All are `[C]`.
#[derive(Clone, Debug)]
pub(crate) struct Norm {
    pub(crate) mean: Tensor<1>,
    /// 1 / √(variance + ε).
    pub(crate) inverse: Tensor<1>,
    pub(crate) weight: Tensor<1>,
    pub(crate) shift: Tensor<1>,
    /// Over whose samples the statistics are, where not over those of the input alone.
    pub(crate) shared: Option<Shared>,
}

/// Statistics over the samples of several replicas.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) peers: Arc<dyn Peers>,
    /// Values of each channel, of all replicas.
    pub(crate) count: f64,
}

impl Shared {
    /// The moments over all replicas, of those over `count` values of this one. The sums of squares are of 64 bits, in
    /// which those of 32 bits lose nothing that counts.
    pub(crate) fn moments(
        peers: &Arc<dyn Peers>,
        [mean, variance]: [Tensor<1>; 2],
        count: usize,
    ) -> Result<(Self, [Tensor<1>; 2]), ModelError> {
        let device = mean.device();
        let [means, variances] = [AnyTensor::from(mean).to_host()?, AnyTensor::from(variance).to_host()?];
        let channels = means.len();
        let weigh = |value: f64| value * count as f64;
        let mut sums = vec![count as f64];
        sums.extend(means.iter().map(|mean| weigh(f64::from(*mean))));
        let squares = means.iter().zip(&variances);
        sums.extend(squares.map(|(mean, variance)| weigh(f64::from(*variance) + f64::from(*mean).powi(2))));
        peers.sum(&mut sums);
        let count = sums[0];
        let (means, squares) = sums[1..].split_at(channels);
        let mean = |channel: usize| means[channel] / count;
        let variance = |channel: usize| (squares[channel] / count - mean(channel).powi(2)).max(0.0);
        let vector = |of: &dyn Fn(usize) -> f64| {
            let values: Vec<f32> = (0..channels).map(|channel| of(channel) as f32).collect();
            Tensor::from_data(TensorData::new(values, [channels]), &device)
        };
        Ok((Self { peers: peers.clone(), count }, [vector(&mean), vector(&variance)]))
    }

    /// The sums over all replicas, as if they were over the `count` values of this one.
    fn spread(&self, weight: &[f32], shift: &[f32], count: f64) -> [Vec<f32>; 2] {
        let mut sums: Vec<f64> = weight.iter().chain(shift).map(|sum| f64::from(*sum)).collect();
        self.peers.sum(&mut sums);
        let share = count / self.count;
        let (weight, shift) = sums.split_at(weight.len());
        [weight, shift].map(|sums| sums.iter().map(|sum| (sum * share) as f32).collect())
    }

    fn spread_vectors(&self, weight: Tensor<3>, shift: Tensor<3>, count: f64) -> [Tensor<3>; 2] {
        let (dims, device) = (weight.dims(), weight.device());
        let host = |tensor: &Tensor<3>| AnyTensor::from(tensor.clone()).to_host();
        // A device that failed says so again where the step is looked at.
        let (Ok(weights), Ok(shifts)) = (host(&weight), host(&shift)) else { return [weight, shift] };
        self.spread(&weights, &shifts, count)
            .map(|sums| Tensor::from_data(TensorData::new(sums, dims), &device))
    }
}

/// What is added to a normalised activation.
pub(crate) enum Addend {
    Nothing,
    Plain(Box<Tensor<4>>),
    Normed(Box<(Norm, Tensor<4>)>),
}

/// What goes back through a normalisation.
pub(crate) struct NormGradients {
    pub(crate) input: Tensor<4>,
    pub(crate) weight: Tensor<1>,
    pub(crate) shift: Tensor<1>,
}

impl Norm {
    fn scale(&self) -> Tensor<1> {
        self.weight.clone() * self.inverse.clone()
    }

    /// The vectors that kernels read as [`Affine`].
    fn vectors(&self) -> [AnyTensor; 3] {
        [self.mean.clone().into(), self.scale().into(), self.shift.clone().into()]
    }

    /// The normalised input plus the addend, rectified or not, as `dtype`.
    pub(crate) fn apply(
        &self,
        input: Tensor<4>,
        addend: Addend,
        rectify: bool,
        dtype: DType,
        kernels: Kernels,
    ) -> Tensor<4> {
        if kernels == Kernels::Own {
            return self.apply_own(input, addend, rectify, dtype);
        }
        let dims = input.dims();
        let normed = self.normalised(input);
        let output = match addend {
            Addend::Nothing => normed,
            Addend::Plain(addend) => normed + rows_of(*addend),
            Addend::Normed(normed_addend) => {
                let (norm, addend) = *normed_addend;
                normed + norm.normalised(addend)
            }
        };
        let output = if rectify { output.clamp_min(0.0) } else { output };
        cast(output.reshape(dims), dtype, kernels)
    }

    /// `[B, C, S]` of 32 bits.
    fn normalised(&self, input: Tensor<4>) -> Tensor<3> {
        (rows_of(input) - over_rows(self.mean.clone())) * over_rows(self.scale())
            + over_rows(self.shift.clone())
    }

    fn apply_own(&self, input: Tensor<4>, addend: Addend, rectify: bool, dtype: DType) -> Tensor<4> {
        let shape = Rows::of(&input);
        let outputs = vec![(input.dims().to_vec(), dtype)];
        let in_place = usize::from(input.dtype() == dtype);
        let [mean, scale, shift] = self.vectors();
        let mut inputs = vec![input.into(), mean, scale, shift];
        match addend {
            Addend::Nothing => {}
            Addend::Plain(addend) => inputs.push((*addend).into()),
            Addend::Normed(normed_addend) => {
                let (norm, addend) = *normed_addend;
                inputs.push(addend.into());
                inputs.extend(norm.vectors());
            }
        }
        let operation = Own { name: "normalise", inputs, outputs, in_place };
        operation.run_one(|mut inputs| {
            let rest = inputs.split_off(1);
            let affine = Affine::of(&rest[..3]);
            let addend = rest.get(3).map(Values::of);
            let addend_affine = rest.get(4..).filter(|vectors| !vectors.is_empty()).map(Affine::of);
            // The only one that is left.
            let input = inputs.swap_remove(0);
            change_rows(input, dtype, shape.row, |at, block| {
                let channel = shape.channel(at);
                affine.apply(channel, block);
                if let Some(addend) = addend {
                    let mut buffer = [0.0; BLOCK];
                    let addend = addend.read(at..at + block.len(), &mut buffer);
                    match &addend_affine {
                        Some(affine) => affine.add(channel, addend, block),
                        None => block.iter_mut().zip(addend).for_each(|(value, addend)| *value += addend),
                    }
                }
                if rectify {
                    block.iter_mut().for_each(|value| *value = value.max(0.0));
                }
            })
        })
    }

    /// The gradients where `input` was normalised and the result, rectified or not, got `gradient`. The input's has its
    /// format.
    pub(crate) fn backward(
        &self,
        input: Tensor<4>,
        gradient: Tensor<4>,
        rectified: bool,
        kernels: Kernels,
    ) -> NormGradients {
        match kernels {
            Kernels::Own => self.backward_own(input, gradient, rectified),
            Kernels::Composed => self.backward_composed(input, gradient, rectified),
        }
    }

    /// With n = B·S values a channel, of all replicas where statistics are over those, and x̂ the input normalised: shift′ = Σg, weight′ = Σg·x̂,
    /// input′ = scale · (g − shift′/n − x̂ · weight′/n).
    fn backward_composed(&self, input: Tensor<4>, gradient: Tensor<4>, rectified: bool) -> NormGradients {
        let (dims, dtype) = (input.dims(), input.dtype());
        let count = Rows::of(&input).count();
        let vector = |sums: Tensor<3>| sums.reshape([dims[1]]);
        let mut gradient = rows_of(gradient);
        if rectified {
            gradient = gradient * self.normalised(input.clone()).clamp_min(0.0).sign();
        }
        let normed = (rows_of(input) - over_rows(self.mean.clone())) * over_rows(self.inverse.clone());
        let shift = gradient.clone().sum_dim(2).sum_dim(0);
        let weight = (gradient.clone() * normed.clone()).sum_dim(2).sum_dim(0);
        let [spread_weight, spread_shift] = match &self.shared {
            Some(shared) => shared.spread_vectors(weight.clone(), shift.clone(), count),
            None => [weight.clone(), shift.clone()],
        };
        let from_weight = normed * spread_weight.div_scalar(count);
        let input = (gradient - from_weight - spread_shift.div_scalar(count)) * over_rows(self.scale());
        let input = cast(input.reshape(dims), dtype, Kernels::Composed);
        NormGradients { input, weight: vector(weight), shift: vector(shift) }
    }

    fn backward_own(&self, input: Tensor<4>, gradient: Tensor<4>, rectified: bool) -> NormGradients {
        let shape = Rows::of(&input);
        let (dims, dtype) = (input.dims().to_vec(), input.dtype());
        let of_channels = (vec![shape.channels], DType::F32);
        let [mean, scale, shift] = self.vectors();
        let shared = self.shared.clone();
        let operation = Own {
            name: "normalise_backward",
            outputs: vec![(dims, dtype), of_channels.clone(), of_channels],
            in_place: usize::from(gradient.dtype() == dtype),
            inputs: vec![gradient.into(), input.into(), mean, scale, shift, self.inverse.clone().into()],
        };
        let mut outputs = operation.run(|mut inputs| {
            let rest = inputs.split_off(1);
            let kernel = BackwardKernel {
                shape,
                input: Values::of(&rest[0]),
                affine: Affine::of(&rest[1..4]),
                inverse: rest[4].storage(),
                rectified,
            };
            let (weight, shift) = kernel.sums(Values::of(&inputs[0]));
            // The only one that is left.
            let gradient = inputs.swap_remove(0);
            let spread = shared.map(|shared| shared.spread(&weight, &shift, shape.count()));
            let [of_weight, of_shift] =
                spread.as_ref().map_or([&weight, &shift], |[weight, shift]| [weight, shift]);
            let input = kernel.input_gradient(gradient, dtype, of_weight, of_shift);
            vec![input, vector(weight), vector(shift)]
        });
        let [weight, shift] = vectors(outputs.split_off(1));
        // What is left is the first output, which has the input's shape.
        let input =
            outputs.pop().and_then(AnyTensor::float).expect("the operation gives the input's gradient");
        NormGradients { input, weight, shift }
    }
}

/// y ↦ (y − mean) · scale + shift, channel by channel.
struct Affine<'a> {
    mean: &'a [f32],
    scale: &'a [f32],
    shift: &'a [f32],
}

impl<'a> Affine<'a> {
    fn of(vectors: &'a [FlexTensor]) -> Self {
        let [mean, scale, shift] = [0, 1, 2].map(|index: usize| vectors[index].storage());
        Self { mean, scale, shift }
    }

    #[inline]
    fn of_channel(&self, channel: usize) -> impl Fn(f32) -> f32 + use<> {
        let (mean, scale, shift) = (self.mean[channel], self.scale[channel], self.shift[channel]);
        move |value| (value - mean) * scale + shift
    }

    #[inline]
    fn apply(&self, channel: usize, block: &mut [f32]) {
        let affine = self.of_channel(channel);
        block.iter_mut().for_each(|value| *value = affine(*value));
    }

    #[inline]
    fn add(&self, channel: usize, values: &[f32], block: &mut [f32]) {
        let affine = self.of_channel(channel);
        block.iter_mut().zip(values).for_each(|(sum, value)| *sum += affine(*value));
    }
}

struct BackwardKernel<'a> {
    shape: Rows,
    input: Values<'a>,
    affine: Affine<'a>,
    inverse: &'a [f32],
    rectified: bool,
}

impl BackwardKernel<'_> {
    /// The gradient that came through the rectifier: `gradient` where the normalised value is above 0.
    #[inline]
    fn masked(&self, channel: usize, values: &[f32], gradient: &mut [f32]) {
        if self.rectified {
            let affine = self.affine.of_channel(channel);
            for (gradient, value) in gradient.iter_mut().zip(values) {
                *gradient = if affine(*value) > 0.0 { *gradient } else { 0.0 };
            }
        }
    }

    /// The gradients of weight and shift.
    fn sums(&self, gradient: Values<'_>) -> (Vec<f32>, Vec<f32>) {
        let of = |channel: usize| {
            let (mut buffer, mut read) = ([0.0; BLOCK], [0.0; BLOCK]);
            let mut masked = [0.0; BLOCK];
            let (mut weight, mut shift) = (0.0, 0.0);
            let mean = self.affine.mean[channel];
            self.shape.blocks(channel, |block| {
                let masked = &mut masked[..block.len()];
                masked.copy_from_slice(gradient.read(block.clone(), &mut read));
                let values = self.input.read(block, &mut buffer);
                self.masked(channel, values, masked);
                shift += sum(masked);
                masked.iter_mut().zip(values).for_each(|(product, value)| *product *= value - mean);
                weight += sum(masked);
            });
            ((weight * f64::from(self.inverse[channel])) as f32, shift as f32)
        };
        (0..self.shape.channels).into_par_iter().map(|channel| by_vectors(|| of(channel))).unzip()
    }

    fn input_gradient(
        &self,
        gradient: FlexTensor,
        dtype: DType,
        weight: &[f32],
        shift: &[f32],
    ) -> FlexTensor {
        let count = self.shape.count() as f32;
        change_rows(gradient, dtype, self.shape.row, |at, gradient| {
            let channel = self.shape.channel(at);
            let mut buffer = [0.0; BLOCK];
            let values = self.input.read(at..at + gradient.len(), &mut buffer);
            self.masked(channel, values, gradient);
            let (mean, scale) = (self.affine.mean[channel], self.affine.scale[channel]);
            let slope = self.inverse[channel] * weight[channel] / count;
            let constant = shift[channel] / count;
            for (gradient, value) in gradient.iter_mut().zip(values) {
                *gradient = scale * (*gradient - constant - (value - mean) * slope);
            }
        })
    }
}

/// The gradient that came through a rectifier: `gradient` where its `output` is above 0.
pub(crate) fn rectified_gradient(gradient: Tensor<4>, output: &Tensor<4>, kernels: Kernels) -> Tensor<4> {
    if kernels == Kernels::Composed {
        return gradient * output.clone().sign();
    }
    let row = Rows::of(output).row;
    let dtype = gradient.dtype();
    let operation = Own {
        name: "rectify_backward",
        outputs: vec![(gradient.dims().to_vec(), dtype)],
        inputs: vec![gradient.into(), output.clone().into()],
        in_place: 1,
    };
    operation.run_one(|mut inputs| {
        let rest = inputs.split_off(1);
        let output = Values::of(&rest[0]);
        // The only one that is left.
        let gradient = inputs.swap_remove(0);
        change_rows(gradient, dtype, row, |at, gradient| {
            let mut buffer = [0.0; BLOCK];
            let output = output.read(at..at + gradient.len(), &mut buffer);
            for (gradient, output) in gradient.iter_mut().zip(output) {
                *gradient = if *output > 0.0 { *gradient } else { 0.0 };
            }
        })
    })
}
