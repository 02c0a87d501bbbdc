//! Matrix products and what is composed of them (burn-cubecl `kernel/matmul/base.rs`; cubek-matmul `Strategy::Auto`;
//! burn-backend `ops/modules/linear.rs`).

use burn_backend::{DType, Shape};
use burn_ir::{
    EmbeddingBackwardOpIr, EmbeddingOpIr, LinearBiasBackwardOpIr, LinearOpIr, LinearWeightBackwardOpIr,
    LinearXBackwardOpIr, MatmulOpIr,
};

use super::{layouts::merges_rows, views::reshaped};
use crate::allocator_sim::{AllocatorSim, Handle};

pub(super) fn matmul(m: &mut AllocatorSim, op: &MatmulOpIr) {
    let [left, right] = [m.input(&op.lhs), m.input(&op.rhs)];
    let output = product(m, left, right, &op.out.shape[..], op.out.dtype);
    m.output(&op.out, output);
}

/// The output, then copies of operands that are no matrices in memory.
fn product(m: &mut AllocatorSim, left: Handle, right: Handle, out: &[usize], dtype: DType) -> Handle {
    let output = m.allocate(out, dtype);
    let copies = [&left, &right].map(|side| {
        let is_copied = side.layout.is_no_matrix();
        is_copied.then(|| m.allocate(&side.layout.shape.clone(), side.dtype))
    });
    m.release_all(copies.into_iter().flatten().chain([left, right]));
    output
}

/// A product, then the bias added in place.
pub(super) fn linear(m: &mut AllocatorSim, op: &LinearOpIr) {
    let [x, weight] = [m.input(&op.x), m.input(&op.weight)];
    let bias = op.bias.as_ref().map(|bias| m.input(bias));
    let output = linear_of(m, x, weight, &op.out.shape);
    m.release_all(bias);
    m.output(&op.out, output);
}

/// `linear` against the transposed weight.
pub(super) fn linear_x_backward(m: &mut AllocatorSim, op: &LinearXBackwardOpIr) {
    let mut weight = m.input(&op.weight);
    weight.layout = weight.layout.swapped(0, 1);
    let gradient = m.input(&op.output_grad);
    let output = linear_of(m, gradient, weight, &op.out.shape);
    m.output(&op.out, output);
}

/// All rows at once, or a batch of products with the broadcast weight.
fn linear_of(m: &mut AllocatorSim, x: Handle, weight: Handle, out: &Shape) -> Handle {
    let (rank, dtype) = (out.num_dims(), x.dtype);
    let columns = out[rank - 1];
    if rank > 2 && merges_rows(&Shape::from(x.layout.shape.clone()), columns) {
        let x = flattened(m, x);
        let rows = x.layout.shape[0];
        let output = product(m, x, weight, &[rows, columns], dtype);
        return reshaped(m, output, &out[..]);
    }
    product(m, x, weight, &out[..], dtype)
}

/// `xᵀ · gradient` over all rows.
pub(super) fn linear_weight_backward(m: &mut AllocatorSim, op: &LinearWeightBackwardOpIr) {
    let x = m.input(&op.x);
    let mut x = flattened(m, x);
    x.layout = x.layout.swapped(0, 1);
    let gradient = m.input(&op.output_grad);
    let gradient = flattened(m, gradient);
    let output = product(m, x, gradient, &op.out.shape[..], op.out.dtype);
    m.output(&op.out, output);
}

/// The sum over all rows.
pub(super) fn linear_bias_backward(m: &mut AllocatorSim, op: &LinearBiasBackwardOpIr) {
    let gradient = m.input(&op.output_grad);
    let gradient = flattened(m, gradient);
    let output = m.allocate_packed(&op.out.shape[..], op.out.dtype);
    m.release(gradient);
    m.output(&op.out, output);
}

/// The rows of the weights by index.
pub(super) fn embedding(m: &mut AllocatorSim, op: &EmbeddingOpIr) {
    let weights = m.input(&op.weights);
    let indices = m.input(&op.indices);
    let count = indices.layout.elements();
    let indices = reshaped(m, indices, &[count]);
    let width = op.out.shape[op.out.shape.num_dims() - 1];
    let output = m.allocate(&[count, width], op.out.dtype);
    m.release_all([weights, indices]);
    let output = reshaped(m, output, &op.out.shape[..]);
    m.output(&op.out, output);
}

/// Zeros, to which the rows of the gradient are added.
pub(super) fn embedding_backward(m: &mut AllocatorSim, op: &EmbeddingBackwardOpIr) {
    let weights = m.input(&op.weights);
    let gradient = m.input(&op.out_grad);
    let indices = m.input(&op.indices);
    let count = indices.layout.elements();
    let indices = reshaped(m, indices, &[count]);
    let gradient = flattened(m, gradient);
    let output = m.allocate(&op.out.shape[..], op.out.dtype);
    m.release_all([weights, gradient, indices]);
    m.output(&op.out, output);
}

/// The tensor with its leading dimensions folded into rows, which copies padded rows.
fn flattened(m: &mut AllocatorSim, handle: Handle) -> Handle {
    let shape = &handle.layout.shape;
    if shape.len() == 2 {
        return handle;
    }
    let last = shape.last().copied().unwrap_or(1).max(1);
    let rows = handle.layout.elements() / last;
    reshaped(m, handle, &[rows, last])
}
