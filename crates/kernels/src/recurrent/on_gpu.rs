//! The custom operations around a GPU's products of recurrent layers.

use std::ops::Range;

use burn::tensor::Tensor;
use burn_backend::DType;

use super::matrix::RecurrentMatrix;
use crate::{
    custom_op::CustomOp,
    gpu::{self, on_gpu},
};

/// The matrix with its rows in order.
pub(super) fn contiguous(matrix: Tensor<2>) -> Tensor<2> {
    let outputs = vec![(matrix.dims().to_vec(), matrix.dtype())];
    let operation = CustomOp { name: "contiguous", inputs: vec![matrix.into()], outputs, in_place: 1 };
    gpu::one(on_gpu!(operation, [], |inputs| {
        inputs.into_iter().map(oomph_gpu_kernels::contiguous).collect()
    }))
}

/// Writes the products of rows and a matrix into a run of steps of `whole`: in place, if nobody else holds it.
pub(super) fn place_products(
    whole: Tensor<3>,
    rows: Tensor<3>,
    steps: &Range<usize>,
    matrix: &RecurrentMatrix,
) -> Tensor<3> {
    let [batch, all_steps, columns] = whole.dims();
    let dtype = whole.dtype();
    let count = batch * steps.len();
    let narrow = if matrix.dtype == DType::F32 { 0 } else { words(count * matrix.sizes.inner, matrix.dtype) };
    let product = if steps.len() < all_steps { words(count * columns, dtype) } else { 0 };
    let rest = [rows.into(), matrix.tensor().into()];
    let operation = CustomOp::changing("lstm_input_backward", whole, rest, dtype);
    gpu::one(on_gpu!(operation, [narrow, product], |inputs| {
        let [whole, rows, matrix] = gpu::listed(inputs);
        vec![oomph_gpu_kernels::lstm::lstm_input_backward(whole, rows, steps, matrix)]
    }))
}

/// Elements of `dtype` in words of 32 bits.
pub(crate) fn words(elements: usize, dtype: DType) -> usize {
    (elements * dtype.size()).div_ceil(4)
}
