use std::sync::Arc;

use burn::tensor::{
    Device, Tensor,
    distributed::{CollectiveTensor, ReduceOperation, all_reduce},
};

/// GPUs of this process that all-reduce by NCCL, without the host. Each GPU has its own thread.
///
/// Burn creates the communicator with the first all-reduce. All-reduces run on a separate stream, at the same time as
/// backward.
#[derive(Clone, Debug)]
pub struct Collective(Arc<[Device]>);

/// An all-reduce in flight.
pub(crate) struct Underway(CollectiveTensor<1>);

impl Collective {
    /// A collective of these GPUs. Each GPU may be listed once.
    ///
    /// # Panics
    /// Burn panics at the first all-reduce if NCCL is not installed.
    pub fn new(devices: &[Device]) -> Self {
        Self(devices.into())
    }

    /// Starts an all-reduce of `values` over all devices. The result must not be read before all ranks have started it
    /// too.
    pub(crate) fn start(&self, values: Tensor<1>) -> Underway {
        Underway(all_reduce(values, ReduceOperation::Sum, self.0.to_vec()))
    }
}

impl Underway {
    /// The sum. The device waits for it; the host does not.
    pub(crate) fn wait(self) -> Tensor<1> {
        self.0.resolve()
    }
}
