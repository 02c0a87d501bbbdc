//! Reductions and pooling (burn-flex `ops/reduce.rs`, `ops/pool.rs`).

use burn_backend::DType;
use burn_ir::{MaxPool2dOpIr, MaxPool2dWithIndicesOpIr, ReduceDimOpIr, TensorIr};

use super::operands::contiguous;
use crate::allocator_sim::{AllocatorSim, Handle};

/// `reduce_dim_f32` and the like: a copy only if the tensor is not contiguous and more than one dimension comes before or
/// after.
pub(super) fn along(m: &mut AllocatorSim, op: &ReduceDimOpIr) {
    let input = m.input(&op.input);
    let behind = input.layout.shape.len() - op.axis - 1;
    let copies = !input.layout.is_contiguous() && (op.axis > 1 || behind > 1);
    let read = if copies { contiguous(m, &input) } else { m.share(&input) };
    let output = m.allocate(&op.out.shape[..], op.out.dtype);
    m.release_all([read, input]);
    m.output(&op.out, output);
}

/// Indices are computed in 64 bits and cast.
pub(super) fn index(m: &mut AllocatorSim, op: &ReduceDimOpIr) {
    let input = m.input(&op.input);
    let read = contiguous(m, &input);
    let wide = m.allocate(&op.out.shape[..], DType::I64);
    m.release_all([read, input]);
    let output = narrow(m, wide, &op.out);
    m.output(&op.out, output);
}

/// The output and 64-bit indices, which are cast to the requested integers.
pub(super) fn max_pool_with_indices(m: &mut AllocatorSim, op: &MaxPool2dWithIndicesOpIr) {
    let input = m.input(&op.x);
    let read = contiguous(m, &input);
    let output = m.allocate(&op.out.shape[..], op.out.dtype);
    let wide = m.allocate(&op.out_indices.shape[..], DType::I64);
    m.release_all([read, input]);
    let indices = narrow(m, wide, &op.out_indices);
    m.output(&op.out, output);
    m.output(&op.out_indices, indices);
}

/// Indices are computed here too, and dropped.
pub(super) fn max_pool(m: &mut AllocatorSim, op: &MaxPool2dOpIr) {
    let input = m.input(&op.x);
    let read = contiguous(m, &input);
    let output = m.allocate(&op.out.shape[..], op.out.dtype);
    let indices = m.allocate(&op.out.shape[..], DType::I64);
    m.release_all([indices, read, input]);
    m.output(&op.out, output);
}

fn narrow(m: &mut AllocatorSim, wide: Handle, out: &TensorIr) -> Handle {
    if out.dtype == DType::I64 {
        return wide;
    }
    let narrow = m.allocate(&out.shape[..], out.dtype);
    m.release(wide);
    narrow
}
