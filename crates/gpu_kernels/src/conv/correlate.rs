//! The gradient of a convolution's weight: products of the input and the output's gradient, summed over all positions.
//!
//! CubeCL's implicit matrix product is wrong for many shapes, with both kinds of tensor-core
//! instructions, and those of the stem among them. So this is a product by tiles of our own: on tensor cores where the card
//! has them for the format ([`weight_product`]), else by 32-bit products. A few weights are sums over very many positions:
//! cubes share the positions too, and a second launch adds their partial sums in a fixed order.

use burn_backend::{DType, ops::ConvOptions};
use cubecl::{ir::ElemType, prelude::*, std::FastDivmod};

use super::{channels_last, tensor_cores::Factors, weight_product};
use crate::{
    launch::{addresses, cube, cubes, element, length},
    partial_sums::{TILE, partial_sums},
    tensor::{GpuRuntime, GpuTensor, empty, sizes},
};

/// Positions whose values are in shared memory at once.
const DEPTH: usize = 16;

/// The gradient of the weight, of shape `weight`, `[C_out, C_in, k, k]`, in 32 bits. `input` is `[B, C_in, H, W]` and
/// `gradient` `[B, C_out, h, w]`, both in one format.
///
/// It makes two launches, and one more for each image that does not lie channels-last. Beside its output it allocates
/// [`partial_sums`] of every element.
pub fn conv2d_weight_backward(
    input: GpuTensor,
    gradient: GpuTensor,
    weight: [usize; 4],
    options: ConvOptions<2>,
) -> GpuTensor {
    let (input, gradient) = (channels_last(input), channels_last(gradient));
    let [_, height, width, channels] = sizes(&input);
    let [batch, rows, columns, outputs] = sizes(&gradient);
    let [_, _, down, across] = weight;
    let (inner, positions) = (down * across * channels, batch * rows * columns);
    let splits = partial_sums(weight, positions);
    let of_split = positions.div_ceil(splits).next_multiple_of(weight_product::DEPTH);
    let partial = empty(&input, &[splits, outputs, inner], DType::F32);
    let [stride_down, stride_across] = options.stride;
    let [padding_down, padding_across] = options.padding;
    let sums = SumsLaunch::new(outputs, inner, positions, of_split);
    let window = WindowLaunch::new(
        channels,
        channels,
        across,
        rows,
        columns,
        height,
        width,
        stride_down,
        stride_across,
        padding_down,
        padding_across,
    );
    if let Some(factors) = Factors::of(&input) {
        weight_product::write_partial_sums(&input, &gradient, &partial, sums, window, factors);
        return add_partial_sums(&partial, weight);
    }
    let tiles = [inner, outputs].map(|size| size.div_ceil(TILE) as u32);
    // SAFETY: every index into input, gradient and partial sums is compared with their sizes, which are passed.
    unsafe {
        sum_products::launch_unchecked::<GpuRuntime>(
            &partial.client,
            CubeCount::Static(tiles[0], tiles[1], splits as u32),
            cube(),
            addresses(&[&input, &gradient, &partial]),
            input.clone().into_buffer_arg(),
            gradient.clone().into_buffer_arg(),
            partial.clone().into_buffer_arg(),
            sums,
            window,
            element(&input),
        );
    }
    add_partial_sums(&partial, weight)
}

fn add_partial_sums(partial: &GpuTensor, weight: [usize; 4]) -> GpuTensor {
    let [splits, _, inner] = sizes(partial);
    let output = empty(partial, &weight, DType::F32);
    let [_, channels, down, across] = weight;
    // SAFETY: the output has as many elements as each of the partial sums.
    unsafe {
        add::launch_unchecked::<GpuRuntime>(
            &partial.client,
            cubes(partial, length(&output)),
            cube(),
            addresses(&[partial]),
            partial.clone().into_buffer_arg(),
            output.clone().into_buffer_arg(),
            length(&output),
            splits,
            inner,
            down * across,
            channels,
            channels,
        );
    }
    output
}

/// The sizes of the sums.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Sums {
    pub(super) outputs: usize,
    /// Weights of an output.
    pub(super) inner: usize,
    pub(super) positions: usize,
    /// Positions of a cube.
    pub(super) of_split: usize,
}

