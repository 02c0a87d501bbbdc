use std::num::NonZeroUsize;

use oomph_config::{Config, DeviceName};
use oomph_core::Bytes;
use oomph_memory::within_threads;
use oomph_plan::Backend;

use super::Session;

/// The backend whose allocator the first configured device uses.
pub fn backend(session: &Session) -> Backend {
    match session.config.device.devices[0] {
        DeviceName::Cpu => {
            let threads = threads_of_each(&session.config);
            Backend::Cpu { threads: threads.unwrap_or_else(oomph_memory::running_threads) }
        }
        DeviceName::Cuda(_) => Backend::Cuda,
        DeviceName::Vulkan(_) => Backend::Vulkan,
    }
}

/// Runs `work`, which executes many operations, and waits. Where the first device is the CPU it runs on one of the compute threads, and
/// charges them: on another thread, each operation would wait until one of these wakes. Thread-local state of the caller does not apply.
pub fn on_compute_thread<R: Send>(session: &Session, work: impl FnOnce() -> R + Send) -> R {
    match session.config.device.devices[0] {
        DeviceName::Cpu => within_threads(work),
        DeviceName::Cuda(_) | DeviceName::Vulkan(_) => work(),
    }
}

/// The number of compute threads of each CPU device. CPU devices share the cores. `None` means one thread per core.
pub fn threads_of_each(config: &Config) -> Option<usize> {
    let cpus = cpus(config);
    match config.device.threads {
        Some(threads) => Some((threads / cpus).max(1)),
        None if cpus == NonZeroUsize::MIN => None,
        None => Some(oomph_memory::threads_per_device(cpus).get()),
    }
}

/// The number of CPU devices, at least 1.
pub fn cpus(config: &Config) -> NonZeroUsize {
    let cpus = config.device.devices.iter().filter(|device| **device == DeviceName::Cpu).count();
    NonZeroUsize::new(cpus).unwrap_or(NonZeroUsize::MIN)
}

/// A planned peak of a device, scaled by the ratio of the smallest limit to the limit of the device. Scaled peaks of
/// different devices can be compared. If all devices have the same limit, the peak is returned unchanged.
pub fn bytes_of_smallest(session: &Session, device: usize, planned_peak_bytes: Bytes) -> Bytes {
    match (session.limits.get(device), session.limits.iter().min()) {
        (Some(own), Some(smallest)) if own > smallest => {
            let scaled = u128::from(planned_peak_bytes.get()) * u128::from(smallest.get());
            // At most the peak, so it fits into 64 bits.
            Bytes::new((scaled / u128::from(own.get())) as u64)
        }
        _ => planned_peak_bytes,
    }
}

/// Bytes of each stage's output for `samples` samples, in the precision of activations.
pub fn stage_output_bytes(session: &Session, samples: usize) -> Vec<u64> {
    let element_bytes = session.policy(backend(session)).dtype().size() as u64;
    session.outputs.elements(samples).map(|elements| elements as u64 * element_bytes).collect()
}
