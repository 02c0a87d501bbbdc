//! Reductions read any layout and write packed rows (burn-cubecl `kernel/reduce/base.rs`). They have no workspace.

use burn_backend::DType;
use burn_ir::{OperationIr, TensorIr};

use crate::allocator_sim::{AllocatorSim, Handle};

/// Along one dimension.
pub(super) fn along(m: &mut AllocatorSim, input: &TensorIr, out: &TensorIr) {
    let input = m.input(input);
    let output = m.allocate_packed(&out.shape[..], out.dtype);
    m.release(input);
    m.output(out, output);
}

/// The sum of all elements. One kernel adds all, where the card adds atomically; 16-bit sums are taken along one dimension
/// after the other.
pub(super) fn sum(m: &mut AllocatorSim, input: &TensorIr, out: &TensorIr) {
    match out.dtype {
        DType::BF16 | DType::F16 => all(m, input, out),
        _ => along(m, input, out),
    }
}

/// Of all elements: along one dimension after the other, the shortest first.
pub(super) fn all(m: &mut AllocatorSim, input: &TensorIr, out: &TensorIr) {
    let mut tensor = m.input(input);
    let mut axes: Vec<usize> = (0..tensor.layout.shape.len()).collect();
    axes.sort_by_key(|axis| tensor.layout.shape[*axis]);
    for axis in axes {
        let mut shape = tensor.layout.shape.clone();
        shape[axis] = 1;
        let next = m.allocate_packed(&shape, out.dtype);
        m.release(std::mem::replace(&mut tensor, next));
    }
    tensor.layout.shape = out.shape[..].to_vec();
    tensor.layout.strides = vec![1; tensor.layout.shape.len()];
    m.output(out, tensor);
}

/// Values and indices by one kernel.
pub(super) fn packed(m: &mut AllocatorSim, operation: &OperationIr) {
    let inputs = m.inputs(operation);
    for ir in operation.outputs() {
        let output = m.allocate_packed(&ir.shape[..], ir.dtype);
        m.output(ir, output);
    }
    m.release_all(inputs);
}

/// The tensor reduced along a dimension, in its own format.
pub(super) fn reduced(m: &mut AllocatorSim, tensor: &Handle, axis: usize) -> Handle {
    let mut shape = tensor.layout.shape.clone();
    shape[axis] = 1;
    m.allocate_packed(&shape, tensor.dtype)
}
