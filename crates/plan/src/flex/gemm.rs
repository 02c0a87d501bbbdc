//! Matrix products (burn-flex `ops/matmul.rs`; gemm-common 0.19 `gemm_basic_generic`).
//!
//! Small products use no memory. Others pack operands whose layout the kernels do not support, for the time of the call,
//! or use one buffer per thread, of the size of its L2 cache, which is never freed. Products of fp16 (gemm-f16 0.19) widen
//! the right operand to 32 bits in every case.

use burn_backend::DType;
use burn_ir::{LinearOpIr, LinearWeightBackwardOpIr, LinearXBackwardOpIr, TensorIr};
use gemm_common::cache::{CACHE_INFO, kernel_params};

use super::{
    Flex, half,
    operands::{contiguous, empty, reshaped},
};
use crate::{
    allocator_sim::{AllocatorSim, Handle},
    layout::Layout,
};

/// A product of `rows × inner` by `inner × columns` into row-major storage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Product {
    pub(super) rows: usize,
    pub(super) inner: usize,
    pub(super) columns: usize,
    /// Whether the right operand is column-major.
    pub(super) transposed: bool,
    /// Whether neighbours in a row of the left operand are apart, as in a transposed one.
    pub(super) left_is_strided: bool,
    /// Whether the operands are of fp16.
    pub(super) is_fp16: bool,
}

/// Products with more multiply-adds use all threads (`PARALLEL_THRESHOLD`).
const PARALLEL: usize = 192 * 192 * 192;

/// Rows and columns of a kernel's tile, and floats of a vector register.
struct Tile {
    rows: usize,
    columns: usize,
    lanes: usize,
}

/// The tile of fp32 kernels on this machine (gemm-f32 `microkernel.rs`).
fn tile() -> Tile {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return Tile { rows: 64, columns: 6, lanes: 16 };
        }
        if std::arch::is_x86_feature_detected!("fma") {
            return Tile { rows: 24, columns: 4, lanes: 8 };
        }
    }
    Tile { rows: 16, columns: 4, lanes: 4 }
}

/// Allocates the permanent buffers: one per compute thread and one for the training thread. The trainer allocates them when
/// it opens the CPU, so call this before the first operation.
pub(super) fn keep_buffers(m: &mut AllocatorSim, threads: usize) {
    m.keep((CACHE_INFO[1].cache_bytes * threads) as u64, "gemm packing buffers");
}

fn pack(m: &mut AllocatorSim, bytes: u64) {
    if bytes > 0 {
        let packed = m.workspace(bytes);
        m.release(packed);
    }
}

impl Product {
    /// A product of the training thread.
    pub(super) fn run(self, m: &mut AllocatorSim) {
        let parallel = self.rows.saturating_mul(self.inner).saturating_mul(self.columns) >= PARALLEL;
        pack(m, self.packed_bytes(parallel));
    }

    /// Products that run `at_once` at a time, each on a compute thread.
    pub(super) fn run_each(self, m: &mut AllocatorSim, at_once: usize) {
        pack(m, self.packed_bytes(false) * at_once as u64);
    }

    /// Bytes packed for the time of the call, beyond the thread's permanent buffer.
    fn packed_bytes(self, parallel: bool) -> u64 {
        let Self { rows, inner, columns, transposed, left_is_strided, is_fp16 } = self;
        // Into row-major storage the product is computed transposed.
        let (m, n, k) = (columns, rows, inner);
        let vector = m <= 1 || n <= 1;
        let small = !is_fp16 && !transposed && m * n <= 16 * 16;
        if k <= 2 || vector || small {
            return 0;
        }
        let tile = tile();
        let (kc, mc, nc) = if m <= 64 && n <= 64 && !is_fp16 {
            let kc = k.min(512);
            let rows = CACHE_INFO[1].cache_bytes / 4 / kc / tile.rows * tile.rows;
            (kc, rows, n.next_multiple_of(tile.columns))
        } else {
            let params = kernel_params(m, n, k, tile.rows, tile.columns, 4);
            (params.kc, params.mc, params.nc)
        };
        let nc = match (nc, parallel) {
            (0, true) => n.next_multiple_of(tile.columns),
            (0, false) => 128 * tile.columns,
            (nc, _) => nc,
        };
        let packs_right = is_fp16 || m > if left_is_strided { 2 } else { 128 } * tile.rows;
        let packs_left = m <= 2 * mc && (!m.is_multiple_of(tile.lanes) || transposed);
        let right = if packs_right { kc * tile.columns * (nc / tile.columns) } else { 0 };
        let left = if packs_left { kc * m.next_multiple_of(tile.rows) } else { 0 };
        (right + left) as u64 * 4
    }
}

