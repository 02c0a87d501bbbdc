//! Batch normalisation with its neighbours in a residual network: the residual addition and the ReLU.
//!
//! Letters: B batch, C channels, S = H·W positions. A row is one channel of one sample.

mod backward;
mod channel_rows;
mod forward;
mod moments;
mod on_gpu;
mod shared_statistics;
mod statistics;

use burn::tensor::Tensor;
use burn_backend::DType;

use crate::{
    any_tensor::{AnyTensor, ranked},
    blocks::change_rows,
    cast::cast,
    custom_op::CustomOp,
    flex_tensor::vector,
    kernels::Kernels,
    stored_float::StoredFloats,
};

use backward::{Masked, NormBackward};
use channel_rows::{ChannelRows, over_rows, rows_of};
use forward::Normalised;

pub(crate) use channel_rows::Affine;
pub use moments::moments;
pub use shared_statistics::{Peers, SharedStatistics};
pub use statistics::{Statistics, StatisticsStep, running_statistics, statistics};

/// A normalisation with its statistics: y ↦ (y − mean) · scale + shift, with scale = weight · inverse.
#[derive(Clone, Debug)]
pub struct Norm {
    /// The mean of each channel, `[C]`.
    pub mean: Tensor<1>,
    /// 1 / √(variance + ε) of each channel, `[C]`.
    pub inverse: Tensor<1>,
    /// The learned scale of each channel, `[C]`.
    pub weight: Tensor<1>,
    /// The learned shift of each channel, `[C]`.
    pub shift: Tensor<1>,
    /// The replicas whose samples the statistics include; `None` for the input alone.
    pub shared: Option<SharedStatistics>,
}

/// A term added to a normalised activation.
#[derive(Debug)]
pub enum Addend {
    /// No term.
    Nothing,
    /// A tensor.
    Plain(Box<Tensor<4>>),
    /// A tensor that is normalised too.
    Normed(Box<(Norm, Tensor<4>)>),
}

/// The gradients of a normalisation.
#[derive(Debug)]
pub struct NormGradients {
    /// The gradient of the input, `[B, C, H, W]`.
    pub input: Tensor<4>,
    /// The gradient of the weight, `[C]`.
    pub weight: Tensor<1>,
    /// The gradient of the shift, `[C]`.
    pub shift: Tensor<1>,
}

impl Norm {
    fn scale(&self) -> Tensor<1> {
        self.weight.clone() * self.inverse.clone()
    }

    /// The vectors of an [`Affine`].
    pub(crate) fn vectors(&self) -> [AnyTensor; 3] {
        [self.mean.clone().into(), self.scale().into(), self.shift.clone().into()]
    }

