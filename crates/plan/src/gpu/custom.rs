//! Operations with oomph's own kernels (`oomph-gpu-kernels`).
//!
//! Such a kernel reads and writes packed rows: padded and permuted inputs are copied. Those of normalisation, and casts, have
//! images that may lie channels-last: one of the inputs decides for all images of the operation. The first scalar is the
//! number of outputs that reuse the first inputs, if those have no other references; the others are the bytes of each buffer
//! that the kernel needs. Convolutions have their rules in [`conv`], the steps of an LSTM in [`lstm`].

use burn_ir::{CustomOpIr, ScalarIr};

use super::{conv, layouts::channels_last, lstm, views::packed};
use crate::allocator_sim::{AllocatorSim, Handle};

pub(super) fn run(m: &mut AllocatorSim, op: &CustomOpIr) {
    match (op.id.as_str(), &op.inputs[..], &op.outputs[..]) {
        ("conv2d", [input, weight], [out]) => conv::forward(m, [input, weight], None, out),
        ("conv2d_input_backward", [gradient, weight], [out]) => {
            conv::input_backward(m, [gradient, weight], out);
        }
        ("conv2d_weight_backward", [input, gradient], [out]) => {
            conv::weight_backward(m, [input, gradient], buffer(op, 0), out);
        }
        // Its input only says where the zeros are made.
        ("zeros", [like], [out]) => {
            let like = m.input(like);
            let zeros = m.allocate_packed(&out.shape[..], out.dtype);
            m.release(like);
            m.output(out, zeros);
        }
        // Rows that are in order already are not copied.
        ("contiguous", [input], [out]) => {
            let input = m.input(input);
            let rows = packed(m, input);
            m.output(out, rows);
        }
        ("lstm_forward", ..) => lstm::forward(m, op),
        ("lstm_input_backward", ..) => lstm::input_backward(m, op),
        _ => kernel(m, op),
    }
}

/// A number that the operation was recorded with.
fn scalar(op: &CustomOpIr, index: usize) -> u64 {
    match op.scalars.get(index) {
        Some(ScalarIr::UInt(number)) => *number,
        _ => 0,
    }
}

/// The input whose order the images of the operation take (`ImageOrder` of oomph-gpu-kernels).
fn leading(op: &CustomOpIr) -> Option<usize> {
    match op.id.as_str() {
        "normalise" | "channel_moments" | "cast" => Some(0),
        "normalise_backward" | "rectify_backward" => Some(1),
        _ => None,
    }
}

/// How many outputs, from the first on, may overwrite the input of the same index.
pub(super) fn in_place(op: &CustomOpIr) -> usize {
    scalar(op, 0) as usize
}

/// The bytes of a buffer that the operation declares; 0 if it does not.
pub(super) fn buffer(op: &CustomOpIr, index: usize) -> u64 {
    scalar(op, index + 1)
}

fn kernel(m: &mut AllocatorSim, op: &CustomOpIr) {
    let inputs: Vec<Handle> = op.inputs.iter().map(|ir| m.input(ir)).collect();
    let is_last =
        leading(op).and_then(|index| inputs.get(index)).is_some_and(|image| image.layout.is_channels_last());
    let is_moved = |shape: &[usize]| is_last && shape.len() == 4;
    let read = inputs.into_iter().map(|mut input| {
        if is_moved(&input.layout.shape) {
            input.layout = input.layout.channels_last();
        }
        packed(m, input)
    });
    let mut read: Vec<Option<Handle>> = read.map(Some).collect();
    for (index, ir) in op.outputs.iter().enumerate() {
        let place = read.get_mut(index).filter(|_| index < in_place(op));
        let place = place.and_then(|place| place.take_if(|place| m.is_unique(place)));
        let is_moved = is_moved(&ir.shape[..]);
        let shape = if is_moved { channels_last(&ir.shape[..]) } else { ir.shape[..].to_vec() };
        let mut output = place.unwrap_or_else(|| m.allocate_packed(&shape, ir.dtype));
        if is_moved {
            output.layout = output.layout.channels_first();
        }
        m.output(ir, output);
    }
    let buffers = (0..).map(|index| buffer(op, index)).take(op.scalars.len().saturating_sub(1));
    let buffers: Vec<Handle> = buffers.filter(|bytes| *bytes > 0).map(|bytes| m.workspace(bytes)).collect();
    m.release_all(buffers.into_iter().chain(read.into_iter().flatten()));
}
