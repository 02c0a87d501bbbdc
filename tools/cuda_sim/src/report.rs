//! The counts of a run, as JSON in the file that `CUDA_SIM_REPORT` names.

use std::{collections::BTreeMap, fs, sync::atomic::AtomicU64, sync::atomic::Ordering::Relaxed};

use serde::{Deserialize, Serialize};

use crate::{
    device::Device,
    machine::{Machine, if_started},
    traffic::Traffic,
};

/// What a process asked of the simulated machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Each card, in order.
    pub cards: Vec<CardReport>,
    /// Kernels given to NVRTC, if the library watches it.
    pub compiled: u64,
    /// Kernels that NVRTC did not compile.
    pub compile_failures: u64,
    /// The seconds that NVRTC took.
    pub compile_seconds: f64,
}

/// What a process asked of a card.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CardReport {
    /// The name of the model.
    pub name: String,
    /// Bytes of its memory.
    pub memory_bytes: u64,
    /// Bytes allocated when the process ended.
    pub allocated_bytes: u64,
    /// The most bytes allocated at once.
    pub peak_allocated_bytes: u64,
    /// The most bytes asked for at once: without what fills up pages.
    pub peak_asked_bytes: u64,
    /// Kernels launched.
    pub launches: u64,
    /// Modules loaded.
    pub modules: u64,
    /// Modules that the card could not load.
    pub refused_modules: u64,
    /// Launches that break a limit of the card or the kernel.
    pub refused_launches: u64,
    /// The most shared memory of a block that was launched, in bytes.
    pub most_shared_bytes: u64,
    /// Allocations asked of the driver.
    pub allocations: u64,
    /// Allocations freed.
    pub frees: u64,
    /// Copies from the host, and their bytes.
    pub copies_to_device: u64,
    /// Bytes copied from the host.
    pub bytes_to_device: u64,
    /// Copies to the host.
    pub copies_to_host: u64,
    /// Bytes copied to the host.
    pub bytes_to_host: u64,
    /// Copies within the card.
    pub copies_on_device: u64,
    /// How often the host waited for the card.
    pub synchronisations: u64,
    /// Instructions that warps of running kernels executed.
    pub warp_instructions: u64,
    /// Bytes that running kernels read from the card's memory.
    pub bytes_read: u64,
    /// Bytes that running kernels wrote to the card's memory.
    pub bytes_written: u64,
    /// Bytes copied within the card: each is read and written.
    pub bytes_on_device: u64,
    /// How often memory was filled with a value.
    pub fills: u64,
    /// Bytes filled.
    pub bytes_filled: u64,
    /// Launches whose buffers are not known. Their bytes are missing.
    pub launches_without_bytes: u64,
    /// Launches and bytes by kernel.
    pub kernels: BTreeMap<String, Traffic>,
}

impl CardReport {
    fn of(device: &Device) -> Self {
        let counters = &device.counters;
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        let (allocated_bytes, peak_allocated_bytes) = device.memory.used_and_peak();
        Self {
            name: device.card.name.to_owned(),
            memory_bytes: device.card.memory_bytes,
            allocated_bytes,
            peak_allocated_bytes,
            peak_asked_bytes: device.memory.peak_asked(),
            launches: read(&counters.launches),
            modules: read(&counters.modules),
            refused_modules: read(&counters.refused_modules),
            refused_launches: read(&counters.refused_launches),
            most_shared_bytes: read(&counters.most_shared_bytes),
            allocations: read(&counters.allocations),
            frees: read(&counters.frees),
            copies_to_device: read(&counters.copies_to_device),
            bytes_to_device: read(&counters.bytes_to_device),
            copies_to_host: read(&counters.copies_to_host),
            bytes_to_host: read(&counters.bytes_to_host),
            copies_on_device: read(&counters.copies_on_device),
            synchronisations: read(&counters.synchronisations),
            warp_instructions: read(&counters.warp_instructions),
            bytes_read: read(&counters.bytes_read),
            bytes_written: read(&counters.bytes_written),
            bytes_on_device: read(&counters.bytes_on_device),
            fills: read(&counters.fills),
            bytes_filled: read(&counters.bytes_filled),
            launches_without_bytes: read(&counters.launches_without_bytes),
            kernels: counters.kernels(),
        }
    }
}

impl Report {
    fn of(machine: &Machine) -> Self {
        let compiler = &machine.compiler;
        Self {
            cards: machine.devices.iter().map(CardReport::of).collect(),
            compiled: compiler.programs.load(Relaxed),
            compile_failures: compiler.failures.load(Relaxed),
            compile_seconds: compiler.microseconds.load(Relaxed) as f64 / 1e6,
        }
    }
}

/// Has the report written when the process ends.
pub(crate) fn at_exit() {
    // SAFETY: the function takes nothing, returns nothing and does not unwind.
    unsafe { libc::atexit(write) };
}

extern "C" fn write() {
    let Some(machine) = if_started() else { return };
    machine.log.flush();
    let Some(path) = &machine.settings.report else { return };
    let is_used = |device: &Device| device.counters.allocations.load(Relaxed) > 0;
    // A process that only looked at the cards must not replace the counts of one that used them.
    if !machine.devices.iter().any(is_used) {
        return;
    }
    let text = serde_json::to_vec_pretty(&Report::of(machine)).unwrap_or_default();
    if let Err(error) = fs::write(path, text) {
        eprintln!("cuda-sim: CUDA_SIM_REPORT: `{}`: {error}", path.display());
    }
}
