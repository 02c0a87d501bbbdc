use burn::tensor::{DType, Tensor};
use oomph_config::Precision;
use oomph_kernels::{Kernels, cast_in_graph};

/// How layers compute: the part of the memory policy that they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The format of convolutions, matrix products and tensors kept for backward. Parameters, statistics, sums and losses
    /// always have 32 bits.
    pub precision: Precision,
    /// Whether layers use our own backward passes, which keep less than those of Burn's operations.
    pub lean: bool,
    /// The kernels that run operations.
    pub kernels: Kernels,
    /// Whether the running stage recomputes its activations in backward, by itself if it
    /// [can](crate::Stage::recomputes_itself).
    pub recompute: bool,
}

impl Default for Policy {
    /// 32 bits, lean, on any device, without recompute.
    fn default() -> Self {
        Self { precision: Precision::Fp32, lean: true, kernels: Kernels::Composed, recompute: false }
    }
}

impl Policy {
    /// The format of activations.
    pub fn dtype(&self) -> DType {
        match self.precision {
            Precision::Fp32 => DType::F32,
            Precision::Bf16 => DType::BF16,
            Precision::Fp16 => DType::F16,
        }
    }

    /// `tensor` in the format of activations.
    pub fn narrow<const D: usize>(&self, tensor: Tensor<D>) -> Tensor<D> {
        cast_in_graph(tensor, self.dtype(), self.kernels)
    }

    /// `tensor` in 32 bits.
    pub fn widen<const D: usize>(&self, tensor: Tensor<D>) -> Tensor<D> {
        cast_in_graph(tensor, DType::F32, self.kernels)
    }
}