impl Flex {
    /// Batched or not: one output; operands are read in their layout.
    pub(super) fn matmul(&self, m: &mut AllocatorSim, lhs: &TensorIr, rhs: &TensorIr, out: &TensorIr) {
        let left = m.input(lhs);
        let right = m.input(rhs);
        let output = self.product(m, &left, &right, &out.shape[..], out.dtype);
        m.release_all([left, right]);
        m.output(out, output);
    }

    fn product(
        &self,
        m: &mut AllocatorSim,
        left: &Handle,
        right: &Handle,
        out: &[usize],
        dtype: DType,
    ) -> Handle {
        // The contiguous copies of bf16 operands are widened, and live to the end of the call.
        let narrow: Vec<_> = [left, right]
            .into_iter()
            .filter(|side| side.dtype == DType::BF16)
            .map(|side| contiguous(m, side))
            .collect();
        let [left, right] = [half::computed(m, left), half::computed(m, right)];
        let output = empty(m, out, left.dtype);
        let rank = out.len();
        let product = Product {
            rows: out[rank - 2],
            columns: out[rank - 1],
            inner: left.layout.shape.last().copied().unwrap_or(1),
            transposed: right.layout.strides.last().is_some_and(|stride| *stride != 1),
            left_is_strided: left.layout.strides.last().is_some_and(|stride| *stride != 1),
            is_fp16: left.dtype == DType::F16,
        };
        let batch: usize = out[..rank - 2].iter().product();
        if batch > 1 {
            product.run_each(m, batch.min(self.threads));
        } else {
            product.run(m);
        }
        m.release_all([left, right]);
        let output = half::narrowed(m, output, dtype);
        m.release_all(narrow);
        output
    }

    /// A product, then the bias added in place.
    pub(super) fn linear(&self, m: &mut AllocatorSim, op: &LinearOpIr) {
        let bias = op.bias.as_ref().map(|bias| m.input(bias));
        let x = m.input(&op.x);
        let weight = m.input(&op.weight);
        self.linear_of(m, x, weight, &op.out);
        m.release_all(bias);
    }

    /// `linear` against the transposed weight.
    pub(super) fn linear_x_backward(&self, m: &mut AllocatorSim, op: &LinearXBackwardOpIr) {
        let mut weight = m.input(&op.weight);
        weight.layout = weight.layout.swapped(0, 1);
        let gradient = m.input(&op.output_grad);
        self.linear_of(m, gradient, weight, &op.out);
    }

    /// Leading dimensions are folded into rows, which copies operands that are not contiguous.
    fn linear_of(&self, m: &mut AllocatorSim, x: Handle, weight: Handle, out: &TensorIr) {
        let x = flattened(m, x);
        let features = out.shape[out.shape.len() - 1];
        let rows = out.shape.num_elements() / features.max(1);
        let mut output = self.product(m, &x, &weight, &[rows, features], out.dtype);
        m.release_all([x, weight]);
        output.layout = Layout::contiguous(&out.shape[..]);
        m.output(out, output);
    }

    /// `xᵀ · gradient` over all rows.
    pub(super) fn linear_weight_backward(&self, m: &mut AllocatorSim, op: &LinearWeightBackwardOpIr) {
        let x = m.input(&op.x);
        let mut x = flattened(m, x);
        x.layout = x.layout.swapped(0, 1);
        let gradient = m.input(&op.output_grad);
        let gradient = flattened(m, gradient);
        let output = self.product(m, &x, &gradient, &op.out.shape[..], op.out.dtype);
        m.release_all([x, gradient]);
        m.output(&op.out, output);
    }
}

/// The handle with its leading dimensions folded into rows.
fn flattened(m: &mut AllocatorSim, handle: Handle) -> Handle {
    if handle.layout.shape.len() == 2 {
        return handle;
    }
    let last = handle.layout.shape.last().copied().unwrap_or(1).max(1);
    let rows = handle.layout.elements() / last;
    reshaped(m, handle, &[rows, last])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_fp16_widen_the_right_operand() {
        let fp32 = Product { rows: 288, inner: 128, columns: 320, ..Product::default() };
        assert_eq!(fp32.packed_bytes(true), 0);
        let fp16 = Product { is_fp16: true, ..fp32 };
        assert_eq!(fp16.packed_bytes(true), 4 * 288 * 128);
    }
}
