use burn_backend::tensor::FloatTensor;
use burn_capture::{CaptureBackend, TensorId};
use burn_flex::Flex;

use crate::{any_tensor::AnyTensor, backends::Plain};

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
        // Integers are inputs and targets. A timeline knows those by the phase that allocates them.
        if let Some(recorded) = primitive::<CaptureBackend>(tensor) {
            return Self::Recorded(recorded.id());
        }
        primitive::<Flex>(tensor)
            .map_or(Self::Unknown, |executed| Self::Address(executed.bytes().as_ptr() as u64))
    }
}

/// The primitive of a float tensor, on the autodiff device or off it.
fn primitive<B: Plain>(tensor: &AnyTensor) -> Option<FloatTensor<B>> {
    B::tracked(tensor).map(|tracked| tracked.primitive).or_else(|| B::primitive(tensor))
}

impl AnyTensor {
    /// Whether a float tensor on the CPU is smaller than its storage.
    pub fn is_part(&self) -> bool {
        Flex::primitive(self)
            .is_some_and(|plain| plain.bytes().len() > self.elements() * size_of::<f32>() + ALIGNMENT)
    }
}

/// The size of a storage is rounded up to a multiple of this many bytes.
const ALIGNMENT: usize = 16;
