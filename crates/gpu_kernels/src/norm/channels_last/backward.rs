use burn_backend::DType;
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{ir::ElemType, prelude::*};

use super::{
    super::values::{NormGradients, NormInput, NormSums},
    tiles::{AffineColumns, ColumnAffine, Tile, Tiles, over_parts, over_rows},
};
use crate::{
    channel_sums::SUMMING,
    launch::{Output, addresses, element, vector_width},
    tensor::{empty, sizes},
};

/// The gradients of input, weight and shift.
pub(in super::super) fn backward<R: CubeRuntime>(
    norm: NormInput<R>,
    gradient: CubeTensor<R>,
) -> NormGradients<R> {
    let backward = Backward::new(norm, gradient);
    let parts = backward.sum_parts();
    if backward.tiles.parts == 1 {
        return NormGradients { sums: parts.clone(), input: backward.input_gradient(parts, None, 1) };
    }
    let sums = backward.vectors(1);
    let count = backward.tiles.parts;
    NormGradients { input: backward.input_gradient(parts, Some(sums.clone()), count), sums }
}

/// The gradients of weight and shift.
pub(in super::super) fn sums<R: CubeRuntime>(norm: NormInput<R>, gradient: CubeTensor<R>) -> NormSums<R> {
    let backward = Backward::new(norm, gradient);
    let parts = backward.sum_parts();
    if backward.tiles.parts == 1 { parts } else { backward.joined(parts) }
}

/// The gradient of the input from given `sums`.
pub(in super::super) fn input_gradient<R: CubeRuntime>(
    norm: NormInput<R>,
    gradient: CubeTensor<R>,
    sums: NormSums<R>,
) -> CubeTensor<R> {
    Backward::new(norm, gradient).input_gradient(sums, None, 1)
}

/// A backward pass over images `[B, H, W, C]`.
struct Backward<R: CubeRuntime> {
    norm: NormInput<R>,
    gradient: CubeTensor<R>,
    width: usize,
    tiles: Tiles,
}

impl<R: CubeRuntime> Backward<R> {
    fn new(norm: NormInput<R>, gradient: CubeTensor<R>) -> Self {
        let [_, _, _, channels] = sizes(&norm.input);
        let width = vector_width(channels, &[norm.input.dtype, gradient.dtype]);
        let tiles = Tiles::new(&norm.input, width, SUMMING);
        Self { norm, gradient, width, tiles }
    }

    fn vectors(&self, parts: usize) -> NormSums<R> {
        let [weight, shift] =
            [(); 2].map(|()| empty(&self.norm.input, &[self.tiles.channels * parts], DType::F32));
        NormSums { weight, shift }
    }

    fn formats(&self) -> [ElemType; 2] {
        [element(&self.norm.input), element(&self.gradient)]
    }

    /// The sums of each part, `[P, C]`.
    fn sum_parts(&self) -> NormSums<R> {
        let NormInput { input, affine, inverse, rectified } = self.norm.clone();
        let sums = self.vectors(self.tiles.parts);
        // SAFETY: the tiles cover the images, and each part has its own elements of both outputs.
        unsafe {
            tile_sums::launch_unchecked::<R>(
                &self.gradient.client,
                self.tiles.cubes(),
                self.tiles.cube(),
                addresses(&[&self.gradient, &input]),
                self.width,
                self.gradient.clone().into_buffer_arg(),
                input.into_buffer_arg(),
                affine.columns(),
                inverse.into_buffer_arg(),
                sums.columns(),
                self.tiles.argument(),
                rectified,
                self.formats(),
            );
        }
        sums
    }

    /// The sums of the channels from those of their parts.
    fn joined(&self, parts: NormSums<R>) -> NormSums<R> {
        let sums = self.vectors(1);
        // SAFETY: there are `parts` rows of all channels in the first buffers, and one in the others.
        unsafe {
            joined_tile_sums::launch_unchecked::<R>(
                &self.gradient.client,
                self.tiles.cubes_of_channels(),
                self.tiles.cube(),
                self.width,
                parts.columns(),
                sums.columns(),
                self.tiles.argument(),
                self.tiles.parts,
            );
        }
        sums
    }

    /// The gradient of the input. The kernel adds the `count` rows of `parts`, and writes the sums to `sums`.
    fn input_gradient(self, parts: NormSums<R>, sums: Option<NormSums<R>>, count: usize) -> CubeTensor<R> {
        let formats = self.formats();
        let Self { norm, gradient, width, tiles } = self;
        let NormInput { input, affine, inverse, rectified } = norm;
        let output = Output::over(&gradient, input.dtype);
        // SAFETY: the tiles cover the images, each writes its own elements, and the sums have `count` rows.
        unsafe {
            write_tile_gradient::launch_unchecked::<R>(
                &gradient.client,
                tiles.cubes(),
                tiles.cube(),
                addresses(&[&gradient, &input]),
                width,
                gradient.clone().into_buffer_arg(),
                output.argument,
                input.into_buffer_arg(),
                affine.columns(),
                inverse.into_buffer_arg(),
                parts.columns(),
                sums.as_ref().map(NormSums::columns).into(),
                tiles.argument(),
                count,
                tiles.pixels as f32,
                rectified,
                formats,
            );
        }
        output.tensor
    }
}

