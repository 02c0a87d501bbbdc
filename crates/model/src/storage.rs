use burn::tensor::Tensor;
use burn_autodiff::Autodiff;
use burn_capture::{CaptureBackend, TensorId};
use burn_flex::Flex;

use crate::{AnyTensor, autodiff::Recorded};

/// Where a tensor lies: what ties it to the blocks of a memory timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In a recording, under this identity.
    Recorded(TensorId),
    /// On the CPU, in the allocation that contains this address.
    Address(u64),
    /// On a device that does not say.
    Unknown,
}

impl Storage {
    /// Of a float tensor, on the autodiff device or off it.
    pub fn of(tensor: &AnyTensor) -> Self {
        tensor.storage()
    }
}

/// Of a float tensor.
pub(crate) fn of_floats<const D: usize>(tensor: &Tensor<D>) -> Storage {
    if let Ok(recorded) = tensor.clone().try_into_primitive::<Recorded>() {
        return Storage::Recorded(recorded.primitive.id());
    }
    if let Ok(recorded) = tensor.clone().try_into_primitive::<CaptureBackend>() {
        return Storage::Recorded(recorded.id());
    }
    if let Ok(tracked) = tensor.clone().try_into_primitive::<Autodiff<Flex>>() {
        return address(&tracked.primitive);
    }
    match tensor.clone().try_into_primitive::<Flex>() {
        Ok(plain) => address(&plain),
        Err(_) => Storage::Unknown,
    }
}

fn address(tensor: &burn_flex::FlexTensor) -> Storage {
    Storage::Address(tensor.bytes().as_ptr() as u64)
}

/// Whether a float tensor on the CPU is only a part of its storage.
pub(crate) fn is_part<const D: usize>(tensor: &Tensor<D>) -> bool {
    match tensor.clone().try_into_primitive::<Flex>() {
        Ok(plain) => plain.bytes().len() > tensor.shape().num_elements() * size_of::<f32>() + ALIGNMENT,
        Err(_) => false,
    }
}

/// Storage is rounded up to a multiple of it.
const ALIGNMENT: usize = 16;
