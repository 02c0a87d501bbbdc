//! The devices that a session's model lies on, where it is cut.

use std::{num::NonZeroUsize, ops::Range, sync::Arc};

use burn::tensor::Device;
use oomph_config::{Cut, DeviceName, PipelineSchedule, Sharing};
use oomph_memory::{Account, ComputePool, charge};
use oomph_parallel::Schedule;

use super::{Session, SessionError, devices::threads_of_each};
use crate::{
    TrainError,
    cpu::prepare_pool,
    open_device,
    parallel::{Place, chain::Chain},
    planning::cut,
};

impl Session {
    /// The devices that the model is cut over, with threads of their own, where it is.
    ///
    /// # Errors
    /// Where it cannot be cut so, or a device not be opened.
    pub(crate) fn open_chain(&self) -> Result<Option<Chain>, TrainError> {
        let Some(schedule) = self.pipeline_schedule() else { return Ok(None) };
        let device = &self.config.device;
        // To plan where it is cut takes memory of the program's.
        let stages = charge(Account::Host, || cut(self, schedule))?;
        let places = self.open_places(stages)?;
        Ok(Some(Chain { places, schedule, timeout: device.timeout }))
    }

    /// The devices of this process, with threads of their own where they are parts of the processor, and stages for each.
    pub(super) fn open_places(&self, stages: Vec<Range<usize>>) -> Result<Arc<[Place]>, SessionError> {
        let threads = threads_of_each(&self.config).and_then(NonZeroUsize::new);
        let place =
            |(index, (stages, name)): (usize, (Range<usize>, &DeviceName))| -> Result<_, SessionError> {
                let pool = match name {
                    DeviceName::Cpu if index > 0 => {
                        let pool = ComputePool::new(index, threads.unwrap_or(NonZeroUsize::MIN))?;
                        prepare_pool(&pool);
                        Some(pool)
                    }
                    _ => None,
                };
                let device = if index == 0 { self.device.clone() } else { open_device(*name)? };
                Ok(Place { index, name: name.to_string(), tracked: self.tracked(&device), stages, pool })
            };
        let places = stages.into_iter().zip(&self.config.device.devices).enumerate().map(place);
        Ok(places.collect::<Result<Vec<_>, _>>()?.into())
    }

    /// Runs what makes tensors of a whole model: where that is to lie on several devices, none of them holds all of it, so
    /// that it is made in host memory.
    pub(crate) fn off_device<T>(&self, make: impl FnOnce() -> T) -> T {
        match self.pipeline_schedule() {
            Some(_) => charge(Account::Host, make),
            None => make(),
        }
    }

    /// Whether its devices have different things to do, so that each is planned by itself.
    pub fn has_uneven_devices(&self) -> bool {
        self.is_cut() || matches!(self.config.device.sharing, Sharing::Dp { .. })
    }

    /// Where a whole model is made, or read.
    pub(crate) fn whole_model_device(&self) -> Device {
        match self.pipeline_schedule() {
            // It need not fit on any of its devices.
            Some(_) => Device::flex(),
            None => self.device.clone(),
        }
    }

    /// Whether the model is cut over several devices.
    pub fn is_cut(&self) -> bool {
        self.pipeline_schedule().is_some()
    }

    /// In which order the devices work that the model lies on; `None` where it lies on one.
    pub(crate) fn pipeline_schedule(&self) -> Option<Schedule> {
        match &self.config.device.sharing {
            Sharing::Model { .. } => Some(Schedule::Sequential),
            Sharing::Pipeline { schedule: PipelineSchedule::GPipe, .. } => Some(Schedule::GPipe),
            Sharing::Pipeline { .. } => Some(Schedule::OneForwardOneBackward),
            Sharing::Alone | Sharing::Dp { .. } | Sharing::Ddp(_) => None,
        }
    }

    /// The same, cut where it is cut now, whatever else becomes of it.
    pub(crate) fn with_cut(&self, stages: &[Range<usize>]) -> Self {
        let names = stages.iter().skip(1).map(|stages| self.stages[stages.start].clone()).collect();
        let mut config = self.config.clone();
        if let Sharing::Model { cut } | Sharing::Pipeline { cut, .. } = &mut config.device.sharing {
            *cut = Cut::At(names);
        }
        self.with(config, self.device.clone())
    }

    /// The micro-batch where none is configured: all of a device's share, but of a pipeline as much that its devices are
    /// idle for less than a fifth of the time, which they are with four micro-batches each (Huang et al. 2019, section 2.3).
    pub(crate) fn whole_micro_batch(&self, batch: usize) -> usize {
        const MICRO_BATCHES_A_DEVICE: usize = 4;
        match self.config.device.sharing {
            Sharing::Pipeline { .. } => {
                batch.div_ceil(MICRO_BATCHES_A_DEVICE * self.config.device.devices.len())
            }
            _ => batch,
        }
    }
}
