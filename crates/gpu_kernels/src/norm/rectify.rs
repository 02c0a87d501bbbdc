use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{ir::ElemType, prelude::*};

use crate::{
    image::ImageOrder,
    launch::{Output, addresses, cube, cubes, element, length, vector_width},
};

/// The gradient before a ReLU: `gradient` where the ReLU's `output`, of the same shape, is above 0, and else 0. It overwrites
/// the gradient if nobody else holds it.
///
/// One launch.
pub fn rectify_backward<R: CubeRuntime>(gradient: CubeTensor<R>, output: CubeTensor<R>) -> CubeTensor<R> {
    let order = ImageOrder::of(&output);
    let [gradient, output] = [gradient, output].map(|image| order.memory(image));
    let width = vector_width(length(&gradient), &[gradient.dtype, output.dtype]);
    let vectors = length(&gradient) / width;
    let result = Output::over(&gradient, gradient.dtype);
    // SAFETY: all tensors have that many vectors, and the kernel touches no others.
    unsafe {
        mask::launch_unchecked::<R>(
            &gradient.client,
            cubes(&gradient, vectors),
            cube(),
            addresses(&[&gradient, &output]),
            width,
            gradient.clone().into_buffer_arg(),
            result.argument,
            output.clone().into_buffer_arg(),
            vectors,
            [element(&gradient), element(&output)],
        );
    }
    order.image(result.tensor)
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn mask<G: Float, O: Float, N: Size>(
    gradient: &[Vector<G, N>],
    result: &mut [Vector<G, N>],
    output: &[Vector<O, N>],
    vectors: usize,
    #[define(G, O)] _formats: [ElemType; 2],
) {
    let at = ABSOLUTE_POS;
    if at < vectors {
        let passes = Vector::<f32, N>::cast_from(output[at]).greater_than(&Vector::new(0.0f32));
        result[at] = select_many(passes, gradient[at], Vector::new(G::new(0.0f32)));
    }
}
