//! Casts between float formats.

use burn_backend::{DType, TensorMetadata};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{ir::ElemType, prelude::*};

use crate::{
    image::ImageOrder,
    launch::{addresses, cube, cubes, element, length, vector_width},
    tensor::empty,
};

/// The tensor in the float format `dtype`, rounded to the nearest, ties to even. A tensor that has the format is given back.
/// Images keep their order in memory.
///
/// One launch, or none.
pub fn cast<R: CubeRuntime>(tensor: CubeTensor<R>, dtype: DType) -> CubeTensor<R> {
    let order = match tensor.rank() {
        4 => ImageOrder::of(&tensor),
        _ => ImageOrder::ChannelsFirst,
    };
    let tensor = order.memory(tensor);
    order.image(if tensor.dtype == dtype { tensor } else { written(&tensor, dtype) })
}

/// A copy of a contiguous tensor.
pub(crate) fn copied<R: CubeRuntime>(tensor: &CubeTensor<R>) -> CubeTensor<R> {
    written(tensor, tensor.dtype)
}

fn written<R: CubeRuntime>(tensor: &CubeTensor<R>, dtype: DType) -> CubeTensor<R> {
    let sizes = tensor.shape();
    let output = empty(tensor, sizes.as_slice(), dtype);
    let width = vector_width(length(tensor), &[tensor.dtype, dtype]);
    let vectors = length(tensor) / width;
    // SAFETY: both buffers have that many vectors, and the kernel touches no others.
    unsafe {
        write_cast::launch_unchecked::<R>(
            &tensor.client,
            cubes(tensor, vectors),
            cube(),
            addresses(&[tensor, &output]),
            width,
            tensor.clone().into_buffer_arg(),
            output.clone().into_buffer_arg(),
            vectors,
            [element(tensor), element(&output)],
        );
    }
    output
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn write_cast<I: Numeric, O: Numeric, N: Size>(
    input: &[Vector<I, N>],
    output: &mut [Vector<O, N>],
    vectors: usize,
    #[define(I, O)] _formats: [ElemType; 2],
) {
    if ABSOLUTE_POS < vectors {
        output[ABSOLUTE_POS] = Vector::cast_from(input[ABSOLUTE_POS]);
    }
}
