use burn::tensor::{FloatDType, Tensor};
use burn_backend::DType;

use super::{
    Kernels, Own,
    rows::{BLOCK, change_rows},
};

/// The elements of a plain tensor in another float format, rounded to the nearest.
///
/// Burn's own cast on the CPU goes through 64 bits for every element.
pub(crate) fn cast<const D: usize>(tensor: Tensor<D>, dtype: DType, kernels: Kernels) -> Tensor<D> {
    if tensor.dtype() == dtype {
        return tensor;
    }
    match (kernels, dtype) {
        (Kernels::Own, _) => {
            let operation = Own {
                name: "cast",
                outputs: vec![(tensor.dims().to_vec(), dtype)],
                inputs: vec![tensor.into()],
                in_place: 0,
            };
            operation.run_one(|mut inputs| change_rows(inputs.swap_remove(0), dtype, BLOCK, |_, _| {}))
        }
        (Kernels::Composed, DType::BF16) => tensor.cast(FloatDType::BF16),
        (Kernels::Composed, DType::F16) => tensor.cast(FloatDType::F16),
        (Kernels::Composed, _) => tensor.cast(FloatDType::F32),
    }
}
