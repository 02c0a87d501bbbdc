//! What several devices on the processor share.

use std::num::NonZeroUsize;

use oomph_config::{Config, ConfigError, DeviceName, MicroBatch, Recompute, Sharing};
use oomph_memory::ThreadsError;

/// Refuses what no runner is there for.
pub(super) fn check_sharing(config: &Config) -> Result<(), ConfigError> {
    let memory = &config.memory;
    match &config.device.sharing {
        Sharing::Alone | Sharing::Dp { .. } | Sharing::Ddp(_) => Ok(()),
        Sharing::Model { .. } | Sharing::Pipeline { .. } if memory.recompute == Recompute::Auto => {
            let expected = "what each device computes again by name: `auto` knows one device alone";
            Err(config.invalid("memory.recompute", expected))
        }
        Sharing::Model { .. } | Sharing::Pipeline { .. } if memory.micro_batch == Some(MicroBatch::Auto) => {
            Err(config.invalid("memory.micro_batch", "a number of samples: `auto` knows one device alone"))
        }
        Sharing::Model { .. } | Sharing::Pipeline { .. } => Ok(()),
    }
}

/// Starts the threads that compute, as many as are asked for. Where nobody asks, those that run already are right.
pub(super) fn start_threads(config: &Config) -> Result<(), ThreadsError> {
    let started = oomph_memory::compute_threads(threads_of_each(config).and_then(NonZeroUsize::new));
    match config.device.threads {
        Some(_) => started.map(drop),
        None => Ok(()),
    }
}

/// How many threads compute for each of the devices on the CPU, which share those that there are; `None` for one a core.
pub(crate) fn threads_of_each(config: &Config) -> Option<usize> {
    let cpus = cpus(config);
    match config.device.threads {
        Some(threads) => Some((threads / cpus).max(1)),
        None if cpus == NonZeroUsize::MIN => None,
        None => Some(oomph_memory::threads_per_device(cpus).get()),
    }
}

/// How many of the devices are the CPU, one at least.
pub(super) fn cpus(config: &Config) -> NonZeroUsize {
    let cpus = config.device.devices.iter().filter(|device| **device == DeviceName::Cpu).count();
    NonZeroUsize::new(cpus).unwrap_or(NonZeroUsize::MIN)
}
