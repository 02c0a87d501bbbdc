//! Element-wise operations: in place if the storage has no other reference and elements do not share places (`can_mut`,
//! `can_mut_broadcast`), else into a new tensor with padded rows. Activations are composed of them (burn-backend
//! `activation.rs`).

use burn_backend::DType;
use burn_ir::{ActivationOperationIr, ScalarOpIr, TensorIr};

use super::{instead, reduce};
use crate::allocator_sim::{AllocatorSim, Handle};

/// `launch_unary_*`, `launch_scalar_binop`, `launch_scalar_cmp`.
pub(super) fn unary(m: &mut AllocatorSim, input: &TensorIr, out: &TensorIr) {
    let input = m.input(input);
    let output = changed(m, input, out.dtype);
    m.output(out, output);
}

/// The result of an element-wise operation on one tensor.
fn changed(m: &mut AllocatorSim, input: Handle, dtype: DType) -> Handle {
    if input.dtype == dtype && m.is_unique(&input) && input.layout.is_writable() {
        return input;
    }
    let output = m.allocate(&input.layout.shape.clone(), dtype);
    m.release(input);
    output
}

/// `launch_binop`, `launch_cmp`: into the left operand, else into the right one, else into a new tensor.
pub(super) fn binary(m: &mut AllocatorSim, lhs: &TensorIr, rhs: &TensorIr, out: &TensorIr) {
    let [left, right] = [m.input(lhs), m.input(rhs)];
    let output = combined(m, left, right, out.dtype);
    m.output(out, output);
}

fn combined(m: &mut AllocatorSim, left: Handle, right: Handle, dtype: DType) -> Handle {
    let covers = |m: &AllocatorSim, place: &Handle, other: &Handle| {
        let mut sizes = place.layout.shape.iter().zip(&other.layout.shape);
        let covers = sizes.all(|(size, other)| size >= other);
        place.dtype == dtype && m.is_unique(place) && place.layout.is_writable() && covers
    };
    if covers(m, &left, &right) {
        m.release(right);
        return left;
    }
    if covers(m, &right, &left) {
        m.release(left);
        return right;
    }
    let sizes = left.layout.shape.iter().zip(&right.layout.shape);
    let shape: Vec<usize> = sizes.map(|(left, right)| *left.max(right)).collect();
    let output = m.allocate(&shape, dtype);
    m.release_all([left, right]);
    output
}

/// `mask_fill_auto`.
pub(super) fn masked(m: &mut AllocatorSim, input: &TensorIr, mask: &TensorIr, out: &TensorIr) {
    let mask = m.input(mask);
    unary(m, input, out);
    m.release(mask);
}

/// x², x⁻¹ and the like are composed of other operations; x² reads x twice, so it is never in place.
pub(super) fn power(m: &mut AllocatorSim, op: &ScalarOpIr) {
    let exponent = op.rhs.elem::<f64>();
    let input = m.input(&op.lhs);
    let output = match exponent {
        1.0 => input,
        2.0 | -2.0 => instead(m, input, &op.out.shape[..]),
        _ => changed(m, input, op.out.dtype),
    };
    m.output(&op.out, output);
}

/// The type of a mask.
const MASK: DType = DType::U8;

/// A mask of the tensor's elements, then an operation on `changed` by it.
fn by_mask(m: &mut AllocatorSim, of: Handle, other: Option<Handle>) -> Handle {
    let mask = m.allocate(&of.layout.shape.clone(), MASK);
    let place = match other {
        Some(other) => {
            m.release(of);
            other
        }
        None => of,
    };
    let dtype = place.dtype;
    let output = changed(m, place, dtype);
    m.release(mask);
    output
}

pub(super) fn activation(m: &mut AllocatorSim, activation: &ActivationOperationIr) {
    use ActivationOperationIr as A;
    let (output, out) = match activation {
        A::Relu(op) => {
            let input = m.input(&op.input);
            (by_mask(m, input, None), &op.out)
        }
        A::ReluBackward(op) => {
            let [output, gradient] = [m.input(&op.lhs), m.input(&op.rhs)];
            (by_mask(m, output, Some(gradient)), &op.out)
        }
        A::Sigmoid(op) => (through_32_bits(m, &op.input), &op.out),
        A::HardSigmoid(op) => (through_32_bits(m, &op.tensor), &op.out),
        A::Softmax(op) => {
            let shifted = shifted(m, &op.input, op.axis);
            let sum = reduce::reduced(m, &shifted, op.axis);
            m.release(sum);
            (shifted, &op.out)
        }
        A::LogSoftmax(op) => {
            let shifted = shifted(m, &op.input, op.axis);
            let exponentials = m.allocate(&shifted.layout.shape.clone(), shifted.dtype);
            let sum = reduce::reduced(m, &exponentials, op.axis);
            m.release_all([exponentials, sum]);
            (shifted, &op.out)
        }
        A::Softmin(op) => (shifted(m, &op.input, op.axis), &op.out),
        // Two passes: a factor in new memory, then the product in one of both.
        A::Gelu(op) | A::LogSigmoid(op) => {
            let input = m.input(&op.input);
            (by_factor(m, input), &op.out)
        }
        A::LeakyRelu(op) => {
            let input = m.input(&op.lhs);
            (by_factor(m, input), &op.out)
        }
        A::SigmoidBackward(op) | A::PRelu(op) | A::GeluBackward(op) | A::LogSigmoidBackward(op) => {
            let [left, right] = [m.input(&op.lhs), m.input(&op.rhs)];
            let factor = by_factor(m, left);
            let dtype = factor.dtype;
            (combined(m, factor, right, dtype), &op.out)
        }
    };
    m.output(out, output);
}

fn by_factor(m: &mut AllocatorSim, input: Handle) -> Handle {
    let factor = m.allocate(&input.layout.shape.clone(), input.dtype);
    let dtype = input.dtype;
    combined(m, input, factor, dtype)
}

/// In place for 32 bits; else on a copy of 32 bits.
fn through_32_bits(m: &mut AllocatorSim, input: &TensorIr) -> Handle {
    let input = m.input(input);
    let dtype = input.dtype;
    let wide = if dtype == DType::F32 { changed(m, input, dtype) } else { changed(m, input, DType::F32) };
    if dtype == DType::F32 { wide } else { changed(m, wide, dtype) }
}

/// The input less its largest element along the axis.
fn shifted(m: &mut AllocatorSim, input: &TensorIr, axis: usize) -> Handle {
    let input = m.input(input);
    let most = reduce::reduced(m, &input, axis);
    let dtype = input.dtype;
    combined(m, input, most, dtype)
}
