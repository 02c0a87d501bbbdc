//! Element by element, in place where nobody else refers to the storage (burn-flex `ops/binary.rs`, `ops/unary.rs`,
//! `ops/activation.rs`).

use burn_ir::{ActivationOperationIr, OperationIr, ScalarOpIr, TensorIr};

use super::Flex;
use crate::{
    layout::Layout,
    machine::{Handle, Machine},
};

/// `scalar_op`: in place from the start of contiguous storage, else into a contiguous output.
pub(super) fn scalar(m: &mut Machine, input: &TensorIr, out: &TensorIr) {
    let handle = m.input(input);
    if m.is_unique(&handle) && handle.layout.starts_contiguous() {
        return m.output(out, handle);
    }
    replace(m, handle, None, out);
}

/// The product by one by which `oomph_model::autodiff` records that a gradient is copied out of a larger storage. It is
/// executed only where there is one.
pub(super) fn compact(m: &mut Machine, input: &TensorIr, out: &TensorIr) {
    let handle = m.input(input);
    if m.is_whole(&handle) {
        return m.output(out, handle);
    }
    replace(m, handle, None, out);
}

/// `unary_op`: as [`scalar`], but an output of a tensor that fills its storage keeps that one's layout.
pub(super) fn unary(m: &mut Machine, input: &TensorIr, out: &TensorIr) {
    let handle = m.input(input);
    if m.is_unique(&handle) && handle.layout.starts_contiguous() {
        return m.output(out, handle);
    }
    let keeps = !handle.layout.has_negative_strides() && handle.layout.offset == 0 && m.is_whole(&handle);
    let layout = keeps.then(|| handle.layout.clone());
    replace(m, handle, layout, out);
}

fn replace(m: &mut Machine, input: Handle, layout: Option<Layout>, out: &TensorIr) {
    let layout = layout.unwrap_or_else(|| Layout::contiguous(&out.shape[..]));
    let output = m.allocate_as(layout, out.dtype);
    m.release(input);
    m.output(out, output);
}

/// x², x⁻¹ and their kin are made of other operations; x² reads x twice and so is never in place.
pub(super) fn power(m: &mut Machine, op: &ScalarOpIr) {
    let exponent = op.rhs.elem::<f64>();
    if exponent == 1.0 {
        let handle = m.input(&op.lhs);
        return m.output(&op.out, handle);
    }
    if exponent == 2.0 || exponent == -2.0 {
        let handle = m.input(&op.lhs);
        return replace(m, handle, None, &op.out);
    }
    unary(m, &op.lhs, &op.out);
}

/// `binary_op`: into the left operand, else into the right one, where nobody else refers to it and it is dense from the
/// start of its storage; else into a new output. Both orders of its fast paths come to this.
pub(super) fn binary(m: &mut Machine, lhs: &TensorIr, rhs: &TensorIr, out: &TensorIr) {
    let mut left = m.input(lhs);
    let mut right = m.input(rhs);
    left.layout = left.layout.expanded(&out.shape[..]);
    right.layout = right.layout.expanded(&out.shape[..]);
    let collapsible = !left.layout.has_negative_strides() && !right.layout.has_negative_strides();
    let fits = |m: &Machine, handle: &Handle| {
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
    m.release(left);
    m.release(right);
    m.output(out, output);
}

/// Activations are one pass each.
pub(super) fn activation(m: &mut Machine, operation: &OperationIr, activation: &ActivationOperationIr) {
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
        A::LogSoftmax(op) => log_softmax(m, &op.input, &op.out),
        A::Softmax(_) | A::Softmin(_) => Flex::fresh(m, operation),
    }
}

/// Burn composes it: the shifted logits, their exponentials while those are summed, and the result in place.
fn log_softmax(m: &mut Machine, input: &TensorIr, out: &TensorIr) {
    let logits = m.input(input);
    let unique = m.is_unique(&logits) && logits.layout.starts_contiguous();
    let shifted = if unique {
        logits
    } else {
        let shifted = m.allocate(&out.shape[..], out.dtype);
        m.release(logits);
        shifted
    };
    let exponentials = m.allocate(&out.shape[..], out.dtype);
    m.release(exponentials);
    m.output(out, shifted);
}
