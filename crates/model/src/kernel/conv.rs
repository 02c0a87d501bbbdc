use burn::tensor::{Tensor, module, ops::ConvOptions};
use burn_backend::DType;

use super::{Kernels, cast};
use crate::{
    AnyTensor,
    backends::{Plain, first_backend},
};

/// A convolution of plain tensors, `[B, C_in, H, W]` with `[C_out, C_in, k, k]`; the result has the input's format.
///
/// On the CPU 16 bits are a format of storage: products are computed in 32.
pub(crate) fn conv2d(
    input: Tensor<4>,
    weight: Tensor<4>,
    options: ConvOptions<2>,
    kernels: Kernels,
) -> Tensor<4> {
    let dtype = input.dtype();
    let weight = cast(weight, dtype, kernels);
    let [input, weight] = [input, weight].map(|tensor| computed(tensor, kernels));
    cast(module::conv2d(input, weight, None, options), dtype, kernels)
}

/// What goes back through a convolution, in the format that it is computed in.
pub(crate) struct ConvGradients {
    /// Where the input wants it.
    pub(crate) input: Option<Tensor<4>>,
    /// In 32 bits, where the weight wants it.
    pub(crate) weight: Option<Tensor<4>>,
}

/// The gradients of [`conv2d`] for what of input and weight wants one. `input` is made where the weight wants one, and
/// is gone before the input's gradient is there.
pub(crate) fn conv2d_backward(
    input: impl FnOnce() -> Tensor<4>,
    input_shape: [usize; 4],
    weight: Tensor<4>,
    gradient: Tensor<4>,
    options: &ConvOptions<2>,
    wanted: [bool; 2],
    kernels: Kernels,
) -> ConvGradients {
    let weight = computed(cast(weight, gradient.dtype(), kernels), kernels);
    let weight_gradient = wanted[1].then(|| weight_gradient(&input(), &weight, &gradient, options, kernels));
    let input_gradient = wanted[0].then(|| {
        let gradient = computed(gradient, kernels);
        // Of the input its shape is read alone: a view of one element has it.
        let one = Tensor::<4>::zeros([1; 4], (&gradient.device(), gradient.dtype())).expand(input_shape);
        let operands = [one, weight, gradient].map(AnyTensor::from);
        of_backend(first_backend!(input_backward(&operands, options)))
    });
    ConvGradients { input: input_gradient, weight: weight_gradient }
}

/// On the CPU it is summed over parts of the batch: Burn's kernel reorders copies of both operands.
fn weight_gradient(
    input: &Tensor<4>,
    weight: &Tensor<4>,
    gradient: &Tensor<4>,
    options: &ConvOptions<2>,
    kernels: Kernels,
) -> Tensor<4> {
    let of = |input: Tensor<4>, gradient: Tensor<4>| {
        let [input, gradient] = [input, gradient].map(|tensor| computed(tensor, kernels));
        let operands = [input, weight.clone(), gradient].map(AnyTensor::from);
        cast(of_backend(first_backend!(weight_backward(&operands, options))), DType::F32, kernels)
    };
    let [batch, ..] = input.dims();
    let samples = match kernels {
        Kernels::Own => part_of_batch(input, gradient),
        Kernels::Composed => batch,
    };
    if samples >= batch {
        return of(input.clone(), gradient.clone());
    }
    let parts = (0..batch).step_by(samples).map(|from| {
        let part = |tensor: &Tensor<4>| tensor.clone().narrow(0, from, samples.min(batch - from));
        of(part(input), part(gradient))
    });
    // There is a sample, as a convolution of none is not differentiated.
    parts.reduce(|sum, part| sum + part).unwrap_or_else(|| weight.clone().zeros_like())
}

/// Samples of which input and gradient have a few megabytes, so that copies of them do not count beside what is kept;
/// as even parts as can be.
fn part_of_batch(input: &Tensor<4>, gradient: &Tensor<4>) -> usize {
    const BYTES: usize = 4 << 20;
    /// So that a plan of millions of samples does not have as many operations.
    const MOST: usize = 64;
    let elements = input.shape().num_elements() + gradient.shape().num_elements();
    let [batch, ..] = input.dims();
    let parts = (elements * size_of::<f32>()).div_ceil(BYTES).clamp(1, batch.clamp(1, MOST));
    batch.div_ceil(parts)
}

fn weight_backward<B: Plain>(operands: &[AnyTensor; 3], options: &ConvOptions<2>) -> Option<AnyTensor> {
    let [input, weight, gradient] = operands.each_ref().map(B::primitive);
    Some(B::tensor(B::conv2d_weight_backward(input?, weight?, gradient?, options.clone())))
}

fn input_backward<B: Plain>(operands: &[AnyTensor; 3], options: &ConvOptions<2>) -> Option<AnyTensor> {
    let [input, weight, gradient] = operands.each_ref().map(B::primitive);
    Some(B::tensor(B::conv2d_x_backward(input?, weight?, gradient?, options.clone())))
}

fn of_backend(gradient: Option<AnyTensor>) -> Tensor<4> {
    // Whatever backend computed forward computes backward, and a convolution over images has rank 4.
    gradient.and_then(AnyTensor::float).expect("a convolution's gradient is an image or a kernel")
}

/// In the format that products are computed in.
fn computed(tensor: Tensor<4>, kernels: Kernels) -> Tensor<4> {
    match kernels {
        Kernels::Own => cast(tensor, DType::F32, kernels),
        Kernels::Composed => tensor,
    }
}
