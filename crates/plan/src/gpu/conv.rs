//! Convolutions (burn-cubecl `kernel/conv/`; cubek-convolution `SimpleSyncCyclic`). Kernels read channels-last memory: an
//! operand whose channels are not the innermost is copied for the time of the kernel. Outputs lie channels-last.

use burn_backend::Shape;
use burn_ir::TensorIr;

use super::{
    layouts::channels_last,
    views::{packed, reshaped},
};
use crate::{
    allocator_sim::{AllocatorSim, Handle},
    layout::Layout,
};

/// The convolution of `[x, weight]`: by an implicit matrix product or directly, which allocate the same.
pub(super) fn forward(
    m: &mut AllocatorSim,
    operands: [&TensorIr; 2],
    bias: Option<&TensorIr>,
    out: &TensorIr,
) {
    let operands = operands.map(|ir| m.input(ir));
    let bias = bias.map(|ir| m.input(ir));
    let output = images(m, operands, out);
    m.release_all(bias);
    m.output(out, output);
}

/// A channels-last output of two operands, read channels-last.
fn images(m: &mut AllocatorSim, operands: [Handle; 2], out: &TensorIr) -> Handle {
    let mut output = m.allocate(&channels_last(&out.shape[..]), out.dtype);
    let copies = operands.each_ref().map(|operand| copied(m, operand, operand.layout.channels_last()));
    m.release_all(copies.into_iter().flatten().chain(operands));
    output.layout = output.layout.channels_first();
    output
}

/// A copy, if the last dimension of the view is not the innermost in memory.
fn copied(m: &mut AllocatorSim, operand: &Handle, view: Layout) -> Option<Handle> {
    let is_innermost = view.strides.last() == Some(&1);
    (!is_innermost).then(|| m.allocate(&view.shape, operand.dtype))
}

/// The input's gradient of `[gradient, weight]` (`conv2d_input_backward` of oomph-gpu-kernels).
pub(super) fn input_backward(m: &mut AllocatorSim, operands: [&TensorIr; 2], out: &TensorIr) {
    let [gradient, weight] = operands.map(|ir| m.input(ir));
    let sizes = &out.shape[2..];
    if !is_strided(&gradient, sizes) {
        let output = images(m, [gradient, weight], out);
        return m.output(out, output);
    }
    if weight.layout.shape[2] > 1 {
        let gradient = spread(m, gradient, sizes);
        let output = images(m, [gradient, weight], out);
        return m.output(out, output);
    }
    // Pixels between the strides have no gradient: they are left out until the end.
    let reached = [&out.shape[..2], &gradient.layout.shape[2..]].concat();
    let reached = TensorIr { shape: Shape::from(reached), ..out.clone() };
    let output = images(m, [gradient, weight], &reached);
    let output = spread(m, output, sizes);
    m.output(out, output);
}

/// The weight's gradient of `[x, gradient]` (`conv2d_weight_backward` of oomph-gpu-kernels), with partial sums of `bytes`.
pub(super) fn weight_backward(m: &mut AllocatorSim, operands: [&TensorIr; 2], bytes: u64, out: &TensorIr) {
    let operands = operands.map(|ir| {
        let mut operand = m.input(ir);
        operand.layout = operand.layout.channels_last();
        packed(m, operand)
    });
    let partial = m.workspace(bytes);
    let output = m.allocate_packed(&out.shape[..], out.dtype);
    m.release_all(operands.into_iter().chain([partial]));
    m.output(out, output);
}

/// Whether a convolution with this gradient of its output moves its window by more than one pixel. The operation does not
/// tell, but images of at most half the size do.
fn is_strided(gradient: &Handle, input: &[usize]) -> bool {
    gradient.layout.shape[2..].iter().zip(input).any(|(output, input)| *input > 1 && output * 2 <= input + 1)
}

/// The image with zeros between its pixels, of the size of the convolution's input: its windows reach the same pixels with
/// stride 1 where the padding keeps sizes. It is read and written channels-last, in packed rows.
fn spread(m: &mut AllocatorSim, mut image: Handle, sizes: &[usize]) -> Handle {
    image.layout = image.layout.channels_last();
    let image = packed(m, image);
    let [batch, .., channels] = image.layout.shape[..] else { return image };
    let shape = [&[batch], sizes, &[channels]].concat();
    let mut output = m.allocate_packed(&shape, image.dtype);
    m.release(image);
    output.layout = output.layout.channels_first();
    output
}

/// The weight's gradient of `[x, weight, gradient]` as Burn composes it without tuning: a convolution of images whose batch
/// and channels are swapped (`conv_weight_backward_fallback`).
pub(super) fn weight_by_images(m: &mut AllocatorSim, operands: [&TensorIr; 3], out: &TensorIr) {
    let [x, weight, gradient] = operands.map(|ir| m.input(ir));
    // `[B, …, C]` with B and C swapped is `[C, …, B]`.
    let swapped = |handle: &Handle| {
        let view = handle.layout.channels_last();
        let last = view.shape.len() - 1;
        view.swapped(0, last)
    };
    let copies = [&x, &gradient].map(|handle| copied(m, handle, swapped(handle)));
    let mut shape = channels_last(&out.shape[..]);
    let last = shape.len() - 1;
    shape.swap(0, last);
    let mut output = m.allocate(&shape, out.dtype);
    m.release_all(copies.into_iter().flatten().chain([x, weight, gradient]));
    output.layout = output.layout.swapped(0, last).channels_first();
    m.output(out, output);
}

/// The bias' gradient of `[x, bias, gradient]`: the gradient with its channels first, joined into rows, and their sums.
pub(super) fn bias_backward(m: &mut AllocatorSim, operands: [&TensorIr; 3], out: &TensorIr) {
    let [x, bias, mut gradient] = operands.map(|ir| m.input(ir));
    let channels = gradient.layout.shape[1];
    let row = gradient.layout.elements() / channels.max(1);
    gradient.layout = gradient.layout.swapped(0, 1);
    let rows = reshaped(m, gradient, &[channels, row]);
    let output = m.allocate_packed(&[channels, 1], out.dtype);
    m.release_all([x, bias, rows]);
    let output = reshaped(m, output, &out.shape[..]);
    m.output(out, output);
}
