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

/// Writes the input gradient of a run of steps into `whole`: in place, if nobody else holds it.
pub(super) fn input_backward(
    whole: Tensor<3>,
    gates: Tensor<3>,
    steps: &Range<usize>,
    of_input: &RecurrentMatrix,
) -> Tensor<3> {
    let [batch, all_steps, features] = whole.dims();
    let dtype = whole.dtype();
    let rows = batch * steps.len();
    let narrow =
        if of_input.dtype == DType::F32 { 0 } else { words(rows * of_input.sizes.inner, of_input.dtype) };
    let product = if steps.len() < all_steps { words(rows * features, dtype) } else { 0 };
    let rest = [gates.into(), of_input.tensor().into()];
    let operation = CustomOp::changing("lstm_input_backward", whole, rest, dtype);
    gpu::one(on_gpu!(operation, [narrow, product], |inputs| {
        let [whole, gates, of_input] = gpu::listed(inputs);
        vec![oomph_gpu_kernels::lstm::lstm_input_backward(whole, gates, steps, of_input)]
    }))
}

/// Elements of `dtype` in words of 32 bits.
pub(crate) fn words(elements: usize, dtype: DType) -> usize {
    (elements * dtype.size()).div_ceil(4)
}