    /// The normalised input plus the addend, in the format `dtype`; rectified if `rectify`.
    pub fn apply(
        &self,
        input: Tensor<4>,
        addend: Addend,
        rectify: bool,
        dtype: DType,
        kernels: Kernels,
    ) -> Tensor<4> {
        match kernels {
            Kernels::Cpu => return self.apply_own(input, addend, rectify, dtype),
            Kernels::Gpu => return on_gpu::apply(self, input, addend, rectify, dtype),
            Kernels::Composed => {}
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

    /// The normalised input, `[B, C, S]` in 32 bits.
    fn normalised(&self, input: Tensor<4>) -> Tensor<3> {
        (rows_of(input) - over_rows(self.mean.clone())) * over_rows(self.scale())
            + over_rows(self.shift.clone())
    }

    fn apply_own(&self, input: Tensor<4>, addend: Addend, rectify: bool, dtype: DType) -> Tensor<4> {
        let shape = ChannelRows::of(&input);
        let mut rest = Vec::from(self.vectors());
        match addend {
            Addend::Nothing => {}
            Addend::Plain(addend) => rest.push((*addend).into()),
            Addend::Normed(normed_addend) => {
                let (norm, addend) = *normed_addend;
                rest.push(addend.into());
                rest.extend(norm.vectors());
            }
        }
        CustomOp::change("normalise", input, rest, dtype, |input, rest| {
            let addend_norm = rest.get(4..).filter(|vectors| !vectors.is_empty()).map(Affine::of);
            let normalised = Normalised {
                shape,
                norm: Affine::of(&rest[..3]),
                addend: rest.get(3).map(StoredFloats::of),
                addend_norm,
                rectify,
            };
            change_rows(input, dtype, shape.row, normalised)
        })
    }

    /// The gradients of input, weight and shift. `gradient` is that of the output of the normalised `input`, which was
    /// rectified if `rectified`. The input's gradient has the format of `input`.
    pub fn backward(
        &self,
        input: Tensor<4>,
        gradient: Tensor<4>,
        rectified: bool,
        kernels: Kernels,
    ) -> NormGradients {
        match kernels {
            Kernels::Cpu => self.backward_own(input, gradient, rectified),
            Kernels::Gpu => on_gpu::backward(self, input, gradient, rectified),
            Kernels::Composed => self.backward_composed(input, gradient, rectified),
        }
    }

    /// With n = B·S values of a channel, over all replicas if the statistics are, and x̂ the normalised input: shift′ = Σg,
    /// weight′ = Σg·x̂, input′ = scale · (g − shift′/n − x̂ · weight′/n).
    fn backward_composed(&self, input: Tensor<4>, gradient: Tensor<4>, rectified: bool) -> NormGradients {
        let (dims, dtype) = (input.dims(), input.dtype());
        let count = ChannelRows::of(&input).count();
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
        let shape = ChannelRows::of(&input);
        let (dims, dtype) = (input.dims().to_vec(), input.dtype());
        let of_channels = (vec![shape.channels], DType::F32);
        let [mean, scale, shift] = self.vectors();
        let shared = self.shared.clone();
        let operation = CustomOp {
            name: "normalise_backward",
            outputs: vec![(dims, dtype), of_channels.clone(), of_channels],
            in_place: usize::from(gradient.dtype() == dtype),
            inputs: vec![gradient.into(), input.into(), mean, scale, shift, self.inverse.clone().into()],
        };
        let [input, weight, shift] = operation.run(|mut inputs| {
            let rest = inputs.split_off(1);
            let kernel = NormBackward {
                shape,
                input: StoredFloats::of(&rest[0]),
                affine: Affine::of(&rest[1..4]),
                inverse: rest[4].storage(),
                rectified,
            };
            // The gradient is the only input left.
            let gradient = inputs.swap_remove(0);
            if shared.is_none() && gradient.dtype() == dtype && gradient.is_unique() {
                let (input, weight, shift) = kernel.in_place(gradient);
                return vec![input, vector(weight), vector(shift)];
            }
            let (weight, shift) = kernel.sums(StoredFloats::of(&gradient));
            let spread = shared.map(|shared| shared.spread(&weight, &shift, shape.count()));
            let [of_weight, of_shift] =
                spread.as_ref().map_or([&weight, &shift], |[weight, shift]| [weight, shift]);
            let input = kernel.input_gradient(gradient, dtype, of_weight, of_shift);
            vec![input, vector(weight), vector(shift)]
        });
        NormGradients { input: ranked(input), weight: ranked(weight), shift: ranked(shift) }
    }
}

/// The gradient before a ReLU: `gradient` where the ReLU's `output` is above 0, and else 0.
pub fn rectified_gradient(gradient: Tensor<4>, output: &Tensor<4>, kernels: Kernels) -> Tensor<4> {
    match kernels {
        Kernels::Cpu => {}
        Kernels::Gpu => return on_gpu::rectified_gradient(gradient, output),
        Kernels::Composed => return gradient * output.clone().sign(),
    }
    let row = ChannelRows::of(output).row;
    let dtype = gradient.dtype();
    CustomOp::change("rectify_backward", gradient, [output.clone().into()], dtype, |gradient, rest| {
        change_rows(gradient, dtype, row, Masked { output: StoredFloats::of(&rest[0]) })
    })
}
