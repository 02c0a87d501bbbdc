use burn_backend::DType;
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{ir::ElemType, prelude::*};

use super::{
    channel_parts::{ChannelPart, Parts},
    channels_last,
    values::Moments,
};
use crate::{
    image::ImageOrder,
    launch::{addresses, cube, element, vector_width},
    reduce::cube_sum,
    tensor::{empty, sizes},
};

/// Mean and biased variance of each channel of `[B, C, H, W]`.
///
/// One launch, or two where a channel has P > 1 parts. The workspace then has 8·C·P bytes
/// ([`channel_partial_sums`](crate::channel_partial_sums) channels-last).
pub fn moments<R: CubeRuntime>(input: CubeTensor<R>) -> Moments<R> {
    let order = ImageOrder::of(&input);
    let input = order.memory(input);
    if order == ImageOrder::ChannelsLast {
        return channels_last::moments(input);
    }
    let [_, channels, height, columns] = sizes(&input);
    let width = vector_width(height * columns, &[input.dtype]);
    let parts = Parts::new(&input, width);
    let vector = |elements| empty(&input, &[elements], DType::F32);
    let [mean, squares] = [(); 2].map(|()| vector(channels * parts.parts));
    let addresses = addresses(&[&input]);
    // SAFETY: the parts cover the input, and each writes its own element of both outputs.
    unsafe {
        part_moments::launch_unchecked::<R>(
            &input.client,
            parts.cubes(),
            cube(),
            addresses,
            width,
            input.clone().into_buffer_arg(),
            mean.clone().into_buffer_arg(),
            squares.clone().into_buffer_arg(),
            parts.argument(),
            parts.parts == 1,
            element(&input),
        );
    }
    if parts.parts == 1 {
        return Moments { mean, variance: squares };
    }
    let [whole_mean, variance] = [(); 2].map(|()| vector(channels));
    // SAFETY: there are `parts` elements for each cube in the first two buffers, and one in the others.
    unsafe {
        joined_moments::launch_unchecked::<R>(
            &input.client,
            CubeCount::new_1d(channels as u32),
            // One plane.
            CubeDim::new_1d(input.client.properties().hardware.plane_size_max),
            addresses,
            mean.into_buffer_arg(),
            squares.into_buffer_arg(),
            whole_mean.clone().into_buffer_arg(),
            variance.clone().into_buffer_arg(),
            parts.argument(),
            parts.parts,
            width as f32,
        );
    }
    Moments { mean: whole_mean, variance }
}

/// Mean and sum of squared deviations of each part, `[C, P]`; the variance instead of the sum where a part is `whole`.
///
/// Each thread joins the moments of one vector after the other to its own (Chan, Golub and LeVeque 1983, eq. 2.1):
/// deviations are always those from a mean near by, so that no digits cancel.
#[cube(launch_unchecked, address_type = "dynamic")]
fn part_moments<E: Float, N: Size>(
    input: &[Vector<E, N>],
    means: &mut [f32],
    squares: &mut [f32],
    part: ChannelPart,
    #[comptime] whole: bool,
    #[define(E)] _format: ElemType,
) {
    let size = N::value();
    let width = f32::cast_from(size as u32);
    let (begin, end) = (part.begin(), part.end());
    let mut count = 0.0f32;
    let mut mean = 0.0f32;
    let mut spread = 0.0f32;
    let mut vector = begin + UNIT_POS as usize;
    while vector < end {
        let values = Vector::<f32, N>::cast_from(input[part.place(vector)]);
        let mut sum = 0.0f32;
        #[unroll]
        for i in 0..size {
            sum += values.extract(i);
        }
        let near = sum / width;
        let deviations = values - Vector::new(near);
        let before = count;
        count += width;
        let step = near - mean;
        mean += step * (width / count);
        spread += step * step * before * (width / count);
        #[unroll]
        for i in 0..size {
            spread += deviations.extract(i) * deviations.extract(i);
        }
        vector += CUBE_DIM as usize;
    }
    let all = f32::cast_from((end - begin) as u32) * width;
    let of_part = cube_sum(mean * count) / all;
    let step = mean - of_part;
    let squared = cube_sum(spread + step * step * count);
    if UNIT_POS == 0 {
        let at = (CUBE_POS_X * CUBE_COUNT_Y + CUBE_POS_Y) as usize;
        means[at] = of_part;
        squares[at] = if comptime!(whole) { squared / all } else { squared };
    }
}

/// Mean and variance of each channel from those of its parts.
#[cube(launch_unchecked, address_type = "dynamic")]
fn joined_moments(
    means: &[f32],
    squares: &[f32],
    mean: &mut [f32],
    variance: &mut [f32],
    part: ChannelPart,
    parts: usize,
    width: f32,
) {
    let channel = CUBE_POS_X as usize;
    let all = f32::cast_from(part.vectors as u32) * width;
    let mut sum = 0.0f32;
    let mut at = UNIT_POS as usize;
    while at < parts {
        let count = f32::cast_from(min(part.of_each, part.vectors - at * part.of_each) as u32) * width;
        sum += means[channel * parts + at] * count;
        at += CUBE_DIM as usize;
    }
    let whole = cube_sum(sum) / all;
    let mut spread = 0.0f32;
    let mut at = UNIT_POS as usize;
    while at < parts {
        let count = f32::cast_from(min(part.of_each, part.vectors - at * part.of_each) as u32) * width;
        let step = means[channel * parts + at] - whole;
        spread += squares[channel * parts + at] + step * step * count;
        at += CUBE_DIM as usize;
    }
    let spread = cube_sum(spread);
    if UNIT_POS == 0 {
        mean[channel] = whole;
        variance[channel] = spread / all;
    }
}
