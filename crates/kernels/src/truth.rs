//! Numbers for the tests of kernels, and their distance from results in 64 bits.

use burn::tensor::{DType, Device, Tensor, TensorData};
use oomph_core::{Generator, Key};

use crate::{cast, kernels::Kernels};

/// Normal numbers, the same for a name.
pub(crate) fn numbers(count: usize, name: &str) -> Vec<f32> {
    let mut generator = Generator::at(Key::new(7).with_name(name));
    (0..count).map(|_| generator.normal()).collect()
}

/// A tensor of such numbers in the format `dtype`.
pub(crate) fn stored<const D: usize>(name: &str, shape: [usize; D], dtype: DType) -> Tensor<D> {
    let data = TensorData::new(numbers(shape.iter().product(), name), shape);
    cast(Tensor::from_data(data, &Device::flex()), dtype, Kernels::Composed)
}

/// The elements of a tensor.
pub(crate) fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f64> {
    let values = cast(tensor, DType::F32, Kernels::Composed).into_data().try_to_vec::<f32>();
    // The cast gives 32 bits.
    values.expect("the tensor has 32 bits").into_iter().map(f64::from).collect()
}

/// The distance of two vectors relative to the length of the second.
pub(crate) fn distance(found: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(found.len(), expected.len());
    let length = |squares: f64| squares.sqrt();
    let difference = found.iter().zip(expected).map(|(found, expected)| (found - expected).powi(2)).sum();
    length(difference) / length(expected.iter().map(|value| value * value).sum())
}
