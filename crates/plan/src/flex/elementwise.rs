//! Element-wise operations, in place if the storage has no other reference (burn-flex `ops/binary.rs`, `ops/unary.rs`,
//! `ops/activation.rs`).

use burn_ir::{ActivationOperationIr, OperationIr, ScalarOpIr, TensorIr};

use super::operands;
use crate::{
    allocator_sim::{AllocatorSim, Handle},
    layout::Layout,
};

/// `scalar_op`: in place from the start of contiguous storage, else into a contiguous output.
pub(super) fn scalar(m: &mut AllocatorSim, input: &TensorIr, out: &TensorIr) {
    let handle = m.input(input);
    if m.is_unique(&handle) && handle.layout.starts_contiguous() {
        return m.output(out, handle);
    }
    replace(m, handle, None, out);
}

/// The product by one with which `oomph_model::autodiff` records that a gradient is copied out of larger storage. It is
/// executed only if the storage is larger.
pub(super) fn compact(m: &mut AllocatorSim, input: &TensorIr, out: &TensorIr) {
    let handle = m.input(input);
    if m.is_whole(&handle) {
        return m.output(out, handle);
    }
    replace(m, handle, None, out);
}

/// `unary_op`: as [`scalar`], but the output keeps the layout of an input that fills its storage.
pub(super) fn unary(m: &mut AllocatorSim, input: &TensorIr, out: &TensorIr) {
    let handle = m.input(input);
    if m.is_unique(&handle) && handle.layout.starts_contiguous() {
        return m.output(out, handle);
    }
    let keeps = !handle.layout.has_negative_strides() && handle.layout.offset == 0 && m.is_whole(&handle);
    let layout = keeps.then(|| handle.layout.clone());
    replace(m, handle, layout, out);
}

fn replace(m: &mut AllocatorSim, input: Handle, layout: Option<Layout>, out: &TensorIr) {
    let layout = layout.unwrap_or_else(|| Layout::contiguous(&out.shape[..]));
    let output = m.allocate_as(layout, out.dtype);
    m.release(input);
    m.output(out, output);
}

/// x², x⁻¹ and the like are composed of other operations; x² reads x twice, so it is never in place.
pub(super) fn power(m: &mut AllocatorSim, op: &ScalarOpIr) {
    let exponent = op.rhs.elem::<f64>();
    if ![1.0, 2.0, -2.0].contains(&exponent) {
        return unary(m, &op.lhs, &op.out);
    }
    let handle = m.input(&op.lhs);
    if exponent == 1.0 { m.output(&op.out, handle) } else { replace(m, handle, None, &op.out) }
}

/// `binary_op`: into the left operand, else into the right one, if it has no other reference and is dense from the start of
/// its storage; else into a new output. Both orders of the fast paths give the same.
pub(super) fn binary(m: &mut AllocatorSim, lhs: &TensorIr, rhs: &TensorIr, out: &TensorIr) {
    let mut left = m.input(lhs);
    let mut right = m.input(rhs);
    left.layout = left.layout.expanded(&out.shape[..]);
    right.layout = right.layout.expanded(&out.shape[..]);
    let collapsible = !left.layout.has_negative_strides() && !right.layout.has_negative_strides();
    let fits = |m: &AllocatorSim, handle: &Handle| {
        m.is_unique(handle) && (handle.layout.starts_contiguous() || collapsible && handle.layout.is_dense())
    };
    if fits(m, &left) {
        m.release(right);
        return m.output(out, left);
    }
    if fits(m, &right) {
        m.release(left);
        return m.output(out, right);
    }
    let output = m.allocate(&out.shape[..], out.dtype);
    m.release_all([left, right]);
    m.output(out, output);
}

/// Activations are one pass each.
pub(super) fn activation(m: &mut AllocatorSim, operation: &OperationIr, activation: &ActivationOperationIr) {
    use ActivationOperationIr as A;
    match activation {
        A::Relu(op) | A::Gelu(op) | A::Sigmoid(op) | A::LogSigmoid(op) => unary(m, &op.input, &op.out),
        A::LeakyRelu(op) => unary(m, &op.lhs, &op.out),
        A::HardSigmoid(op) => unary(m, &op.tensor, &op.out),
        A::ReluBackward(op)
        | A::PRelu(op)
        | A::GeluBackward(op)
        | A::SigmoidBackward(op)
        | A::LogSigmoidBackward(op) => binary(m, &op.lhs, &op.rhs, &op.out),
        // Burn composes it of the shifted logits, their exponentials during the sum, and the result in place.
        A::LogSoftmax(op) => {
            scalar(m, &op.input, &op.out);
            let exponentials = m.allocate(&op.out.shape[..], op.out.dtype);
            m.release(exponentials);
        }
        A::Softmax(_) | A::Softmin(_) => operands::fresh(m, operation),
    }
}
