//! Reductions and pooling (burn-flex `ops/reduce.rs`, `ops/pool.rs`).

use burn_backend::DType;
use burn_ir::{MaxPool2dOpIr, MaxPool2dWithIndicesOpIr, ReduceDimOpIr, TensorIr};

use super::contiguous;
use crate::machine::{Handle, Machine};

/// `reduce_dim_f32` and its kin: a copy only where the tensor is not contiguous and more than one dimension lies before
/// or behind.
pub(super) fn along(m: &mut Machine, op: &ReduceDimOpIr) {
    let input = m.input(&op.input);
    let behind = input.layout.shape.len() - op.axis - 1;
    let copies = !input.layout.is_contiguous() && (op.axis > 1 || behind > 1);
    let read = if copies { contiguous(m, &input) } else { m.share(&input) };
    let output = m.allocate(&op.out.shape[..], op.out.dtype);
    m.release(read);
    m.release(input);
    m.output(&op.out, output);
}

/// Indices are made as 64 bits and cast.
pub(super) fn index(m: &mut Machine, op: &ReduceDimOpIr) {
    let input = m.input(&op.input);
    let read = contiguous(m, &input);
    let wide = m.allocate(&op.out.shape[..], DType::I64);
    m.release(read);
    m.release(input);
    let output = narrow(m, wide, &op.out);
    m.output(&op.out, output);
}

/// Output and 64-bit indices, which are cast to the integers asked for.
pub(super) fn max_pool_with_indices(m: &mut Machine, op: &MaxPool2dWithIndicesOpIr) {
    let input = m.input(&op.x);
    let read = contiguous(m, &input);
    let output = m.allocate(&op.out.shape[..], op.out.dtype);
    let wide = m.allocate(&op.out_indices.shape[..], DType::I64);
    m.release(read);
    m.release(input);
    let indices = narrow(m, wide, &op.out_indices);
    m.output(&op.out, output);
    m.output(&op.out_indices, indices);
}

/// Indices are made here too, and dropped.
pub(super) fn max_pool(m: &mut Machine, op: &MaxPool2dOpIr) {
    let input = m.input(&op.x);
    let read = contiguous(m, &input);
    let output = m.allocate(&op.out.shape[..], op.out.dtype);
    let indices = m.allocate(&op.out.shape[..], DType::I64);
    for handle in [indices, read, input] {
        m.release(handle);
    }
    m.output(&op.out, output);
}

fn narrow(m: &mut Machine, wide: Handle, out: &TensorIr) -> Handle {
    if out.dtype == DType::I64 {
        return wide;
    }
    let narrow = m.allocate(&out.shape[..], out.dtype);
    m.release(wide);
    narrow
}
