//! Tensors and their gradients as plain numbers.

use burn::tensor::{Gradients, Tensor};
use oomph_engine::record::model_record;
use oomph_model::{AnyTensor, Stages};

/// All elements, in row-major order.
pub(crate) fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    AnyTensor::from(tensor).to_host().expect("the CPU does not fail")
}

/// The one element of a loss.
pub(crate) fn scalar(tensor: Tensor<1>) -> f64 {
    match values(tensor)[..] {
        [value] => value.into(),
        ref others => panic!("a loss is one number, not {}", others.len()),
    }
}

/// The gradient of a leaf.
pub(crate) fn gradient<const D: usize>(leaf: &Tensor<D>, gradients: &Gradients) -> Vec<f32> {
    values(leaf.grad(gradients).expect("the loss depends on the leaf"))
}

/// All parameters and running statistics by name, to the bit.
pub(crate) fn parameter_bits(model: &Stages) -> Vec<(String, Vec<u32>)> {
    let record = model_record(model).expect("the CPU does not fail");
    let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect();
    record.into_iter().map(|(name, tensor)| (name, bits(tensor.values))).collect()
}
