//! Convolutions (burn-flex `ops/conv.rs`, `ops/conv_transpose.rs`; backward as composed by burn-backend).

use std::iter;

use burn_backend::DType;
use burn_ir::{Conv2dOpIr, Conv2dOptionsIr, Conv2dWeightBackwardOpIr, Conv2dXBackwardOpIr};

use super::{Flex, gemm::Product, half, operands::contiguous};
use crate::allocator_sim::{AllocatorSim, Handle, element_bytes};

/// Output positions per column tile (`TILE_SIZE`).
const TILE: usize = 512;

impl Flex {
    pub(super) fn conv2d(&self, m: &mut AllocatorSim, op: &Conv2dOpIr) {
        let x = m.input(&op.x);
        let weight = m.input(&op.weight);
        let bias = op.bias.as_ref().map(|bias| m.input(bias));
        let output = self.convolve(m, &x, &weight, &op.options, &op.out.shape[..]);
        m.release_all([x, weight].into_iter().chain(bias));
        m.output(&op.out, output);
    }

    /// The path that Flex chooses by shape, and its buffers.
    fn convolve(
        &self,
        m: &mut AllocatorSim,
        x: &Handle,
        weight: &Handle,
        options: &Conv2dOptionsIr,
        out: &[usize],
    ) -> Handle {
        let dtype = x.dtype;
        let [x, weight] = [half::computed(m, x), half::computed(m, weight)];
        let read = [contiguous(m, &x), contiguous(m, &weight)];
        let path = Path::of(&x.layout.shape, &weight.layout.shape, options, out);
        let output = match path {
            Path::Direct => m.allocate(out, x.dtype),
            Path::Pointwise => {
                let output = m.allocate(out, x.dtype);
                let [rows, inner, columns] =
                    [weight.layout.shape[0] / options.groups, weight.layout.shape[1], out[2] * out[3]];
                let is_fp16 = x.dtype == DType::F16;
                let product = Product { rows, inner, columns, is_fp16, ..Product::default() };
                product.run_each(m, out[0].min(self.threads));
                output
            }
            Path::Tiled => self.tiled(m, &x, &weight, options, out),
        };
        m.release_all(read.into_iter().chain([x, weight]));
        half::narrowed(m, output, dtype)
    }

    /// Weights and input in channels-last order, the output, and a column tile with its product per thread.
    fn tiled(
        &self,
        m: &mut AllocatorSim,
        x: &Handle,
        weight: &Handle,
        options: &Conv2dOptionsIr,
        out: &[usize],
    ) -> Handle {
        let element = element_bytes(x.dtype);
        let bytes = |elements: usize| elements as u64 * element;
        let flat = m.workspace(bytes(weight.layout.elements()));
        let reordered = m.workspace(bytes(x.layout.elements()));
        let output = m.allocate(out, x.dtype);
        let rows = weight.layout.shape[0] / options.groups;
        let inner: usize = weight.layout.shape[1..].iter().product();
        let positions = out[2] * out[3];
        let tiles = out[0] * positions.div_ceil(TILE);
        let columns = positions.min(TILE);
        let at_once = tiles.min(self.threads);
        let buffers = m.workspace(at_once as u64 * bytes((inner + rows) * columns));
        let is_fp16 = x.dtype == DType::F16;
        Product { rows, inner, columns, transposed: true, is_fp16, ..Product::default() }
            .run_each(m, at_once);
        m.release_all([buffers, flat, reordered]);
        output
    }

    /// A transposed convolution of the output's gradient: the columns of one image, reused for all.
    pub(super) fn conv2d_x_backward(&self, m: &mut AllocatorSim, op: &Conv2dXBackwardOpIr) {
        let x = m.input(&op.x);
        let weight = m.input(&op.weight);
        let gradient = m.input(&op.output_grad);
        let computed = [half::computed(m, &gradient), half::computed(m, &weight)];
        let read = computed.each_ref().map(|handle| contiguous(m, handle));
        let output = m.allocate(&op.out.shape[..], computed[0].dtype);
        let rows: usize = weight.layout.shape[1..].iter().product();
        let columns: usize = gradient.layout.shape[2..].iter().product();
        let tile = m.workspace((rows * columns) as u64 * element_bytes(output.dtype));
        let inner = weight.layout.shape[0] / op.options.groups;
        let is_fp16 = output.dtype == DType::F16;
        Product { rows, inner, columns, is_fp16, ..Product::default() }.run(m);
        m.release_all(iter::once(tile).chain(read).chain(computed));
        let output = half::narrowed(m, output, op.out.dtype);
        m.release_all([x, weight, gradient]);
        m.output(&op.out, output);
    }

    /// A convolution of the input with the gradient, batch and channels swapped; its output is a view swapped back.
    pub(super) fn conv2d_weight_backward(&self, m: &mut AllocatorSim, op: &Conv2dWeightBackwardOpIr) {
        let mut x = m.input(&op.x);
        let weight = m.input(&op.weight);
        let mut gradient = m.input(&op.output_grad);
        x.layout = x.layout.swapped(0, 1);
        gradient.layout = gradient.layout.swapped(0, 1);
        let options = Conv2dOptionsIr {
            stride: op.options.dilation,
            padding: op.options.padding,
            dilation: op.options.stride,
            groups: 1,
        };
        let out = &op.out.shape;
        let out = if op.options.groups == 1 { out[..].to_vec() } else { weight.layout.shape.clone() };
        let swapped = backward_shape(&x.layout.shape, &gradient.layout.shape, &options);
        let mut output = self.convolve(m, &x, &gradient, &options, &swapped);
        m.release_all([x, weight, gradient]);
        // If the stride leaves columns over, the output is a slice of the computed tensor.
        output.layout = output.layout.swapped(0, 1);
        output.layout = output.layout.sliced(&[0; 4], &[1; 4], &out);
        m.output(&op.out, output);
    }
}

/// The shape of a convolution's output.
fn backward_shape(x: &[usize], kernel: &[usize], options: &Conv2dOptionsIr) -> [usize; 4] {
    let size = |dim: usize| {
        let padded = x[dim + 2] + 2 * options.padding[dim];
        let span = options.dilation[dim] * (kernel[dim + 2] - 1) + 1;
        (padded.saturating_sub(span)) / options.stride[dim] + 1
    };
    [x[0], kernel[0], size(0), size(1)]
}

/// Flex's path for a convolution.
enum Path {
    /// Directly into the output: depthwise, or few channels.
    Direct,
    /// 1×1: one matrix product per image.
    Pointwise,
    /// Column tiles.
    Tiled,
}

impl Path {
    /// In the order of the branches in `conv3d_f32`.
    fn of(x: &[usize], weight: &[usize], options: &Conv2dOptionsIr, out: &[usize]) -> Self {
        let one = weight[2..] == [1, 1];
        if one && options.stride == [1, 1] && options.padding == [0, 0] {
            return Self::Pointwise;
        }
        let depthwise = weight[1] == 1 && options.groups == x[1] && weight[0] == x[1];
        let few = options.groups == 1 && x[1] <= 4 && weight[0] <= 16;
        let line = options.groups == 1
            && options.padding == [0, 0]
            && options.dilation == [1, 1]
            && weight[2] == 1
            && x[2] == 1
            && x[1] >= 32
            && weight[3] <= 8
            && out[3] <= 800;
        if depthwise || few || line { Self::Direct } else { Self::Tiled }
    }
}
