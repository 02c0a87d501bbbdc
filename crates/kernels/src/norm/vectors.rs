use burn::tensor::Tensor;

use crate::any_tensor::AnyTensor;

/// The outputs of an operation as tensors of rank 1.
pub(super) fn vectors<const N: usize>(outputs: Vec<AnyTensor>) -> [Tensor<1>; N] {
    let vectors: Vec<Tensor<1>> = outputs.into_iter().filter_map(AnyTensor::float).collect();
    // The operation declares exactly the requested vectors.
    vectors.try_into().expect("the operation gives vectors")
}

/// The sum of values in a fixed order, in 16 lanes.
#[inline]
pub(super) fn sum(values: &[f32]) -> f64 {
    const LANES: usize = 16;
    let mut lanes = [0.0f32; LANES];
    let whole = values.chunks_exact(LANES);
    for (lane, value) in lanes.iter_mut().zip(whole.remainder()) {
        *lane += value;
    }
    for values in whole {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane += value;
        }
    }
    lanes.into_iter().map(f64::from).sum()
}
