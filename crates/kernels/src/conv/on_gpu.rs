//! The custom operations around a GPU's convolutions.

use burn::tensor::Tensor;
use burn_backend::DType;
use oomph_gpu_kernels::partial_sums;

use super::Slide;
use crate::{
    custom_op::CustomOp,
    gpu::{self, on_gpu},
};

/// The output of a convolution, in the format of input and weight.
pub(super) fn forward(input: Tensor<4>, weight: Tensor<4>, slide: Slide) -> Tensor<4> {
    let ([batch, ..], [channels, _, kernel, _]) = (input.dims(), weight.dims());
    let size = |size: usize| (size + 2 * slide.padding - kernel) / slide.stride + 1;
    let shape = [batch, channels, size(input.dims()[2]), size(input.dims()[3])];
    let dtype = input.dtype();
    let operation = operation("conv2d", [input, weight], shape, dtype);
    gpu::one(on_gpu!(operation, [], |inputs| {
        let [input, weight] = gpu::listed(inputs);
        vec![oomph_gpu_kernels::conv2d(input, weight, slide.options())]
    }))
}

/// The input's gradient, in the format of weight and gradient.
#[cfg_attr(not(feature = "gpu"), expect(unused_variables, reason = "only the GPU's kernel reads it"))]
pub(super) fn input_backward(
    input: [usize; 4],
    weight: Tensor<4>,
    gradient: Tensor<4>,
    slide: Slide,
) -> Tensor<4> {
    let dtype = gradient.dtype();
    let operation = operation("conv2d_input_backward", [gradient, weight], input, dtype);
    gpu::one(on_gpu!(operation, [], |inputs| {
        let [gradient, weight] = gpu::listed(inputs);
        vec![oomph_gpu_kernels::conv2d_input_backward(gradient, weight, input, slide.options())]
    }))
}

/// The gradient of the weight, in 32 bits.
#[cfg_attr(not(feature = "gpu"), expect(unused_variables, reason = "only the GPU's kernel reads it"))]
pub(super) fn weight_backward(
    input: Tensor<4>,
    weight: [usize; 4],
    gradient: Tensor<4>,
    slide: Slide,
) -> Tensor<4> {
    let [batch, _, rows, columns] = gradient.dims();
    let partial = partial_sums(weight, batch * rows * columns) * weight.iter().product::<usize>();
    let operation = operation("conv2d_weight_backward", [input, gradient], weight, DType::F32);
    gpu::one(on_gpu!(operation, [partial], |inputs| {
        let [input, gradient] = gpu::listed(inputs);
        vec![oomph_gpu_kernels::conv2d_weight_backward(input, gradient, weight, slide.options())]
    }))
}

fn operation(name: &'static str, inputs: [Tensor<4>; 2], output: [usize; 4], dtype: DType) -> CustomOp {
    let outputs = vec![(output.to_vec(), dtype)];
    CustomOp { name, inputs: inputs.map(Into::into).into(), outputs, in_place: 0 }
}
