use std::ops::Range;

use burn::tensor::Device;
use oomph_core::on_device;
use oomph_memory::ComputePool;
use oomph_model::Stages;

/// A device, and which stages of a model it has.
#[derive(Debug)]
pub(crate) struct Place {
    /// Its number among the devices, from 0.
    pub(crate) index: usize,
    /// As `device.devices` calls it.
    pub(crate) name: String,
    /// The autodiff device.
    pub(crate) tracked: Device,
    pub(crate) stages: Range<usize>,
    /// Its threads, where it is a part of the processor: but for the first, which has the program's.
    pub(crate) pool: Option<ComputePool>,
}

impl Place {
    /// Runs `work` where the device computes, so that what is allocated is counted as its.
    pub(crate) fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) => pool.install(work),
            None => on_device(self.index, work),
        }
    }

    /// The device off autodiff.
    pub(crate) fn plain(&self) -> Device {
        self.tracked.clone().inner()
    }

    /// The part with all its parameters on this device, and in its memory.
    pub(crate) fn moved(&self, mut part: Stages) -> Stages {
        let plain = self.plain();
        part.map(&mut |info, tensor| {
            let trainable = info.trainable;
            tensor.clone().inner().moved(&plain).tracked_like(&tensor, trainable)
        });
        part
    }
}
