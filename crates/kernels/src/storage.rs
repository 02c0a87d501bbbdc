use burn::tensor::Tensor;
use burn_autodiff::Autodiff;
use burn_capture::{CaptureBackend, TensorId};
use burn_flex::Flex;

use crate::{
    any_tensor::{AnyTensor, with_rank},
    graph::Recorded,
};

/// The storage of a tensor, by which a memory timeline finds its allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// A recorded tensor, by its identity in the recording.
    Recorded(TensorId),
    /// Memory of the CPU, in the allocation that contains this address.
    Address(u64),
    /// Memory of a device that gives no address, or of integers.
    Unknown,
}

impl Storage {
    /// The storage of a float tensor, on the autodiff device or off it.
    pub fn of(tensor: &AnyTensor) -> Self {
        match tensor.is_float() {
            true => with_rank!(tensor.clone(), tensor => of_floats(&tensor)),
            // Integers are inputs and targets. A timeline knows those by the phase that allocates them.
            false => Self::Unknown,
        }
    }
}

fn of_floats<const D: usize>(tensor: &Tensor<D>) -> Storage {
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

impl AnyTensor {
    /// Whether a float tensor on the CPU is smaller than its storage.
    pub fn is_part(&self) -> bool {
        with_rank!(self.clone(), tensor => is_part(&tensor))
    }
}

fn is_part<const D: usize>(tensor: &Tensor<D>) -> bool {
    match tensor.clone().try_into_primitive::<Flex>() {
        Ok(plain) => plain.bytes().len() > tensor.shape().num_elements() * size_of::<f32>() + ALIGNMENT,
        Err(_) => false,
    }
}

/// The size of a storage is rounded up to a multiple of this many bytes.
const ALIGNMENT: usize = 16;
