//! Convolutions over images, and what goes back through them.
//!
//! On the CPU they are products of matrices of our own: [`gather`] forward and back to the input, [`correlate`] back to
//! the kernels. 16 bits are a format of storage there: they become 32 where they are put together in a cache, and no
//! tensor of 32 is made.

mod correlate;
mod gather;
mod interleave;
mod own;
mod tile;
mod window;
mod workers;

use burn::tensor::{Tensor, module, ops::ConvOptions};
use burn_backend::DType;

use super::{Kernels, cast};
use crate::{
    AnyTensor,
    backends::{Plain, first_backend},
};

/// How kernels go over an image: from one place to the next, from so far outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slide {
    pub(crate) stride: usize,
    pub(crate) padding: usize,
}

impl Slide {
    /// As Burn's operations want it.
    pub(crate) fn options(self) -> ConvOptions<2> {
        ConvOptions::new([self.stride; 2], [self.padding; 2], [1, 1], 1)
    }
}

/// A convolution of plain tensors, `[B, C_in, H, W]` with `[C_out, C_in, k, k]`; the result has the input's format.
pub(crate) fn conv2d(input: Tensor<4>, weight: Tensor<4>, slide: Slide, kernels: Kernels) -> Tensor<4> {
    let dtype = input.dtype();
    let weight = cast(weight, dtype, kernels);
    match kernels {
        Kernels::Own => own::forward(input, weight, slide),
        Kernels::Composed => module::conv2d(input, weight, None, slide.options()),
    }
}

/// What goes back through a convolution.
pub(crate) struct ConvGradients {
    /// Where the input wants it, in the format of the output's gradient.
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
    slide: Slide,
    wanted: [bool; 2],
    kernels: Kernels,
) -> ConvGradients {
    let weight_gradient = wanted[1].then(|| match kernels {
        Kernels::Own => own::weight_backward(input(), weight.dims(), gradient.clone(), slide),
        Kernels::Composed => weight_backward_composed(input(), weight.clone(), gradient.clone(), slide),
    });
    let input_gradient = wanted[0].then(|| {
        let weight = cast(weight, gradient.dtype(), kernels);
        match kernels {
            Kernels::Own => own::input_backward(input_shape, weight, gradient, slide),
            Kernels::Composed => input_backward_composed(input_shape, weight, gradient, slide),
        }
    });
    ConvGradients { input: input_gradient, weight: weight_gradient }
}

fn weight_backward_composed(
    input: Tensor<4>,
    weight: Tensor<4>,
    gradient: Tensor<4>,
    slide: Slide,
) -> Tensor<4> {
    let weight = cast(weight, gradient.dtype(), Kernels::Composed);
    let operands = [input, weight, gradient].map(AnyTensor::from);
    cast(of_backend(first_backend!(weight_backward(&operands, slide))), DType::F32, Kernels::Composed)
}

fn input_backward_composed(
    input_shape: [usize; 4],
    weight: Tensor<4>,
    gradient: Tensor<4>,
    slide: Slide,
) -> Tensor<4> {
    // Of the input its shape is read alone: a view of one element has it.
    let one = Tensor::<4>::zeros([1; 4], (&gradient.device(), gradient.dtype())).expand(input_shape);
    let operands = [one, weight, gradient].map(AnyTensor::from);
    of_backend(first_backend!(input_backward(&operands, slide)))
}

fn weight_backward<B: Plain>(operands: &[AnyTensor; 3], slide: Slide) -> Option<AnyTensor> {
    let [input, weight, gradient] = operands.each_ref().map(B::primitive);
    Some(B::tensor(B::conv2d_weight_backward(input?, weight?, gradient?, slide.options())))
}

fn input_backward<B: Plain>(operands: &[AnyTensor; 3], slide: Slide) -> Option<AnyTensor> {
    let [input, weight, gradient] = operands.each_ref().map(B::primitive);
    Some(B::tensor(B::conv2d_x_backward(input?, weight?, gradient?, slide.options())))
}

fn of_backend(gradient: Option<AnyTensor>) -> Tensor<4> {
    // Whatever backend computed forward computes backward, and a convolution over images has rank 4.
    gradient.and_then(AnyTensor::float).expect("a convolution's gradient is an image or a kernel")
}
