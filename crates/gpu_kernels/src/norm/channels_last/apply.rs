use burn_backend::DType;
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{ir::ElemType, prelude::*};

use super::{
    super::{affine::Affine, values::Addend},
    WRITING,
    tiles::{AffineColumns, ColumnAffine, Tile, Tiles},
};
use crate::{
    launch::{Output, addresses, element, vector_width},
    tensor::sizes,
};

/// The normalised `input`, `[B, H, W, C]`, plus the `addend` of the same order, in the format `dtype`; rectified if `rectify`.
pub(in super::super) fn normalise<R: CubeRuntime>(
    input: CubeTensor<R>,
    affine: Affine<R>,
    addend: Option<Addend<R>>,
    rectify: bool,
    dtype: DType,
) -> CubeTensor<R> {
    let (addend, addend_affine) = match addend {
        Some(Addend { values, affine }) => (Some(values), affine),
        None => (None, None),
    };
    let [_, _, _, channels] = sizes(&input);
    // Without an addend its type is not used.
    let added = addend.as_ref().map_or(dtype, |addend| addend.dtype);
    let width = vector_width(channels, &[input.dtype, dtype, added]);
    let tiles = Tiles::new(&input, width, WRITING);
    let output = Output::over(&input, dtype);
    let formats =
        [element(&input), addend.as_ref().map_or(element(&output.tensor), element), element(&output.tensor)];
    // SAFETY: the tiles cover the images, which have one size, and each writes its own elements. The vectors have one element
    // for each channel.
    unsafe {
        write_normalised_tile::launch_unchecked::<R>(
            &input.client,
            tiles.cubes(),
            tiles.cube(),
            addresses(&[&input, &output.tensor]),
            width,
            input.clone().into_buffer_arg(),
            output.argument,
            affine.columns(),
            addend.map(CubeTensor::into_buffer_arg).into(),
            addend_affine.map(Affine::columns).into(),
            tiles.argument(),
            rectify,
            formats,
        );
    }
    output.tensor
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn write_normalised_tile<I: Float, A: Float, O: Float, N: Size>(
    input: &[Vector<I, N>],
    output: &mut [Vector<O, N>],
    affine: AffineColumns<N>,
    addend: ComptimeOption<&[Vector<A, N>]>,
    addend_affine: ComptimeOption<AffineColumns<N>>,
    tile: Tile,
    #[comptime] rectify: bool,
    #[define(I, A, O)] _formats: [ElemType; 3],
) {
    let affine = affine.of_column(tile.column());
    let addend_affine: ComptimeOption<ColumnAffine<N>> =
        addend_affine.map(|affine| affine.of_column(tile.column()));
    let end = tile.end();
    let mut pixel = tile.begin();
    while pixel < end {
        let at = tile.place(pixel);
        let mut value = affine.normed(Vector::cast_from(input[at]));
        #[comptime]
        if let ComptimeOption::Some(addend) = addend {
            let term = Vector::<f32, N>::cast_from(addend[at]);
            #[comptime]
            match addend_affine {
                ComptimeOption::Some(affine) => value += affine.normed(term),
                ComptimeOption::None => value += term,
            }
        }
        if comptime!(rectify) {
            value = max(value, Vector::new(0.0f32));
        }
        output[at] = Vector::cast_from(value);
        pixel += CUBE_DIM_Y as usize;
    }
}
