//! The devices that a session's model lies on, where it is cut.

use std::{num::NonZeroUsize, ops::Range};

use oomph_config::{Cut, DeviceName, PipelineSchedule, Sharing};
use oomph_memory::ComputePool;
use oomph_parallel::{Schedule, cut_by_names};

use super::{Session, SessionError, devices::threads_of_each};
use crate::{
    TrainError,
    cpu::prepare_pool,
    open_device,
    parallel::chain::{Chain, Place},
    parts::check_names,
    planning::balanced,
};

impl Session {
    /// The devices that the model is cut over, with threads of their own, where it is.
    ///
    /// # Errors
    /// Where it cannot be cut so, or a device not be opened.
    pub(crate) fn open_chain(&self) -> Result<Option<Chain>, TrainError> {
        let device = &self.config.device;
        let (cut, schedule) = match &device.sharing {
            Sharing::Model { cut } => (cut, Schedule::Sequential),
            Sharing::Pipeline { cut, schedule: PipelineSchedule::GPipe } => (cut, Schedule::GPipe),
            Sharing::Pipeline { cut, .. } => (cut, Schedule::OneForwardOneBackward),
            Sharing::Alone | Sharing::Dp { .. } | Sharing::Ddp(_) => return Ok(None),
        };
        let stages = self.cut(cut)?;
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
        let places = stages.into_iter().zip(&device.devices).enumerate().map(place);
        let places = places.collect::<Result<Vec<_>, _>>()?.into();
        Ok(Some(Chain { places, schedule, timeout: device.timeout }))
    }

    /// The stages of each device.
    fn cut(&self, cut: &Cut) -> Result<Vec<Range<usize>>, TrainError> {
        let devices = self.config.device.devices.len();
        let names: Vec<&str> = self.stages.iter().map(String::as_str).collect();
        match cut {
            Cut::At(at) => {
                check_names(&self.config, "device.cut", at, &names).map_err(SessionError::from)?;
                Ok(cut_by_names(&names, at, devices).map_err(SessionError::from)?)
            }
            Cut::Balanced(balance) => balanced(self, *balance, devices),
        }
    }
}
