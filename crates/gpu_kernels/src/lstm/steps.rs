//! Runs of steps of sequences, and their products with the input weights.

use std::ops::Range;

use burn_backend::{DType, cubecl::dtype_to_storage_type};
use burn_cubecl::{
    CubeRuntime,
    kernel::matmul::{MatmulStrategy, matmul},
    tensor::CubeTensor,
};
use cubecl::{calculate_cube_count_elemwise, ir::AddressType, prelude::*};

use super::layout::width;
use crate::tensor::{contiguous, empty, sizes};

/// Writes the input gradient of a run of steps into `whole`, `[B, T, I]`, and returns `whole`. The gradient is that of
/// `gates`, `[B, k, 4U]`, times the weights, `[4U, I]` in the format of products, to which the gates are rounded. `whole` is
/// written in place, if nobody else holds it.
///
/// It makes up to three launches: the rounding of gates to 16 bits, the product, and its copy to a part of a sequence.
///
/// # Panics
/// Panics if the shapes do not fit each other, or if the card has no product in the format.
pub fn lstm_input_backward<R: CubeRuntime>(
    whole: CubeTensor<R>,
    gates: CubeTensor<R>,
    steps: &Range<usize>,
    of_input: CubeTensor<R>,
) -> CubeTensor<R> {
    let [batch, all_steps, features] = sizes(&whole);
    let [_, count, width] = sizes(&gates);
    assert_eq!(count, steps.len(), "gates of another number of steps");
    let whole = copied(contiguous(whole));
    let gates = of_format(contiguous(gates), [batch * count, width], of_input.dtype);
    let is_whole = count == all_steps;
    let product = match is_whole {
        true => whole.clone(),
        false => empty(&whole, &[batch, count, features], DType::F32),
    };
    multiply(gates, of_input, shaped(product.clone(), &[batch * count, features]));
    if !is_whole {
        let from = RunPart { all_steps: count, first_step: 0 };
        copy_steps(product, from, whole.clone(), RunPart { all_steps, first_step: steps.start }, count);
    }
    whole
}

/// The steps of `input`, `[B, T, I]`, times the weights, `[I, 4U]`: `[B, k, 4U]` in 32 bits.
pub(super) fn project<R: CubeRuntime>(
    input: CubeTensor<R>,
    steps: &Range<usize>,
    of_input: CubeTensor<R>,
) -> CubeTensor<R> {
    let [batch, all_steps, features] = sizes(&input);
    let [_, columns] = sizes(&of_input);
    let count = steps.len();
    let dtype = of_input.dtype;
    let of_run = if count == all_steps && input.dtype == dtype {
        input
    } else {
        let of_run = empty(&input, &[batch, count, features], dtype);
        let from = RunPart { all_steps, first_step: steps.start };
        copy_steps(input, from, of_run.clone(), RunPart { all_steps: count, first_step: 0 }, count);
        of_run
    };
    let projected = empty(&of_run, &[batch, count, columns], DType::F32);
    let rows = batch * count;
    multiply(shaped(of_run, &[rows, features]), of_input, shaped(projected.clone(), &[rows, columns]));
    projected
}

/// Writes the product of two matrices of one format to `to`.
///
/// # Panics
/// Panics if the card has no product in the format: 16 bits without tensor cores, as on sm_61, need more shared memory than
/// there is.
fn multiply<R: CubeRuntime>(left: CubeTensor<R>, right: CubeTensor<R>, to: CubeTensor<R>) {
    let dtype = to.dtype;
    let format = left.dtype;
    // Documented: oomph's devices have products in all formats that it trains in.
    matmul(left, right, Some(to), MatmulStrategy::Cube, dtype)
        .unwrap_or_else(|error| panic!("this card has no product of matrices in {format:?}: {error}"));
}

/// The tensor itself, if nobody else holds it, or its copy.
pub(super) fn copied<R: CubeRuntime>(tensor: CubeTensor<R>) -> CubeTensor<R> {
    if tensor.can_mut() {
        return tensor;
    }
    let [batch, steps, features] = sizes(&tensor);
    let copy = empty(&tensor, &[batch, steps, features], tensor.dtype);
    let part = RunPart { all_steps: steps, first_step: 0 };
    copy_steps(tensor, part, copy.clone(), part, steps);
    copy
}

/// The matrix in a format, contiguous.
fn of_format<R: CubeRuntime>(tensor: CubeTensor<R>, shape: [usize; 2], dtype: DType) -> CubeTensor<R> {
    let tensor = shaped(tensor, &shape);
    if tensor.dtype == dtype {
        return tensor;
    }
    let [rows, columns] = shape;
    let made = empty(&tensor, &shape, dtype);
    let part = RunPart { all_steps: rows, first_step: 0 };
    let sequence = [1, rows, columns];
    copy_steps(shaped(tensor, &sequence), part, shaped(made.clone(), &sequence), part, rows);
    made
}

/// A contiguous tensor in another shape of as many elements.
fn shaped<R: CubeRuntime>(tensor: CubeTensor<R>, shape: &[usize]) -> CubeTensor<R> {
    let CubeTensor { client, handle, device, dtype, .. } = tensor;
    CubeTensor::new_contiguous(client, device, shape.to_vec().into(), handle, dtype)
}

/// The integers that can address every element of the tensors.
pub(super) fn address_type<'a, R: CubeRuntime>(
    tensors: impl IntoIterator<Item = &'a CubeTensor<R>>,
) -> AddressType {
    tensors.into_iter().map(CubeTensor::required_address_type).max().unwrap_or_default()
}

/// Where a run lies in a sequence.
#[derive(Clone, Copy)]
struct RunPart {
    all_steps: usize,
    first_step: usize,
}

/// Copies `count` steps of `from` into `to`, in the format of `to`.
fn copy_steps<R: CubeRuntime>(
    from: CubeTensor<R>,
    part: RunPart,
    to: CubeTensor<R>,
    to_part: RunPart,
    count: usize,
) {
    let [batch, _, features] = sizes(&from);
    let width = width(features, 4);
    let features = features / width;
    let vectors = batch * count * features;
    if vectors == 0 {
        return;
    }
    let client = from.client.clone();
    let cube_dim = CubeDim::new(&client, vectors);
    let dtypes = [from.dtype, to.dtype].map(dtype_to_storage_type);
    // Safety: the kernel stays within the run, which lies in both sequences.
    unsafe {
        copy_vectors::launch_unchecked(
            &client,
            calculate_cube_count_elemwise(&client, vectors, cube_dim),
            cube_dim,
            address_type([&from, &to]),
            width,
            from.into_buffer_arg(),
            to.into_buffer_arg(),
            vectors,
            count * features,
            part.all_steps * features,
            part.first_step * features,
            to_part.all_steps * features,
            to_part.first_step * features,
            dtypes,
        );
    }
}

/// Copies the `of_run` vectors of each row from `start` on in rows of `of_row`.
#[cube(launch_unchecked, address_type = "dynamic")]
fn copy_vectors<I: Float, O: Float, N: Size>(
    from: &[Vector<I, N>],
    to: &mut [Vector<O, N>],
    vectors: usize,
    of_run: usize,
    of_row: usize,
    start: usize,
    of_row_to: usize,
    start_to: usize,
    #[define(I, O)] _dtypes: [ElemType; 2],
) {
    let at = ABSOLUTE_POS;
    if at >= vectors {
        terminate!();
    }
    let row = at / of_run;
    let within = at % of_run;
    to[row * of_row_to + start_to + within] = Vector::cast_from(from[row * of_row + start + within]);
}
