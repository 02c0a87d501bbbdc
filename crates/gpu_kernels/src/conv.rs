//! Convolutions over images, by CubeCL's implicit matrix product on tensor cores, or directly on a card without them.
//!
//! The algorithm is chosen by rule, never by trial: what a convolution allocates and rounds is the same in every run. With
//! tensor cores, 32-bit factors are rounded to TF32 (10 bits of mantissa) where the card has that format (sm_80 and newer);
//! sums have 32 bits. Images lie channels-last in memory; other layouts are copied.

use burn_backend::{Shape, ops::ConvOptions};
use burn_cubecl::{
    kernel::conv::{ConvStrategy, conv_data_backward, conv_forward, conv_weight_backward},
    ops::permute,
};
use cubecl::{cuda::CudaRuntime, ir::ElemType, prelude::*, std::FastDivmod};

use crate::{
    launch::{addresses, cube, cubes, element, length, vector_width},
    tensor::{GpuTensor, contiguous, empty, sizes},
};

/// The convolution of `input` `[B, C_in, H, W]` by `weight` `[C_out, C_in, k, k]`, both in one format, which the output has
/// too.
///
/// # Panics
/// Panics if the formats differ, or the kernel is larger than the padded image.
pub fn conv2d(input: GpuTensor, weight: GpuTensor, options: ConvOptions<2>) -> GpuTensor {
    let run = |strategy| conv_forward(input.clone(), weight.clone(), None, options.clone(), strategy);
    run(ConvStrategy::ImplicitGemm)
        .or_else(|_| run(ConvStrategy::Direct))
        .expect("the direct convolution takes every shape and format")
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

fn back_to_input(
    gradient: GpuTensor,
    weight: GpuTensor,
    input: [usize; 4],
    options: &ConvOptions<2>,
) -> GpuTensor {
    let run = |strategy| {
        conv_data_backward(gradient.clone(), weight.clone(), Shape::from(input), options.clone(), strategy)
    };
    run(ConvStrategy::ImplicitGemm)
        .or_else(|_| run(ConvStrategy::Direct))
        .expect("the direct convolution takes every shape and format")
}

/// The gradient of the weight, of shape `weight`, in the format of input and gradient.
///
/// # Panics
/// Panics if the formats of input and gradient differ.
pub fn conv2d_weight_backward(
    input: GpuTensor,
    gradient: GpuTensor,
    weight: [usize; 4],
    options: ConvOptions<2>,
) -> GpuTensor {
    let gradient = of_every_place(gradient, sizes(&input), weight[2], &options);
    let options = of_stride_one(&options);
    let run = |strategy| {
        conv_weight_backward(input.clone(), gradient.clone(), Shape::from(weight), options.clone(), strategy)
    };
    run(ConvStrategy::ImplicitGemm)
        .or_else(|_| run(ConvStrategy::Direct))
        .expect("the direct convolution takes every shape and format")
}

fn of_stride_one(options: &ConvOptions<2>) -> ConvOptions<2> {
    ConvOptions { stride: [1; 2], ..options.clone() }
}

/// The gradient of a convolution as that of the same convolution with stride 1, whose other outputs have gradients of zero.
///
/// CubeCL's own gradients of strided convolutions are wrong in 0.11.0-pre.3: those of weights on tensor cores, and those of
/// inputs of 1 × 1 kernels (`tests/conv.rs` finds it).
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

/// An image of `size` whose pixels at multiples of the stride are those of `image`; the others are zero. One launch.
fn spread(image: GpuTensor, stride: [usize; 2], [height, width]: [usize; 2]) -> GpuTensor {
    let image = contiguous(permute(image, &[0, 2, 3, 1]));
    let [batch, rows, columns, channels] = sizes(&image);
    let output = empty(&image, &[batch, height, width, channels], image.dtype);
    let elements = vector_width(channels, &[image.dtype]);
    let (pixel, vectors) = (channels / elements, length(&output) / elements);
    // SAFETY: the output has that many vectors. A vector of the image is read only where its row and column are in the image.
    unsafe {
        spread_pixels::launch_unchecked::<CudaRuntime>(
            &output.client,
            cubes(&output, vectors),
            cube(),
            addresses(&[&image, &output]),
            elements,
            image.clone().into_buffer_arg(),
            output.clone().into_buffer_arg(),
            vectors,
            PlacesLaunch::new(pixel, pixel, width, height, rows, columns, stride[0], stride[1]),
            element(&image),
        );
    }
    permute(output, &[0, 3, 1, 2])
}

/// Where the vectors of an image lie in a larger one.
#[derive(CubeType, CubeLaunch)]
struct Places {
    /// Vectors of a pixel.
    vectors: usize,
    pixel: FastDivmod<usize>,
    /// Sizes of the larger image.
    width: FastDivmod<usize>,
    height: FastDivmod<usize>,
    /// Sizes of the image.
    rows: usize,
    columns: usize,
    /// The strides.
    down: FastDivmod<usize>,
    across: FastDivmod<usize>,
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn spread_pixels<E: Numeric, N: Size>(
    image: &[Vector<E, N>],
    output: &mut [Vector<E, N>],
    vectors: usize,
    places: Places,
    #[define(E)] _format: ElemType,
) {
    let at = ABSOLUTE_POS;
    if at < vectors {
        let (place, channel) = places.pixel.div_mod(at);
        let (line, x) = places.width.div_mod(place);
        let (sample, y) = places.height.div_mod(line);
        let (row, below) = places.down.div_mod(y);
        let (column, beside) = places.across.div_mod(x);
        let mut value = Vector::new(E::from_int(0));
        if below + beside == 0 && row < places.rows && column < places.columns {
            let pixel = (sample * places.rows + row) * places.columns + column;
            value = image[pixel * places.vectors + channel];
        }
        output[at] = value;
    }
}
