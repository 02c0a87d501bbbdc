//! Operations on all gradients of a model. On a GPU they are few launches; elsewhere they are one operation for each tensor.

use burn::tensor::Tensor;
use burn_backend::DType;

use crate::{
    any_tensor::AnyTensor,
    custom_op::CustomOp,
    gpu::{self, on_gpu},
    kernels::Kernels,
};

/// A number to multiply with.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "one lives for a moment")]
pub enum Factor {
    /// One that the host knows.
    Number(f32),
    /// An element on the device, where it stays.
    Element(Tensor<1>),
}

/// The sum of the squares of all elements of all tensors, as one element on the device; `None` without tensors. The order of
/// summation is fixed.
///
/// # Panics
/// Panics if the tensors are not of 32 bits, or on another device than that of `kernels` and no capture device.
pub fn sum_of_squares(tensors: &[&AnyTensor], kernels: Kernels) -> Option<Tensor<1>> {
    sum(tensors, kernels, "sum_of_squares", AnyTensor::sum_of_squares)
}

/// One element on the device: 0 if all elements of all tensors are finite, else NaN. `None` without tensors.
///
/// # Panics
/// As [`sum_of_squares`].
pub fn zero_if_finite(tensors: &[&AnyTensor], kernels: Kernels) -> Option<Tensor<1>> {
    sum(tensors, kernels, FINITE, AnyTensor::zero_if_finite)
}

/// The operation of [`zero_if_finite`].
const FINITE: &str = "zero_if_finite";

fn sum(
    tensors: &[&AnyTensor],
    kernels: Kernels,
    name: &'static str,
    of_one: fn(AnyTensor) -> Tensor<1>,
) -> Option<Tensor<1>> {
    if kernels != Kernels::Gpu {
        return tensors.iter().map(|tensor| of_one((*tensor).clone())).reduce(|sum, one| sum + one);
    }
    let partial_sums = oomph_gpu_kernels::tensor_sums(tensors.iter().map(|tensor| tensor.elements()));
    let inputs = tensors.iter().map(|tensor| (*tensor).clone()).collect::<Vec<_>>();
    if inputs.is_empty() {
        return None;
    }
    let operation = CustomOp { name, inputs, outputs: vec![(vec![1], DType::F32)], in_place: 0 };
    Some(gpu::one(on_gpu!(operation, [partial_sums], |inputs| {
        let term = match name {
            FINITE => oomph_gpu_kernels::gradients::Term::Finite,
            _ => oomph_gpu_kernels::gradients::Term::Square,
        };
        oomph_gpu_kernels::gradients::sum(inputs, term).into_iter().collect()
    })))
}

/// All tensors times `factor`, on a GPU. They overwrite the old ones where nobody else holds those.
///
/// # Panics
/// Panics if the tensors are not of 32 bits, or neither on one GPU nor on a capture device.
pub fn scale_on_gpu(tensors: Vec<AnyTensor>, factor: Factor) -> Vec<AnyTensor> {
    if tensors.is_empty() {
        return tensors;
    }
    let in_place = tensors.len();
    let outputs = tensors.iter().map(|tensor| (tensor.dims(), DType::F32)).collect();
    let mut inputs = tensors;
    #[cfg_attr(not(feature = "gpu"), expect(unused_variables, reason = "only the GPU's kernel reads it"))]
    let number = match factor {
        Factor::Number(number) => Some(number),
        Factor::Element(element) => {
            inputs.push(element.into());
            None
        }
    };
    let operation = CustomOp { name: "scale_all", inputs, outputs, in_place };
    on_gpu!(operation, [], |inputs| {
        let mut tensors = inputs;
        let factor = match (number, tensors.split_off(in_place).pop()) {
            (_, Some(element)) => oomph_gpu_kernels::gradients::Factor::Element(element),
            (number, None) => oomph_gpu_kernels::gradients::Factor::Number(number.unwrap_or(1.0)),
        };
        oomph_gpu_kernels::gradients::scale(tensors, &factor)
    })
}
