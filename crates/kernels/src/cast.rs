use burn::tensor::{FloatDType, Tensor};
use burn_backend::DType;

use crate::{
    any_tensor::{AnyTensor, ranked, with_rank},
    blocks::{ByClosure, change_rows},
    custom_op::CustomOp,
    differentiable::differentiable,
    gpu::{self, on_gpu},
    graph,
    kernels::Kernels,
    stored_float::BLOCK,
};

/// A plain tensor in another float format, rounded to the nearest.
///
/// Burn's own cast on the CPU converts every element by way of 64 bits.
pub fn cast<const D: usize>(tensor: Tensor<D>, dtype: DType, kernels: Kernels) -> Tensor<D> {
    if tensor.dtype() == dtype {
        return tensor;
    }
    match (kernels, dtype) {
        (Kernels::Cpu, _) => CustomOp::change("cast", tensor, [], dtype, |tensor, _| {
            change_rows(tensor, dtype, BLOCK, ByClosure(|_, _| {}))
        }),
        (Kernels::Gpu, _) => {
            let operation = CustomOp::changing("cast", tensor, [], dtype);
            gpu::one(on_gpu!(operation, [], |inputs| {
                inputs.into_iter().map(|input| oomph_gpu_kernels::cast(input, dtype)).collect()
            }))
        }
        (Kernels::Composed, DType::BF16) => tensor.cast(FloatDType::BF16),
        (Kernels::Composed, DType::F16) => tensor.cast(FloatDType::F16),
        (Kernels::Composed, _) => tensor.cast(FloatDType::F32),
    }
}

/// A cast in the autodiff graph: the gradient is cast back to the format of `tensor`.
pub fn cast_in_graph<const D: usize>(tensor: Tensor<D>, dtype: DType, kernels: Kernels) -> Tensor<D> {
    let before = tensor.dtype();
    if before == dtype {
        return tensor;
    }
    let output = cast(graph::inner(tensor.clone()), dtype, kernels);
    let output = differentiable([tensor.into()], output.into(), move |gradient, _| {
        [gradient.float::<D>().map(|gradient| cast(gradient, before, kernels).into())]
    });
    ranked(output)
}

impl AnyTensor {
    /// The tensor in 32 bits, the format in which losses are computed. Integers are returned as they are.
    #[must_use]
    pub fn widened(self, kernels: Kernels) -> Self {
        if !self.is_float() {
            return self;
        }
        with_rank!(self, tensor => cast_in_graph(tensor, DType::F32, kernels).into())
    }
}
