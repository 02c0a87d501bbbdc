use std::sync::Arc;

use burn::tensor::{
    Device, Tensor,
    distributed::{CollectiveTensor, ReduceOperation, all_reduce},
};
use oomph_config::DeviceName;

/// Devices of this process that sum among themselves, without the host: GPUs, by NCCL, each with a thread of its own.
///
/// Burn makes the communicator with the first sum, and does it on a stream of its own, so that backward goes on meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct Collective(Arc<[Device]>);

/// A sum that was started.
pub(crate) struct Underway(CollectiveTensor<1>);

impl Collective {
    /// Those of the names, which are of `devices`; `None` where these cannot: NCCL is for GPUs, takes each of them once, and
    /// has to be there.
    pub(crate) fn new(names: &[DeviceName], devices: &[Device]) -> Option<Self> {
        (are_different_gpus(names) && has_nccl()).then(|| Self(devices.into()))
    }

    /// Starts to sum `values` over all devices. They must not be looked at before all ranks have started as many sums.
    pub(crate) fn start(&self, values: Tensor<1>) -> Underway {
        Underway(all_reduce(values, ReduceOperation::Sum, self.0.to_vec()))
    }
}

impl Underway {
    /// What comes of it. The device waits for it before it goes on, the host does not.
    pub(crate) fn wait(self) -> Tensor<1> {
        self.0.resolve()
    }
}

/// Whether all are GPUs, and no one twice.
pub(crate) fn are_different_gpus(names: &[DeviceName]) -> bool {
    let is_first = |index: usize| !names[..index].contains(&names[index]);
    !names.contains(&DeviceName::Cpu) && (0..names.len()).all(is_first)
}

/// Whether NCCL is there, under a name under which Burn looks for it: it panics where it is not.
#[cfg(feature = "cuda")]
pub(crate) fn has_nccl() -> bool {
    matches!(crate::cuda::nccl(), crate::installation::Nccl::Found { .. })
}

/// Whether NCCL is there, under a name under which Burn looks for it: it panics where it is not.
#[cfg(not(feature = "cuda"))]
pub(crate) fn has_nccl() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_named_twice_and_the_processor_are_not_summed_by_nccl() {
        use DeviceName::{Cpu, Cuda};
        assert!(are_different_gpus(&[Cuda(0)]) && are_different_gpus(&[Cuda(1), Cuda(0)]));
        assert!(!are_different_gpus(&[Cuda(0), Cuda(1), Cuda(0)]));
        assert!(!are_different_gpus(&[Cuda(0), Cpu]) && !are_different_gpus(&[Cpu, Cpu]));
    }
}
