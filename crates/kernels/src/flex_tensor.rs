//! Flex tensors from values, and the values of Flex tensors.

use burn_backend::{DType, Shape};
use burn_flex::FlexTensor;

use crate::{
    stored_float::{StoredFloat, StoredFloats, by_dtype},
    uninit,
};

/// The elements of a contiguous 32-bit tensor.
pub(crate) fn floats(tensor: &FlexTensor) -> &[f32] {
    match StoredFloats::of(tensor) {
        StoredFloats::F32(values) => values,
        StoredFloats::Bf16(_) | StoredFloats::F16(_) => {
            // The callers of these kernels widen their inputs.
            unreachable!("the inputs of these kernels have 32 bits")
        }
    }
}

/// A vector of zeros. A large one is written by all threads, since one thread would keep the others waiting.
pub(crate) fn zeros<E: StoredFloat>(count: usize) -> Vec<E> {
    const TASK: usize = 16 << 10;
    if count < 8 * TASK {
        return vec![E::ZERO; count];
    }
    uninit::filled_anew(count, TASK, |_, _| ())
}

/// A tensor of zeros.
pub(crate) fn blank(shape: &[usize], dtype: DType) -> FlexTensor {
    let shape = Shape::from(shape.to_vec());
    if dtype == DType::U32 {
        return FlexTensor::zeros(shape, dtype);
    }
    by_dtype!(dtype, E => E::tensor(zeros(shape.num_elements()), shape))
}

/// A tensor of 32-bit values in row-major order.
pub(crate) fn tensor(values: Vec<f32>, shape: &[usize]) -> FlexTensor {
    f32::tensor(values, Shape::from(shape.to_vec()))
}

/// A tensor of rank 1.
pub(crate) fn vector(values: Vec<f32>) -> FlexTensor {
    let shape = [values.len()];
    tensor(values, &shape)
}
