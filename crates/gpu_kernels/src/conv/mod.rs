//! Convolutions over images, by CubeCL's implicit matrix product on tensor cores, or directly on a card without them.
//!
//! The algorithm is chosen by rule, never by trial: what a convolution allocates and rounds is the same in every run. With
//! tensor cores, 32-bit factors are rounded to TF32 (10 bits of mantissa) where the card has that format (sm_80 and newer);
//! sums have 32 bits. Images lie channels-last in memory; other layouts are copied. The gradient of the weight is a kernel of
//! our own: see [`correlate`].

mod correlate;
mod spread;
mod tensor_cores;
mod turn;
mod weight_product;

use burn_backend::{Shape, ops::ConvOptions};
use burn_cubecl::kernel::conv::{ConvStrategy, conv_data_backward, conv_forward};

use crate::{
    image::ImageOrder,
    tensor::{GpuTensor, sizes},
};
use spread::spread;
use tensor_cores::Factors;
use turn::turned;

pub use correlate::conv2d_weight_backward;

/// An image as rows of channels: `[B, H, W, C]`, contiguous.
fn channels_last(image: GpuTensor) -> GpuTensor {
    ImageOrder::ChannelsLast.memory(image)
}

/// The convolution of `input` `[B, C_in, H, W]` by `weight` `[C_out, C_in, k, k]`, both in one format, which the output has
/// too.
///
/// # Panics
/// Panics if the formats differ, or the kernel is larger than the padded image.
pub fn conv2d(input: GpuTensor, weight: GpuTensor, options: ConvOptions<2>) -> GpuTensor {
    if Factors::of(&input).is_none() {
        return directly(input, weight, options);
    }
    // Shapes that the implicit product refuses.
    conv_forward(input.clone(), weight.clone(), None, options.clone(), ConvStrategy::ImplicitGemm)
        .unwrap_or_else(|_| directly(input, weight, options))
}

fn directly(input: GpuTensor, weight: GpuTensor, options: ConvOptions<2>) -> GpuTensor {
    // It has no conditions: CubeCL's function returns no error.
    conv_forward(without_padding(input), weight, None, options, ConvStrategy::Direct)
        .expect("the direct convolution takes every shape and format")
}

/// The image without room behind its pixels, as CubeCL's direct convolution needs it (`tests/conv.rs` finds it).
fn without_padding(image: GpuTensor) -> GpuTensor {
    match ImageOrder::of(&image) {
        ImageOrder::ChannelsFirst => image,
        last @ ImageOrder::ChannelsLast => last.image(last.memory(image)),
    }
}

/// The gradient of the input, of shape `input`, from the output's gradient.
///
/// # Panics
/// Panics if the formats of weight and gradient differ.
pub fn conv2d_input_backward(
    gradient: GpuTensor,
    weight: GpuTensor,
    input: [usize; 4],
    options: ConvOptions<2>,
) -> GpuTensor {
    let [_, _, kernel, _] = sizes(&weight);
    let [batch, channels, height, width] = input;
    if kernel == 1 && options.padding == [0; 2] && options.stride != [1; 2] {
        // Pixels between the strides have no gradient.
        let [_, _, rows, columns] = sizes(&gradient);
        let reached = [batch, channels, rows, columns];
        let gradient = back_to_input(gradient, weight, reached, &of_stride_one(&options));
        return spread(gradient, options.stride, [height, width]);
    }
    let gradient = of_every_place(gradient, input, kernel, &options);
    back_to_input(gradient, weight, input, &of_stride_one(&options))
}

/// The gradient of the input of a convolution with stride 1.
fn back_to_input(
    gradient: GpuTensor,
    weight: GpuTensor,
    input: [usize; 4],
    options: &ConvOptions<2>,
) -> GpuTensor {
    if Factors::of(&gradient).is_some() {
        let input = Shape::from(input);
        let implicit = ConvStrategy::ImplicitGemm;
        if let Ok(made) =
            conv_data_backward(gradient.clone(), weight.clone(), input, options.clone(), implicit)
        {
            return made;
        }
    }
    directly_to_input(gradient, weight, input, options)
}

/// The same as a direct convolution of the gradient by the turned weight. CubeCL's own writes channels-first.
fn directly_to_input(
    gradient: GpuTensor,
    weight: GpuTensor,
    input: [usize; 4],
    options: &ConvOptions<2>,
) -> GpuTensor {
    let [_, _, kernel, _] = sizes(&weight);
    match options.padding.map(|padding| (kernel - 1).checked_sub(padding)) {
        [Some(above), Some(left)] => {
            let options = ConvOptions { padding: [above, left], ..options.clone() };
            directly(gradient, turned(weight), options)
        }
        // The input is padded by more than the kernel reaches.
        _ => conv_data_backward(gradient, weight, Shape::from(input), options.clone(), ConvStrategy::Direct)
            .expect("the direct convolution takes every shape and format"),
    }
}

fn of_stride_one(options: &ConvOptions<2>) -> ConvOptions<2> {
    ConvOptions { stride: [1; 2], ..options.clone() }
}

/// The gradient of a convolution as that of the same convolution with stride 1, whose other outputs have gradients of zero.
///
/// CubeCL's own gradients of strided 1 × 1 convolutions are wrong (`tests/conv.rs` finds it).
fn of_every_place(
    gradient: GpuTensor,
    [_, _, height, width]: [usize; 4],
    kernel: usize,
    options: &ConvOptions<2>,
) -> GpuTensor {
    if options.stride == [1; 2] {
        return gradient;
    }
    let size = [0, 1].map(|axis| [height, width][axis] + 2 * options.padding[axis] + 1 - kernel);
    spread(gradient, options.stride, size)
}
