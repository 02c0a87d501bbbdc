//! Views: the same storage with another layout, or a copy where the layout allows no view (burn-cubecl `ops/base.rs`,
//! `kernel/index/slice.rs`, `repeat_dim.rs`).

use burn_ir::{RepeatDimOpIr, SliceOpIr, TensorIr};

use super::instead;
use crate::{
    allocator_sim::{AllocatorSim, Handle},
    layout::Layout,
};

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

pub(super) fn reshape(m: &mut AllocatorSim, input: &TensorIr, out: &TensorIr) {
    let handle = m.input(input);
    let handle = reshaped(m, handle, &out.shape[..]);
    m.output(out, handle);
}

/// The tensor in another shape: a view, or a copy.
pub(super) fn reshaped(m: &mut AllocatorSim, mut handle: Handle, shape: &[usize]) -> Handle {
    match handle.layout.reshaped(shape) {
        Some(layout) => {
            handle.layout = layout;
            handle
        }
        None => instead(m, handle, shape),
    }
}

pub(super) fn slice(m: &mut AllocatorSim, op: &SliceOpIr) {
    let mut handle = m.input(&op.tensor);
    let element_bytes = m.element_bytes(handle.dtype);
    let is_aligned = |elements: usize| {
        let bytes = elements as u64 * element_bytes;
        m.allocated(bytes) == bytes
    };
    let output = match handle.layout.slice(&op.ranges, is_aligned) {
        Some(layout) => {
            handle.layout = layout;
            handle
        }
        None => instead(m, handle, &op.out.shape[..]),
    };
    m.output(&op.out, output);
}

/// A dimension of size 1 is repeated without a copy.
pub(super) fn repeat(m: &mut AllocatorSim, op: &RepeatDimOpIr) {
    let mut handle = m.input(&op.tensor);
    let output = if handle.layout.shape[op.dim] == 1 {
        handle.layout.shape[op.dim] = op.times;
        handle.layout.strides[op.dim] = 0;
        handle
    } else {
        instead(m, handle, &op.out.shape[..])
    };
    m.output(&op.out, output);
}

/// `into_contiguous_aligned`: another reference, or a copy if the tensor is not contiguous up to the padding of its rows.
pub(super) fn row_major(m: &mut AllocatorSim, handle: &Handle) -> Handle {
    if handle.layout.is_row_major() {
        m.share(handle)
    } else {
        m.allocate(&handle.layout.shape.clone(), handle.dtype)
    }
}

/// `into_contiguous`: the tensor itself, or a packed copy in its place.
pub(super) fn packed(m: &mut AllocatorSim, input: Handle) -> Handle {
    if input.layout.is_contiguous() {
        return input;
    }
    let copy = m.allocate_packed(&input.layout.shape.clone(), input.dtype);
    m.release(input);
    copy
}
