//! Operands and outputs that the rules share.

use burn_backend::DType;
use burn_ir::{OperationIr, TensorIr};

use crate::allocator_sim::{AllocatorSim, Handle};

/// Makes the operands contiguous and allocates the outputs.
pub(super) fn fresh(m: &mut AllocatorSim, operation: &OperationIr) {
    let inputs: Vec<Handle> = operation.inputs().map(|ir| m.input(ir)).collect();
    let copies: Vec<Handle> = inputs.iter().map(|input| contiguous(m, input)).collect();
    allocate(m, operation.outputs());
    for handle in copies.into_iter().chain(inputs) {
        m.release(handle);
    }
}

/// Allocates only the outputs: strided operands need no copy.
pub(super) fn strided(m: &mut AllocatorSim, operation: &OperationIr) {
    let inputs: Vec<Handle> = operation.inputs().map(|ir| m.input(ir)).collect();
    allocate(m, operation.outputs());
    for handle in inputs {
        m.release(handle);
    }
}

fn allocate<'a>(m: &mut AllocatorSim, outputs: impl Iterator<Item = &'a TensorIr>) {
    for ir in outputs {
        let output = m.allocate(&ir.shape[..], ir.dtype);
        m.output(ir, output);
    }
}

/// `FlexTensor::empty`: zeros are allocated as bytes and copied to an aligned buffer, so both exist for a moment.
///
/// Before training and during uploads, zeros stand for data of the host, whose storage is adopted.
pub(super) fn empty(m: &mut AllocatorSim, shape: &[usize], dtype: DType) -> Handle {
    if m.is_uploading() {
        return m.allocate(shape, dtype);
    }
    let unaligned = m.allocate(shape, dtype);
    let output = m.allocate(shape, dtype);
    m.release(unaligned);
    output
}

/// Zeros, into which the operation adds.
pub(super) fn added_into_zeros(m: &mut AllocatorSim, operation: &OperationIr, out: &TensorIr) {
    let inputs: Vec<Handle> = operation.inputs().map(|ir| m.input(ir)).collect();
    let output = empty(m, &out.shape[..], out.dtype);
    for handle in inputs {
        m.release(handle);
    }
    m.output(out, output);
}

/// `FlexTensor::to_contiguous`: another reference, or a copy.
pub(super) fn contiguous(m: &mut AllocatorSim, handle: &Handle) -> Handle {
    if handle.layout.starts_contiguous() && m.is_whole(handle) {
        m.share(handle)
    } else {
        m.allocate(&handle.layout.shape.clone(), handle.dtype)
    }
}
