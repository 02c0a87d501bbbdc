//! Runs of steps of an LSTM (`oomph-gpu-kernels`, `lstm/`): their allocations in order, since a buffer that is freed before
//! the next one is made may serve it. The operations declare their buffers (oomph-kernels, `lstm/on_gpu.rs`).

use burn_ir::{CustomOpIr, TensorIr};

use super::{
    custom::{buffer, in_place},
    views::packed,
};
use crate::allocator_sim::{AllocatorSim, Handle};

/// `lstm_forward` of `[there, input, bias, hidden, cell, of_input, recurrent]`, where `there` are outputs that the run adds
/// to, if there are any. Buffers: the product of inputs and weights, unless the gates overwrite it, and the run's inputs.
pub(super) fn forward(m: &mut AllocatorSim, op: &CustomOpIr) {
    let (there, read) = op.inputs.split_at(in_place(op).min(op.inputs.len()));
    let there = there.first().map(|ir| m.input(ir));
    let [input, bias, hidden, cell, of_input, recurrent] = read else { return };
    let [input, of_input] = [input, of_input].map(|ir| read_packed(m, ir));
    let input = match buffer(op, 1) {
        0 => input,
        bytes => {
            let copy = m.workspace(bytes);
            m.release(input);
            copy
        }
    };
    let outputs = Outputs::of(op, recurrent);
    let product = match buffer(op, 0) {
        0 => None,
        bytes => Some(m.workspace(bytes)),
    };
    if let (None, Some(gates)) = (&product, outputs.gates) {
        new_output(m, gates);
    }
    m.release_all([input, of_input]);
    for state in outputs.state {
        new_output(m, state);
    }
    if let (Some(_), Some(gates)) = (&product, outputs.gates) {
        new_output(m, gates);
    }
    if let Some(ir) = outputs.output {
        match there {
            Some(there) => {
                let there = packed(m, there);
                changed(m, there, ir);
            }
            None => new_output(m, ir),
        }
    }
    let read = [bias, recurrent, hidden, cell].map(|ir| read_packed(m, ir));
    m.release_all(read.into_iter().chain(product));
}

/// `lstm_input_backward` of `[whole, gates, of_input]`. Buffers: the gates in 16 bits, and the gradient of a part of the
/// sequence.
pub(super) fn input_backward(m: &mut AllocatorSim, op: &CustomOpIr) {
    let ([whole, gates, of_input], [out]) = (&op.inputs[..], &op.outputs[..]) else { return };
    let whole = read_packed(m, whole);
    changed(m, whole, out);
    let mut gates = read_packed(m, gates);
    if buffer(op, 0) > 0 {
        let narrow = m.workspace(buffer(op, 0));
        m.release(std::mem::replace(&mut gates, narrow));
    }
    let product = (buffer(op, 1) > 0).then(|| m.workspace(buffer(op, 1)));
    let of_input = m.input(of_input);
    m.release_all([gates, of_input].into_iter().chain(product));
}

/// The outputs of `lstm_forward`: those of the steps and the gates where they are asked for, and the state.
struct Outputs<'a> {
    output: Option<&'a TensorIr>,
    gates: Option<&'a TensorIr>,
    state: &'a [TensorIr],
}

impl<'a> Outputs<'a> {
    /// Rows of gates are four times as long as those of the state.
    fn of(op: &'a CustomOpIr, recurrent: &TensorIr) -> Self {
        let (of_steps, state) = op.outputs.split_at(op.outputs.len().saturating_sub(2));
        let units = recurrent.shape[0];
        let find = |width: usize| of_steps.iter().find(|ir| ir.shape[2] == width);
        Self { output: find(units), gates: find(4 * units), state }
    }
}

/// An output in packed rows.
fn new_output(m: &mut AllocatorSim, ir: &TensorIr) {
    let output = m.allocate_packed(&ir.shape[..], ir.dtype);
    m.output(ir, output);
}

fn read_packed(m: &mut AllocatorSim, ir: &TensorIr) -> Handle {
    let input = m.input(ir);
    packed(m, input)
}

/// The packed tensor as an output, or its copy if something else refers to it.
fn changed(m: &mut AllocatorSim, tensor: Handle, out: &TensorIr) {
    if m.is_unique(&tensor) {
        return m.output(out, tensor);
    }
    new_output(m, out);
    m.release(tensor);
}