/// The convolution.
#[derive(CubeType, CubeLaunch)]
pub(super) struct Window {
    pub(super) channels: usize,
    pub(super) of_channels: FastDivmod<usize>,
    /// Columns of the kernel.
    pub(super) across: FastDivmod<usize>,
    /// Sizes of the gradient's image.
    pub(super) rows: FastDivmod<usize>,
    pub(super) columns: FastDivmod<usize>,
    /// Sizes of the input's image.
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) stride_down: usize,
    pub(super) stride_across: usize,
    pub(super) padding_down: usize,
    pub(super) padding_across: usize,
}

/// A cube sums the products of [`TILE`] outputs and [`TILE`] weights over its positions. Each thread loads one column of both
/// factors, so that it finds its place in the kernel once, and sums 4 × 4 products.
#[cube(launch_unchecked, address_type = "dynamic")]
fn sum_products<E: Float>(
    input: &[E],
    gradient: &[E],
    partial: &mut [f32],
    sums: Sums,
    window: Window,
    #[define(E)] _format: ElemType,
) {
    let thread = UNIT_POS as usize;
    let column = thread % TILE;
    let first_output = CUBE_POS_Y as usize * TILE;
    let first_weight = CUBE_POS_X as usize * TILE;
    let output = first_output + column;
    let weight = first_weight + column;
    let (tap, channel) = window.of_channels.div_mod(weight);
    let (down, across) = window.across.div_mod(tap);
    let start = CUBE_POS_Z as usize * sums.of_split;
    let end = min(start + sums.of_split, sums.positions);

    let mut lefts = Shared::<[f32]>::new_slice(DEPTH * TILE);
    let mut rights = Shared::<[f32]>::new_slice(DEPTH * TILE);
    let mut products = Array::<f32>::new(16usize);
    #[unroll]
    for index in 0..16usize {
        products[index] = 0.0;
    }
    let (left, right) = (thread / 16 * 4, thread % 16 * 4);

    let mut chunk = start;
    while chunk < end {
        #[unroll]
        for index in 0..4usize {
            let depth = thread / TILE + index * 4;
            let position = chunk + depth;
            let mut of_gradient = 0.0f32;
            let mut of_input = 0.0f32;
            if position < end {
                if output < sums.outputs {
                    of_gradient = f32::cast_from(gradient[position * sums.outputs + output]);
                }
                let (line, x) = window.columns.div_mod(position);
                let (sample, y) = window.rows.div_mod(line);
                let row = y * window.stride_down + down;
                let place = x * window.stride_across + across;
                let is_inside = row >= window.padding_down
                    && row < window.padding_down + window.height
                    && place >= window.padding_across
                    && place < window.padding_across + window.width;
                if weight < sums.inner && is_inside {
                    let line = sample * window.height + row - window.padding_down;
                    let pixel = line * window.width + place - window.padding_across;
                    of_input = f32::cast_from(input[pixel * window.channels + channel]);
                }
            }
            lefts[depth * TILE + column] = of_gradient;
            rights[depth * TILE + column] = of_input;
        }
        sync_cube();
        for depth in 0..DEPTH {
            #[unroll]
            for row in 0..4usize {
                let factor = lefts[depth * TILE + left + row];
                #[unroll]
                for place in 0..4usize {
                    products[comptime!(row * 4 + place)] += factor * rights[depth * TILE + right + place];
                }
            }
        }
        sync_cube();
        chunk += DEPTH;
    }

    #[unroll]
    for row in 0..4usize {
        #[unroll]
        for place in 0..4usize {
            let (output, weight) = (first_output + left + row, first_weight + right + place);
            if output < sums.outputs && weight < sums.inner {
                let at = (CUBE_POS_Z as usize * sums.outputs + output) * sums.inner + weight;
                partial[at] = products[comptime!(row * 4 + place)];
            }
        }
    }
}

/// Adds the partial sums, whose weights are `[k, k, C_in]`, into weights `[C_in, k, k]`. `inner`: weights of an output; `taps`:
/// k · k.
#[cube(launch_unchecked, address_type = "dynamic")]
fn add(
    partial: &[f32],
    output: &mut [f32],
    length: usize,
    splits: usize,
    inner: usize,
    taps: FastDivmod<usize>,
    of_channels: FastDivmod<usize>,
    channels: usize,
) {
    let at = ABSOLUTE_POS;
    if at < length {
        let (line, tap) = taps.div_mod(at);
        let (of_output, channel) = of_channels.div_mod(line);
        let weight = of_output * inner + tap * channels + channel;
        let mut sum = 0.0f32;
        for split in 0..splits {
            sum += partial[split * length + weight];
        }
        output[at] = sum;
    }
}
