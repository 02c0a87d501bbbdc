//! Pooling (burn-cubecl `kernel/pool/base.rs`): all operands are read channels-last, contiguous but for padded rows, and
//! copied where they are not. Outputs lie channels-last.

use burn_ir::{OperationIr, TensorIr};

use super::{
    layouts::channels_last,
    reduce::reduced,
    views::{reshaped, row_major},
};
use crate::allocator_sim::{AllocatorSim, Handle};

pub(super) fn pool(m: &mut AllocatorSim, operation: &OperationIr) {
    let mut inputs = m.inputs(operation);
    let mut copies = Vec::new();
    for input in &mut inputs {
        input.layout = input.layout.channels_last();
        copies.push(row_major(m, input));
    }
    for ir in operation.outputs() {
        let mut output = m.allocate(&channels_last(&ir.shape[..]), ir.dtype);
        output.layout = output.layout.channels_first();
        m.output(ir, output);
    }
    m.release_all(copies.into_iter().chain(inputs));
}

/// `global_avg_pool2d`: the mean of each channel's pixels, as a reduction of the joined pixels.
pub(super) fn mean(m: &mut AllocatorSim, x: &TensorIr, out: &TensorIr) {
    let mut input = m.input(x);
    let [batch, channels] = [input.layout.shape[0], input.layout.shape[1]];
    let pixels = input.layout.elements() / (batch * channels).max(1);
    let is_innermost = channels > 1 && input.layout.strides[1] == 1;
    let (joined, axis): (Handle, usize) = if is_innermost {
        input.layout = input.layout.channels_last();
        (reshaped(m, input, &[batch, pixels, channels]), 1)
    } else {
        (reshaped(m, input, &[batch, channels, pixels]), 2)
    };
    let output = reduced(m, &joined, axis);
    m.release(joined);
    let output = reshaped(m, output, &out.shape[..]);
    m.output(out, output);
}
