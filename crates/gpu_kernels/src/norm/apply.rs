use burn_backend::DType;
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{ir::ElemType, prelude::*, std::FastDivmod};

use super::{
    affine::{Affine, AffineVectors},
    channels_last,
    values::Addend,
};
use crate::{
    image::ImageOrder,
    launch::{Output, addresses, cube, cubes, element, length, vector_width},
    tensor::sizes,
};

/// The normalised `input`, `[B, C, H, W]`, plus the `addend`, in the format `dtype`; rectified if `rectify`. It overwrites the
/// input, if that has the format and nobody else holds it.
///
/// One launch.
pub fn normalise<R: CubeRuntime>(
    input: CubeTensor<R>,
    affine: Affine<R>,
    addend: Option<Addend<R>>,
    rectify: bool,
    dtype: DType,
) -> CubeTensor<R> {
    let order = ImageOrder::of(&input);
    let input = order.memory(input);
    let addend = addend.map(|Addend { values, affine }| Addend { values: order.memory(values), affine });
    order.image(match order {
        ImageOrder::ChannelsFirst => by_rows(input, affine, addend, rectify, dtype),
        ImageOrder::ChannelsLast => channels_last::normalise(input, affine, addend, rectify, dtype),
    })
}

fn by_rows<R: CubeRuntime>(
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
    let [_, channels, height, columns] = sizes(&input);
    // Without an addend its type is not used.
    let added = addend.as_ref().map_or(dtype, |addend| addend.dtype);
    let width = vector_width(height * columns, &[input.dtype, dtype, added]);
    let vectors = length(&input) / width;
    let output = Output::over(&input, dtype);
    let formats =
        [element(&input), addend.as_ref().map_or(element(&output.tensor), element), element(&output.tensor)];
    // SAFETY: all tensors have that many vectors, the vectors of channels one element for each, and the kernel touches no
    // others.
    unsafe {
        write_normalised::launch_unchecked::<R>(
            &input.client,
            cubes(&input, vectors),
            cube(),
            addresses(&[&input, &output.tensor]),
            width,
            input.clone().into_buffer_arg(),
            output.argument,
            affine.argument(),
            addend.map(CubeTensor::into_buffer_arg).into(),
            addend_affine.map(Affine::argument).into(),
            vectors,
            height * columns / width,
            channels,
            rectify,
            formats,
        );
    }
    output.tensor
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn write_normalised<I: Float, A: Float, O: Float, N: Size>(
    input: &[Vector<I, N>],
    output: &mut [Vector<O, N>],
    affine: AffineVectors,
    addend: ComptimeOption<&[Vector<A, N>]>,
    addend_affine: ComptimeOption<AffineVectors>,
    vectors: usize,
    row: FastDivmod<usize>,
    channels: FastDivmod<usize>,
    #[comptime] rectify: bool,
    #[define(I, A, O)] _formats: [ElemType; 3],
) {
    let at = ABSOLUTE_POS;
    if at >= vectors {
        terminate!();
    }
    let channel = channels.modulo(row.div(at));
    let mut value = affine.of_channel(channel).normed::<N>(Vector::cast_from(input[at]));
    #[comptime]
    if let ComptimeOption::Some(addend) = addend {
        let term = Vector::<f32, N>::cast_from(addend[at]);
        #[comptime]
        match addend_affine {
            ComptimeOption::Some(affine) => value += affine.of_channel(channel).normed::<N>(term),
            ComptimeOption::None => value += term,
        }
    }
    if comptime!(rectify) {
        value = max(value, Vector::new(0.0f32));
    }
    output[at] = Vector::cast_from(value);
}
