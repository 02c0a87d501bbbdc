use burn_backend::DType;
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{ir::ElemType, prelude::*};

use super::{
    super::values::Moments,
    tiles::{Tile, Tiles, over_rows},
};
use crate::{
    channel_sums::SUMMING,
    launch::{addresses, element, vector_width},
    tensor::{empty, sizes},
};

/// Mean and biased variance of each channel of `[B, H, W, C]`.
pub(in super::super) fn moments<R: CubeRuntime>(input: CubeTensor<R>) -> Moments<R> {
    let [_, _, _, channels] = sizes(&input);
    let width = vector_width(channels, &[input.dtype]);
    let tiles = Tiles::new(&input, width, SUMMING);
    let vectors = |count| [(); 2].map(|()| empty(&input, &[count], DType::F32));
    let [mean, squares] = vectors(channels * tiles.parts);
    let addresses = addresses(&[&input]);
    // SAFETY: the tiles cover the input, and each part has its own elements of both outputs.
    unsafe {
        tile_moments::launch_unchecked::<R>(
            &input.client,
            tiles.cubes(),
            tiles.cube(),
            addresses,
            width,
            input.clone().into_buffer_arg(),
            mean.clone().into_buffer_arg(),
            squares.clone().into_buffer_arg(),
            tiles.argument(),
            tiles.parts == 1,
            element(&input),
        );
    }
    if tiles.parts == 1 {
        return Moments { mean, variance: squares };
    }
    let [whole_mean, variance] = vectors(channels);
    // SAFETY: there are `parts` rows of all channels in the first two buffers, and one in the others.
    unsafe {
        joined_tile_moments::launch_unchecked::<R>(
            &input.client,
            tiles.cubes_of_channels(),
            tiles.cube(),
            addresses,
            width,
            mean.into_buffer_arg(),
            squares.into_buffer_arg(),
            whole_mean.clone().into_buffer_arg(),
            variance.clone().into_buffer_arg(),
            tiles.argument(),
            tiles.parts,
        );
    }
    Moments { mean: whole_mean, variance }
}

/// Mean and sum of squared deviations of each part, `[P, C]`; the variance instead of the sum where a part is `whole`.
///
/// Each thread adds one pixel after the other (Welford 1962).
#[cube(launch_unchecked, address_type = "dynamic")]
fn tile_moments<E: Float, N: Size>(
    input: &[Vector<E, N>],
    means: &mut [Vector<f32, N>],
    squares: &mut [Vector<f32, N>],
    tile: Tile,
    #[comptime] whole: bool,
    #[define(E)] _format: ElemType,
) {
    let mut count = 0.0f32;
    let mut mean = Vector::<f32, N>::new(0.0f32);
    let mut spread = Vector::<f32, N>::new(0.0f32);
    let end = tile.end();
    let mut pixel = tile.begin();
    while pixel < end {
        let values = Vector::<f32, N>::cast_from(input[tile.place(pixel)]);
        count += 1.0f32;
        let step = values - mean;
        mean += step * Vector::new(1.0f32 / count);
        spread += step * (values - mean);
        pixel += CUBE_DIM_Y as usize;
    }
    let all = Vector::new(tile.pixels_of(CUBE_POS_Y as usize));
    let of_part = over_rows::<N>(mean * Vector::new(count)) / all;
    let step = mean - of_part;
    let squared = over_rows::<N>(spread + step * step * Vector::new(count));
    if UNIT_POS_Y == 0 && tile.is_inside() {
        let at = tile.place(CUBE_POS_Y as usize);
        means[at] = of_part;
        squares[at] = if comptime!(whole) { squared / all } else { squared };
    }
}

/// Mean and variance of each channel from those of its parts.
#[cube(launch_unchecked, address_type = "dynamic")]
fn joined_tile_moments<N: Size>(
    means: &[Vector<f32, N>],
    squares: &[Vector<f32, N>],
    mean: &mut [Vector<f32, N>],
    variance: &mut [Vector<f32, N>],
    tile: Tile,
    parts: usize,
) {
    let all = Vector::new(tile.all_pixels());
    let mut sum = Vector::<f32, N>::new(0.0f32);
    let mut part = UNIT_POS_Y as usize;
    while part < parts {
        sum += means[tile.place(part)] * Vector::new(tile.pixels_of(part));
        part += CUBE_DIM_Y as usize;
    }
    let whole = over_rows::<N>(sum) / all;
    let mut spread = Vector::<f32, N>::new(0.0f32);
    let mut part = UNIT_POS_Y as usize;
    while part < parts {
        let step = means[tile.place(part)] - whole;
        spread += squares[tile.place(part)] + step * step * Vector::new(tile.pixels_of(part));
        part += CUBE_DIM_Y as usize;
    }
    let spread = over_rows::<N>(spread);
    if UNIT_POS_Y == 0 && tile.is_inside() {
        mean[tile.column()] = whole;
        variance[tile.column()] = spread / all;
    }
}
