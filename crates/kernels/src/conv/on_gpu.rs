//! The custom operations around a GPU's convolutions.

use burn::tensor::Tensor;
use burn_backend::DType;
use oomph_gpu_kernels::partial_sums;

use super::Slide;
use crate::{any_tensor::ranked, custom_op::CustomOp, gpu::on_gpu};

/// The output of a convolution, in the format of input and weight.
pub(super) fn forward(input: Tensor<4>, weight: Tensor<4>, slide: Slide) -> Tensor<4> {
    let ([batch, ..], [channels, _, kernel, _]) = (input.dims(), weight.dims());
    let size = |size: usize| (size + 2 * slide.padding - kernel) / slide.stride + 1;
    let shape = [batch, channels, size(input.dims()[2]), size(input.dims()[3])];
    let dtype = input.dtype();
    let operation = operation("conv2d", [input, weight], shape, dtype);
    one(on_gpu!(operation, 0, |inputs| {
        let [input, weight] = two(inputs);
        vec![oomph_gpu_kernels::conv2d(input, weight, slide.options())]
    }))
}

/// The input's gradient, in the format of weight and gradient.
pub(super) fn input_backward(
    input: [usize; 4],
    weight: Tensor<4>,
    gradient: Tensor<4>,
    slide: Slide,
) -> Tensor<4> {
    let dtype = gradient.dtype();
    let operation = operation("conv2d_input_backward", [gradient, weight], input, dtype);
    one(on_gpu!(operation, 0, |inputs| {
        let [gradient, weight] = two(inputs);
        vec![oomph_gpu_kernels::conv2d_input_backward(gradient, weight, input, slide.options())]
    }))
}

/// The gradient of the weight, in 32 bits.
pub(super) fn weight_backward(
    input: Tensor<4>,
    weight: [usize; 4],
    gradient: Tensor<4>,
    slide: Slide,
) -> Tensor<4> {
    let [batch, _, rows, columns] = gradient.dims();
    let partial = partial_sums(weight, batch * rows * columns) * weight.iter().product::<usize>();
    let operation = operation("conv2d_weight_backward", [input, gradient], weight, DType::F32);
    one(on_gpu!(operation, partial, |inputs| {
        let [input, gradient] = two(inputs);
        vec![oomph_gpu_kernels::conv2d_weight_backward(input, gradient, weight, slide.options())]
    }))
}

fn operation(name: &'static str, inputs: [Tensor<4>; 2], output: [usize; 4], dtype: DType) -> CustomOp {
    let outputs = vec![(output.to_vec(), dtype)];
    CustomOp { name, inputs: inputs.map(Into::into).into(), outputs, in_place: 0 }
}

/// The one output of an operation.
fn one(outputs: Vec<crate::any_tensor::AnyTensor>) -> Tensor<4> {
    let [output] = <[_; 1]>::try_from(outputs).expect("a convolution has one output");
    ranked(output)
}

#[cfg(feature = "cuda")]
fn two(inputs: Vec<oomph_gpu_kernels::GpuTensor>) -> [oomph_gpu_kernels::GpuTensor; 2] {
    inputs.try_into().unwrap_or_else(|_| unreachable!("a convolution has two inputs"))
}
