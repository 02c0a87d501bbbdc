//! The custom operations around a GPU's normalisation.

use burn::tensor::Tensor;
use burn_backend::DType;
use oomph_gpu_kernels::channel_partial_sums;

use super::{Addend, Norm, NormGradients, Statistics, StatisticsStep};
use crate::{
    any_tensor::ranked,
    custom_op::CustomOp,
    gpu::{self, on_gpu},
};

/// The running statistics after a step, and the inverse deviation of a batch.
#[cfg_attr(not(feature = "gpu"), expect(unused_variables, reason = "only the GPU's kernel reads it"))]
pub(super) fn statistics(
    moments: &[Tensor<1>; 2],
    running: [Tensor<1>; 2],
    step: StatisticsStep,
) -> Statistics {
    let of_channels = (moments[0].dims().to_vec(), DType::F32);
    let inputs = moments.iter().cloned().chain(running).map(Into::into).collect();
    let operation = CustomOp { name: "norm_statistics", inputs, outputs: vec![of_channels; 3], in_place: 0 };
    let [inverse, mean, variance] = gpu::outputs(on_gpu!(operation, [], |inputs| {
        use oomph_gpu_kernels::norm::{Moments, StatisticsStep, statistics};
        let [mean, variance, running_mean, running_variance] = gpu::listed(inputs);
        let step = StatisticsStep {
            kept: step.kept as f32,
            shares: step.shares.map(|share| share as f32),
            epsilon: step.epsilon as f32,
        };
        let running = Moments { mean: running_mean, variance: running_variance };
        let made = statistics(Moments { mean, variance }, running, step);
        vec![made.inverse, made.running.mean, made.running.variance]
    }));
    Statistics { inverse: ranked(inverse), running: [ranked(mean), ranked(variance)] }
}

/// The normalised input plus the addend, in the format `dtype`; rectified if `rectify`.
#[cfg_attr(not(feature = "gpu"), expect(unused_variables, reason = "only the GPU's kernel reads it"))]
pub(super) fn apply(norm: &Norm, input: Tensor<4>, addend: Addend, rectify: bool, dtype: DType) -> Tensor<4> {
    let mut rest = Vec::from(norm.vectors());
    match addend {
        Addend::Nothing => {}
        Addend::Plain(addend) => rest.push((*addend).into()),
        Addend::Normed(normed) => {
            let (norm, addend) = *normed;
            rest.push(addend.into());
            rest.extend(norm.vectors());
        }
    }
    let operation = CustomOp::changing("normalise", input, rest, dtype);
    gpu::one(on_gpu!(operation, [], |inputs| {
        let mut inputs = inputs.into_iter();
        // The input and three vectors, and an addend with maybe three more, as above.
        let mut next = || inputs.next().expect("the operation has the inputs that it declares");
        let (input, affine) = (next(), affine([next(), next(), next()]));
        let addend = inputs.next().map(|values| oomph_gpu_kernels::norm::Addend {
            values,
            affine: <[_; 3]>::try_from(inputs.collect::<Vec<_>>()).ok().map(self::affine),
        });
        vec![oomph_gpu_kernels::norm::normalise(input, affine, addend, rectify, dtype)]
    }))
}

/// The gradients of input, weight and shift.
pub(super) fn backward(norm: &Norm, input: Tensor<4>, gradient: Tensor<4>, rectified: bool) -> NormGradients {
    if norm.shared.is_some() {
        // The sums of all replicas are added on the host, between the two kernels.
        return norm.backward_composed(input, gradient, rectified);
    }
    let (dims, dtype) = (input.dims().to_vec(), input.dtype());
    let of_channels = (vec![dims[1]], DType::F32);
    let [mean, scale, shift] = norm.vectors();
    let partial = channel_partial_sums(input.dims(), dtype.size().max(gradient.dtype().size()));
    let operation = CustomOp {
        name: "normalise_backward",
        outputs: vec![(dims, dtype), of_channels.clone(), of_channels],
        in_place: usize::from(gradient.dtype() == dtype),
        inputs: vec![gradient.into(), input.into(), mean, scale, shift, norm.inverse.clone().into()],
    };
    let [input, weight, shift] = gpu::outputs(on_gpu!(operation, [partial], |inputs| {
        let [gradient, input, mean, scale, shift, inverse] = gpu::listed(inputs);
        let affine = affine([mean, scale, shift]);
        let norm = oomph_gpu_kernels::norm::NormInput { input, affine, inverse, rectified };
        let made = oomph_gpu_kernels::norm::normalise_backward(norm, gradient);
        vec![made.input, made.sums.weight, made.sums.shift]
    }));
    NormGradients { input: ranked(input), weight: ranked(weight), shift: ranked(shift) }
}

/// The gradient before a ReLU whose output is `output`.
pub(super) fn rectified_gradient(gradient: Tensor<4>, output: &Tensor<4>) -> Tensor<4> {
    let dtype = gradient.dtype();
    let operation = CustomOp::changing("rectify_backward", gradient, [output.clone().into()], dtype);
    gpu::one(on_gpu!(operation, [], |inputs| {
        let [gradient, output] = gpu::listed(inputs);
        vec![oomph_gpu_kernels::norm::rectify_backward(gradient, output)]
    }))
}

#[cfg(feature = "gpu")]
fn affine(
    [mean, scale, shift]: [oomph_gpu_kernels::GpuTensor; 3],
) -> oomph_gpu_kernels::norm::Affine<oomph_gpu_kernels::GpuRuntime> {
    oomph_gpu_kernels::norm::Affine { mean, scale, shift }
}
