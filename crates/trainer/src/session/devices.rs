//! What several devices on the processor share.

use std::num::NonZeroUsize;

use oomph_config::{Config, DeviceName};
use oomph_core::Bytes;
use oomph_memory::{DefaultLimit, ThreadsError};

use super::Session;
use crate::free_bytes;

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
fn cpus(config: &Config) -> NonZeroUsize {
    let cpus = config.device.devices.iter().filter(|device| **device == DeviceName::Cpu).count();
    NonZeroUsize::new(cpus).unwrap_or(NonZeroUsize::MIN)
}

/// What each device on the CPU may use where nobody says: of what the machine leaves, an equal part for each.
pub fn default_limit(config: &Config) -> Option<DefaultLimit> {
    let part = |bytes: Bytes| Bytes::new(bytes.get() / cpus(config).get() as u64);
    let DefaultLimit { bytes, reason, reserve_bytes } = oomph_memory::default_limit()?;
    Some(DefaultLimit { bytes: part(bytes), reason, reserve_bytes: part(reserve_bytes) })
}

/// What each device may use; nothing where that is not known of all. Of a GPU it is what its driver says that nobody
/// holds. The meter looks at the limit of the CPU's devices from now on.
pub(super) fn limits(config: &Config) -> Vec<Bytes> {
    let devices = &config.device.devices;
    let has_cpu = devices.contains(&DeviceName::Cpu);
    let of_cpu =
        if has_cpu { config.memory.limit.or_else(|| Some(default_limit(config)?.bytes)) } else { None };
    if has_cpu {
        oomph_memory::set_limit(of_cpu);
    }
    let of = |device: &DeviceName| match device {
        DeviceName::Cpu => of_cpu,
        DeviceName::Cuda(_) => free_bytes(*device),
    };
    devices.iter().map(of).collect::<Option<_>>().unwrap_or_default()
}

impl Session {
    /// What a device may use, by its number, where that is known.
    pub fn limit_of(&self, device: usize) -> Option<Bytes> {
        self.limits.get(device).copied().or(self.limit_bytes)
    }

    /// The same for devices that may use so much each: to plan for some that this machine does not have.
    #[must_use]
    pub fn with_limits(self, limits: Vec<Bytes>) -> Self {
        let limit_bytes = limits.iter().min().copied();
        let are_alike = limits.iter().all(|limit| Some(*limit) == limit_bytes);
        Self { limit_bytes, limits: if are_alike { Vec::new() } else { limits }, ..self }
    }

    /// What a planned peak on a device is to be compared with what is planned on others: bytes of as many as the
    /// smallest device has. Where all have as much it is the peak itself.
    pub(crate) fn bytes_of_smallest(&self, device: usize, planned_peak_bytes: Bytes) -> Bytes {
        match (self.limits.get(device), self.limits.iter().min()) {
            (Some(own), Some(smallest)) if own > smallest => {
                let scaled = u128::from(planned_peak_bytes.get()) * u128::from(smallest.get());
                // No more than the peak, which fits.
                Bytes::new((scaled / u128::from(own.get())) as u64)
            }
            _ => planned_peak_bytes,
        }
    }
}
