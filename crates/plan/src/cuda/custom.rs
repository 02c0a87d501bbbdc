//! Operations with oomph's own kernels (`oomph-gpu-kernels`).
//!
//! Such a kernel reads and writes packed rows: padded and permuted inputs are copied. Its first scalar is the number of
//! outputs that reuse the first inputs, if those have no other references; the second one the bytes of its workspace. The
//! others are about the threads of a CPU. Convolutions have their rules in [`conv`].

use burn_ir::{CustomOpIr, ScalarIr};

use super::{conv, views::packed};
use crate::allocator_sim::{AllocatorSim, Handle};

pub(super) fn run(m: &mut AllocatorSim, op: &CustomOpIr) {
    match (op.id.as_str(), &op.inputs[..], &op.outputs[..]) {
        ("conv2d", [input, weight], [out]) => conv::forward(m, [input, weight], None, out),
        ("conv2d_input_backward", [gradient, weight], [out]) => {
            conv::input_backward(m, [gradient, weight], out);
        }
        ("conv2d_weight_backward", [input, gradient], [out]) => {
            conv::weight_backward(m, [input, gradient], scalar(op, 1), out);
        }
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

fn kernel(m: &mut AllocatorSim, op: &CustomOpIr) {
    let read = op.inputs.iter().map(|ir| {
        let input = m.input(ir);
        packed(m, input)
    });
    let mut read: Vec<Option<Handle>> = read.map(Some).collect();
    for (index, ir) in op.outputs.iter().enumerate() {
        let place = read.get_mut(index).filter(|_| (index as u64) < scalar(op, 0));
        let place = place.and_then(|place| place.take_if(|place| m.is_unique(place)));
        let output = place.unwrap_or_else(|| m.allocate_packed(&ir.shape[..], ir.dtype));
        m.output(ir, output);
    }
    let workspace = (scalar(op, 1) > 0).then(|| m.workspace(scalar(op, 1)));
    m.release_all(workspace.into_iter().chain(read.into_iter().flatten()));
}
