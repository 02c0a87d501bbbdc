use std::num::NonZeroUsize;

use oomph_advice::out_of_memory::free_bytes;
use oomph_config::{Config, DeviceName};
use oomph_core::Bytes;
use oomph_engine::session::{cpus, threads_of_each};
use oomph_memory::{DefaultLimit, ThreadsError};

/// Starts the compute threads. Without `device.threads`, threads that already run are fine.
pub(super) fn start_threads(config: &Config) -> Result<(), ThreadsError> {
    let started = oomph_memory::compute_threads(threads_of_each(config).and_then(NonZeroUsize::new));
    match config.device.threads {
        Some(_) => started.map(drop),
        None => Ok(()),
    }
}

/// The default limit of each CPU device: an equal share of the free memory.
pub fn default_limit(config: &Config) -> Option<DefaultLimit> {
    let part = |bytes: Bytes| Bytes::new(bytes.get() / cpus(config).get() as u64);
    let DefaultLimit { bytes, reason, reserve_bytes } = oomph_memory::default_limit()?;
    Some(DefaultLimit { bytes: part(bytes), reason, reserve_bytes: part(reserve_bytes) })
}

/// The limit of each device; empty unless all are known. The limit of a GPU is its free memory. The meter checks the limit
/// of the CPU devices from now on.
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
