//! Convolutions (burn-flex `ops/conv.rs`, `ops/conv_transpose.rs`; backward as composed by burn-backend).

use burn_backend::DType;
use burn_ir::{Conv2dOpIr, Conv2dOptionsIr, Conv2dWeightBackwardOpIr, Conv2dXBackwardOpIr};

use super::{Flex, gemm::Product, half, operands::contiguous};
use crate::allocator_sim::{AllocatorSim, Handle, element_bytes};

/// Output positions per column tile (`TILE_SIZE`).
const TILE: usize = 512;

impl Flex {
    pub(super) fn conv2d(&mut self, m: &mut AllocatorSim, op: &Conv2dOpIr) {
        let x = m.input(&op.x);
        let weight = m.input(&op.weight);
        let bias = op.bias.as_ref().map(|bias| m.input(bias));
        let output = self.convolve(m, &x, &weight, &op.options, &op.out.shape[..]);
        for handle in [Some(x), Some(weight), bias].into_iter().flatten() {
            m.release(handle);
        }
        m.output(&op.out, output);
    }

    /// The path that Flex chooses by shape, and its buffers.
    fn convolve(
        &mut self,
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
                let product =
                    Product { rows, inner, columns, transposed: false, left_is_strided: false, is_fp16 };
                self.gemm.run_each(m, product, out[0].min(self.threads));
                output
            }
            Path::Tiled => self.tiled(m, &x, &weight, options, out),
        };
        for handle in read.into_iter().chain([x, weight]) {
            m.release(handle);
        }
        half::narrowed(m, output, dtype)
    }

    /// Weights and input in channels-last order, the output, and a column tile with its product per thread.
    fn tiled(
        &mut self,
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
        self.gemm.run_each(
            m,
            Product {
                rows,
                inner,
                columns,
                transposed: true,
                left_is_strided: false,
                is_fp16: x.dtype == DType::F16,
            },
            at_once,
        );
        m.release(buffers);
        m.release(flat);
        m.release(reordered);
        output
    }

    /// A transposed convolution of the output's gradient: the columns of one image, reused for all.
    pub(super) fn conv2d_x_backward(&mut self, m: &mut AllocatorSim, op: &Conv2dXBackwardOpIr) {
        let x = m.input(&op.x);
        let weight = m.input(&op.weight);
        let gradient = m.input(&op.output_grad);
        let computed = [half::computed(m, &gradient), half::computed(m, &weight)];
        let read = computed.each_ref().map(|handle| contiguous(m, handle));
        let output = m.allocate(&op.out.shape[..], computed[0].dtype);
        let column_rows: usize = weight.layout.shape[1..].iter().product();
        let positions: usize = gradient.layout.shape[2..].iter().product();
        let columns = m.workspace((column_rows * positions) as u64 * element_bytes(output.dtype));
        let inner = weight.layout.shape[0] / op.options.groups;
        let product = Product {
            rows: column_rows,
            inner,
            columns: positions,
            transposed: false,
            left_is_strided: false,
            is_fp16: output.dtype == DType::F16,
        };
        self.gemm.run(m, product);
        m.release(columns);
        for handle in read.into_iter().chain(computed) {
            m.release(handle);
        }
        let output = half::narrowed(m, output, op.out.dtype);
        for handle in [x, weight, gradient] {
            m.release(handle);
        }
        m.output(&op.out, output);
    }

    /// A convolution of the input with the gradient, batch and channels swapped; its output is a view swapped back.
    pub(super) fn conv2d_weight_backward(&mut self, m: &mut AllocatorSim, op: &Conv2dWeightBackwardOpIr) {
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
        for handle in [x, weight, gradient] {
            m.release(handle);
        }
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
