//! Sequences that are written part by part.

use burn_backend::{DType, cubecl::dtype_to_storage_type};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{ir::ElemType, prelude::*, std::FastDivmod};

use crate::{
    launch::{addresses, cube, cubes, element, length, owned, vector_width},
    tensor::{contiguous, empty, sizes},
};

/// A tensor of zeros on the device of `like`, to be overwritten part by part.
///
/// One launch.
pub fn zeros<R: CubeRuntime>(shape: &[usize], dtype: DType, like: &CubeTensor<R>) -> CubeTensor<R> {
    let output = empty(like, shape, dtype);
    let width = vector_width(length(&output), &[dtype]);
    let vectors = length(&output) / width;
    // SAFETY: the output has that many vectors, and the kernel touches nothing else.
    unsafe {
        fill::launch_unchecked::<R>(
            &output.client,
            cubes(&output, vectors),
            cube(),
            addresses(&[&output]),
            width,
            output.clone().into_buffer_arg(),
            vectors,
            dtype_to_storage_type(dtype),
        );
    }
    output
}

/// Writes the time steps `part`, `[B, k, F]`, into `whole`, `[B, T, F]`, from step `at` on, in the format of `whole`: in
/// place, if nobody else holds `whole`, and otherwise into a copy.
///
/// One launch, and one more for the copy.
///
/// # Panics
/// Panics if `whole` ends before the part does, or has another B or F.
pub fn place_steps<R: CubeRuntime>(whole: CubeTensor<R>, part: CubeTensor<R>, at: usize) -> CubeTensor<R> {
    let (whole, part) = (owned(whole), contiguous(part));
    let [batch, steps, features] = sizes(&whole);
    let [part_batch, count, part_features] = sizes(&part);
    assert!(
        at + count <= steps && [batch, features] == [part_batch, part_features],
        "cannot place steps {:?} from step {at} on into {:?}",
        [part_batch, count, part_features],
        [batch, steps, features],
    );
    let width = vector_width(features, &[whole.dtype, part.dtype]);
    let vectors = length(&part) / width;
    // SAFETY: the part has that many vectors, and each has its place in the whole, as asserted above.
    unsafe {
        place::launch_unchecked::<R>(
            &whole.client,
            cubes(&whole, vectors),
            cube(),
            addresses(&[&whole, &part]),
            width,
            whole.clone().into_buffer_arg(),
            part.clone().into_buffer_arg(),
            vectors,
            count * features / width,
            (steps - count) * features / width,
            at * features / width,
            [element(&whole), element(&part)],
        );
    }
    whole
}

#[cube(launch_unchecked, address_type = "dynamic")]
fn fill<E: Numeric, N: Size>(output: &mut [Vector<E, N>], vectors: usize, #[define(E)] _format: ElemType) {
    if ABSOLUTE_POS < vectors {
        output[ABSOLUTE_POS] = Vector::new(E::from_int(0));
    }
}

/// `run`: vectors of a sample of the part; `between`: vectors of the whole between two runs; `begin`: where the first run
/// begins.
#[cube(launch_unchecked, address_type = "dynamic")]
fn place<W: Numeric, P: Numeric, N: Size>(
    whole: &mut [Vector<W, N>],
    part: &[Vector<P, N>],
    vectors: usize,
    run: FastDivmod<usize>,
    between: usize,
    begin: usize,
    #[define(W, P)] _formats: [ElemType; 2],
) {
    let at = ABSOLUTE_POS;
    if at < vectors {
        whole[at + run.div(at) * between + begin] = Vector::cast_from(part[at]);
    }
}
