//! Views of the same storage (burn-flex `layout.rs`, `ops/slice.rs`, `FlexTensor::reshape`).

use burn_ir::{SliceOpIr, TensorIr};

use super::operands::reshaped;
use crate::{allocator_sim::AllocatorSim, layout::Layout};

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
