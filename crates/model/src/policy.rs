use burn::tensor::{DType, Tensor};
use oomph_config::Precision;

use crate::{
    AnyTensor, autodiff, differentiable,
    kernel::{self, Kernels},
};

/// How layers compute: what of the memory policy they know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The format that convolutions, matrix products and what is kept for backward have. Parameters, statistics, sums
    /// and losses have 32 bits in any.
    pub precision: Precision,
    /// Whether layers have backward passes of our own, that keep less than those of Burn's operations.
    pub lean: bool,
    /// Which kernels there are.
    pub kernels: Kernels,
    /// Whether the stage that runs computes its activations again in backward, by itself where it
    /// [can](crate::Stage::recomputes_itself).
    pub recompute: bool,
}

impl Default for Policy {
    /// 32 bits, lean, on any device.
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
        self.to(tensor, self.dtype())
    }

    /// `tensor` in 32 bits.
    pub fn widen<const D: usize>(&self, tensor: Tensor<D>) -> Tensor<D> {
        self.to(tensor, DType::F32)
    }

    /// A cast that gradients go back through, into the format they came from.
    fn to<const D: usize>(&self, tensor: Tensor<D>, dtype: DType) -> Tensor<D> {
        let (before, kernels) = (tensor.dtype(), self.kernels);
        if before == dtype {
            return tensor;
        }
        let output = kernel::cast(autodiff::inner(tensor.clone()), dtype, kernels);
        let output = differentiable([tensor.into()], output.into(), move |gradient, _| {
            [gradient.float::<D>().map(|gradient| kernel::cast(gradient, before, kernels).into())]
        });
        ranked(output)
    }
}

/// The tensor of rank `D` that an operation of ours has just made.
pub(crate) fn ranked<const D: usize>(tensor: AnyTensor) -> Tensor<D> {
    // Operations know the rank of what they make.
    tensor.float().expect("an operation gives the rank that its formula has")
}
