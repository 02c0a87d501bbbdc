//! Operands and outputs that the rules share, and views of the same storage (burn-flex `layout.rs`, `ops/slice.rs`,
//! `FlexTensor::reshape`).

use burn_backend::DType;
use burn_ir::{OperationIr, SliceOpIr, TensorIr};

use crate::{
    allocator_sim::{AllocatorSim, Handle},
    layout::Layout,
};

/// Makes the operands contiguous and allocates the outputs.
pub(super) fn fresh(m: &mut AllocatorSim, operation: &OperationIr) {
    let inputs = m.inputs(operation);
    let copies: Vec<Handle> = inputs.iter().map(|input| contiguous(m, input)).collect();
    m.allocate_outputs(operation.outputs());
    m.release_all(copies.into_iter().chain(inputs));
}

/// Allocates only the outputs: strided operands need no copy.
pub(super) fn strided(m: &mut AllocatorSim, operation: &OperationIr) {
    let inputs = m.inputs(operation);
    m.allocate_outputs(operation.outputs());
    m.release_all(inputs);
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
    let inputs = m.inputs(operation);
    let output = empty(m, &out.shape[..], out.dtype);
    m.release_all(inputs);
    m.output(out, output);
}

/// `FlexTensor::reshape`: a view of contiguous storage, else of a copy.
pub(super) fn reshaped(m: &mut AllocatorSim, mut handle: Handle, shape: &[usize]) -> Handle {
    if !handle.layout.starts_contiguous() {
        let copy = contiguous(m, &handle);
        m.release(std::mem::replace(&mut handle, copy));
    }
    handle.layout = Layout::contiguous(shape);
    handle
}

/// `FlexTensor::to_contiguous`: another reference, or a copy.
pub(super) fn contiguous(m: &mut AllocatorSim, handle: &Handle) -> Handle {
    if handle.layout.starts_contiguous() && m.is_whole(handle) {
        m.share(handle)
    } else {
        m.allocate(&handle.layout.shape.clone(), handle.dtype)
    }
}

/// The same storage with another layout.
pub(super) fn view(
    m: &mut AllocatorSim,
    input: &TensorIr,
    out: &TensorIr,
    change: impl FnOnce(&Layout) -> Layout,
) {
    let mut handle = m.input(input);
    handle.layout = change(&handle.layout);
    m.output(out, handle);
}

/// Without a copy from contiguous storage, else with one.
pub(super) fn reshape(m: &mut AllocatorSim, input: &TensorIr, out: &TensorIr) {
    let handle = m.input(input);
    let handle = reshaped(m, handle, &out.shape[..]);
    m.output(out, handle);
}

/// Without a copy for positive steps; negative steps copy.
pub(super) fn slice(m: &mut AllocatorSim, op: &SliceOpIr) {
    let mut handle = m.input(&op.tensor);
    if op.ranges.iter().any(|range| range.step < 0) {
        let copy = m.allocate(&op.out.shape[..], op.out.dtype);
        m.release(handle);
        return m.output(&op.out, copy);
    }
    let mut starts = Vec::new();
    let mut steps = Vec::new();
    for (range, size) in op.ranges.iter().zip(&handle.layout.shape) {
        let size = *size as isize;
        let start = if range.start < 0 { (size + range.start).max(0) } else { range.start.min(size) };
        starts.push(start.unsigned_abs());
        steps.push(range.step);
    }
    handle.layout = handle.layout.sliced(&starts, &steps, &op.out.shape[..]);
    m.output(&op.out, handle);
}
