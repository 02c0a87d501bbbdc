use std::ops::Range;

use burn::tensor::Device;
use oomph_config::DeviceName;
use oomph_core::{current_device, on_device};
use oomph_memory::ComputePool;
use oomph_model::Stages;

use super::Role;
use crate::device_failure;

/// One device of a step, with its stages and its role.
#[derive(Debug)]
pub struct DeviceSlot {
    /// The number of the device in the step, from 0.
    pub index: usize,
    /// The name of the device in `device.devices`.
    pub name: String,
    /// The autodiff device.
    pub tracked: Device,
    /// The stages of the model on this device.
    pub stages: Range<usize>,
    /// The work of the device in a step.
    pub role: Role,
    /// The compute threads of the device, if it is a share of the CPU. The first device uses the threads of the
    /// program.
    pub pool: Option<ComputePool>,
    /// The device number under which the meter counts its memory.
    pub(crate) metered_as: usize,
}

impl DeviceSlot {
    /// A slot whose memory the meter counts for the device of this thread plus `index`.
    pub fn new(index: usize, name: String, tracked: Device, stages: Range<usize>, role: Role) -> Self {
        Self { index, name, tracked, stages, role, pool: None, metered_as: current_device() + index }
    }

    /// Runs `work` on the threads of the device, and counts its memory for the device. Failures of other GPUs do not end
    /// it.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) => pool.install(work),
            None => self.run_here(work),
        }
    }

    /// As [`run`](Self::run), in this thread.
    pub(crate) fn run_here<R>(&self, work: impl FnOnce() -> R) -> R {
        let device = self.name.parse().unwrap_or(DeviceName::Cpu);
        device_failure::on(&[device], || on_device(self.metered_as, work))
    }

    /// The device without autodiff.
    pub fn plain(&self) -> Device {
        self.tracked.clone().inner()
    }

    /// Copies the stages into the memory of this device.
    pub(crate) fn moved(&self, mut stages: Stages) -> Stages {
        let plain = self.plain();
        stages.map(&mut |info, tensor| {
            let trainable = info.trainable;
            tensor.clone().inner().moved(&plain).tracked_like(&tensor, trainable)
        });
        stages
    }
}