impl<R: CubeRuntime> NormSums<R> {
    fn columns<N: Size>(&self) -> SumColumnsLaunch<N, R> {
        SumColumnsLaunch::new(self.weight.clone().into_buffer_arg(), self.shift.clone().into_buffer_arg())
    }
}

/// [`NormSums`] on the device.
#[derive(CubeType, CubeLaunch)]
struct SumColumns<N: Size> {
    weight: Box<[Vector<f32, N>]>,
    shift: Box<[Vector<f32, N>]>,
}

/// The gradient before the ReLU.
#[cube]
fn masked<G: Float, N: Size>(
    gradient: Vector<G, N>,
    values: Vector<f32, N>,
    affine: &ColumnAffine<N>,
    #[comptime] rectified: bool,
) -> Vector<f32, N> {
    let gradient = Vector::<f32, N>::cast_from(gradient);
    if comptime!(rectified) {
        let zero = Vector::new(0.0f32);
        select_many(affine.normed(values).greater_than(&zero), gradient, zero)
    } else {
        gradient
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn tile_sums<I: Float, G: Float, N: Size>(
    gradient: &[Vector<G, N>],
    input: &[Vector<I, N>],
    affine: AffineColumns<N>,
    inverse: &[Vector<f32, N>],
    mut sums: SumColumns<N>,
    tile: Tile,
    #[comptime] rectified: bool,
    #[define(I, G)] _formats: [ElemType; 2],
) {
    let affine = affine.of_column(tile.column());
    let mut weight = Vector::<f32, N>::new(0.0f32);
    let mut shift = Vector::<f32, N>::new(0.0f32);
    let end = tile.end();
    let mut pixel = tile.begin();
    while pixel < end {
        let at = tile.place(pixel);
        let values = Vector::<f32, N>::cast_from(input[at]);
        let masked = masked::<G, N>(gradient[at], values, &affine, rectified);
        shift += masked;
        weight += masked * (values - affine.mean);
        pixel += CUBE_DIM_Y as usize;
    }
    let weight = over_rows::<N>(weight) * inverse[tile.column()];
    let shift = over_rows::<N>(shift);
    if UNIT_POS_Y == 0 && tile.is_inside() {
        let at = tile.place(CUBE_POS_Y as usize);
        sums.weight[at] = weight;
        sums.shift[at] = shift;
    }
}

#[cube(launch_unchecked)]
fn joined_tile_sums<N: Size>(of_parts: SumColumns<N>, mut sums: SumColumns<N>, tile: Tile, parts: usize) {
    let weight = over_parts::<N>(&of_parts.weight, &tile, parts);
    let shift = over_parts::<N>(&of_parts.shift, &tile, parts);
    if UNIT_POS_Y == 0 && tile.is_inside() {
        sums.weight[tile.column()] = weight;
        sums.shift[tile.column()] = shift;
    }
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn write_tile_gradient<I: Float, G: Float, N: Size>(
    gradient: &[Vector<G, N>],
    output: &mut [Vector<I, N>],
    input: &[Vector<I, N>],
    affine: AffineColumns<N>,
    inverse: &[Vector<f32, N>],
    of_parts: SumColumns<N>,
    sums: ComptimeOption<SumColumns<N>>,
    tile: Tile,
    parts: usize,
    count: f32,
    #[comptime] rectified: bool,
    #[define(I, G)] _formats: [ElemType; 2],
) {
    let affine = affine.of_column(tile.column());
    let weight = over_parts::<N>(&of_parts.weight, &tile, parts);
    let shift = over_parts::<N>(&of_parts.shift, &tile, parts);
    #[comptime]
    if let ComptimeOption::Some(mut sums) = sums {
        if UNIT_POS_Y == 0 && CUBE_POS_Y == 0 && tile.is_inside() {
            sums.weight[tile.column()] = weight;
            sums.shift[tile.column()] = shift;
        }
    }
    let slope = inverse[tile.column()] * weight / Vector::new(count);
    let constant = shift / Vector::new(count);
    let end = tile.end();
    let mut pixel = tile.begin();
    while pixel < end {
        let at = tile.place(pixel);
        let values = Vector::<f32, N>::cast_from(input[at]);
        let masked = masked::<G, N>(gradient[at], values, &affine, rectified);
        let result = masked - constant - (values - affine.mean) * slope;
        output[at] = Vector::cast_from(result * affine.scale);
        pixel += CUBE_DIM_Y as usize;
    }
}
