//! The operations that are recorded and run, around the kernels.

use std::mem::MaybeUninit;

use burn::tensor::{Tensor, bf16, f16};
use burn_backend::{DType, Shape};
use burn_flex::FlexTensor;

use super::{
    Slide,
    correlate::Correlate,
    gather::{Gather, Sizes},
    window::Axis,
};
use crate::{
    AnyTensor,
    kernel::{
        Own, room,
        rows::{Value, Values, tensor, zeros},
    },
};

/// The sizes of a convolution, and its height and width.
fn shapes(input: [usize; 4], weight: [usize; 4], slide: Slide) -> (Sizes, [Axis; 2]) {
    let [batch, channels, height, width] = input;
    let [outputs, _, kernel_height, kernel_width] = weight;
    let axis = |source, kernel| Axis::forward(source, kernel, slide.stride, slide.padding);
    let axes = [axis(height, kernel_height), axis(width, kernel_width)];
    let sizes = Sizes {
        batch,
        channels: [channels, outputs],
        input: [height, width],
        output: [axes[0].grid, axes[1].grid],
        kernel: [kernel_height, kernel_width],
    };
    (sizes, axes)
}

/// The output, in the format of input and weight.
pub(super) fn forward(input: Tensor<4>, weight: Tensor<4>, slide: Slide) -> Tensor<4> {
    let (sizes, axes) = shapes(input.dims(), weight.dims(), slide);
    let [height, width] = sizes.output;
    let output = [sizes.batch, sizes.channels[1], height, width];
    gather("conv2d", [input, weight], output, Gather::forward(sizes, &axes))
}

/// The input's gradient, in the format of weight and gradient.
pub(super) fn input_backward(
    input: [usize; 4],
    weight: Tensor<4>,
    gradient: Tensor<4>,
    slide: Slide,
) -> Tensor<4> {
    let (sizes, axes) = shapes(input, weight.dims(), slide);
    gather("conv2d_input_backward", [gradient, weight], input, Gather::backward(sizes, &axes))
}

fn gather(
    name: &'static str,
    [read, weight]: [Tensor<4>; 2],
    target: [usize; 4],
    gather: Gather,
) -> Tensor<4> {
    let dtype = read.dtype();
    let operation = Own {
        name,
        inputs: vec![read.into(), weight.into()],
        outputs: vec![(target.to_vec(), dtype)],
        in_place: 0,
    };
    let made = operation.run_within(gather.workspace(), |inputs| {
        vec![match dtype {
            DType::BF16 => gathered::<bf16>(&gather, &inputs, target),
            DType::F16 => gathered::<f16>(&gather, &inputs, target),
            _ => gathered::<f32>(&gather, &inputs, target),
        }]
    });
    image(made)
}

fn gathered<E: Value>(gather: &Gather, inputs: &[FlexTensor], target: [usize; 4]) -> FlexTensor {
    let write = |target: &mut [MaybeUninit<E>]| {
        gather.run(E::values(&inputs[1]), E::values(&inputs[0]), target);
    };
    // SAFETY: every pixel of the target is of one grid, and those that none reads are written before.
    let elements = unsafe { room::written(target.iter().product(), write) };
    E::tensor(elements, Shape::from(target))
}

/// The gradient of the weight, in 32 bits.
pub(super) fn weight_backward(
    input: Tensor<4>,
    weight: [usize; 4],
    gradient: Tensor<4>,
    slide: Slide,
) -> Tensor<4> {
    let (sizes, axes) = shapes(input.dims(), weight, slide);
    let correlate = Correlate::new(sizes, &axes);
    let operation = Own {
        name: "conv2d_weight_backward",
        inputs: vec![input.into(), gradient.into()],
        outputs: vec![(weight.to_vec(), DType::F32)],
        in_place: 0,
    };
    let made = operation.run_within(correlate.workspace(), |inputs| {
        let mut elements = zeros(weight.iter().product());
        correlate.run(Values::of(&inputs[0]), Values::of(&inputs[1]), &mut elements);
        vec![tensor(elements, &weight)]
    });
    image(made)
}

fn image(mut made: Vec<AnyTensor>) -> Tensor<4> {
    // The operations above have one output each, of this rank.
    made.pop().and_then(AnyTensor::float).expect("an image or a kernel has rank 4")
}
