use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::Device;
use burn_backend::{InstallMemoryPoolsError, MemoryPoolLayout};
use oomph_config::Pool;
use oomph_core::{Bytes, Phase, current_point};
use oomph_model::AnyTensor;
use oomph_timeline::Category;
use serde::Serialize;

use oomph_engine::watch::Watch;

/// A reading of a GPU's memory pools. It waits for the queued work of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PoolReading {
    /// Bytes of live tensors and workspaces, padding left out.
    pub in_use_bytes: Bytes,
    /// Padding within them.
    pub padding_bytes: Bytes,
    /// Reserved bytes on the device.
    pub reserved_bytes: Bytes,
    /// Live allocations.
    pub allocations: u64,
    /// The most bytes of pages: an upper bound of the peak in use. `None` where a pool has no pages.
    pub pages_peak_bytes: Option<Bytes>,
}

impl PoolReading {
    /// Bytes in use with their padding: what a plan counts.
    pub fn padded_bytes(&self) -> Bytes {
        self.in_use_bytes + self.padding_bytes
    }

    /// Reads the pools of a device. `None` without pools, as on the CPU.
    pub fn of(device: &Device) -> Option<Self> {
        let usage = device.memory_pool_usage()?;
        let pages = device.memory_pool_report().and_then(|pools| {
            pools.iter().map(|pool| (pool.page_size > 0).then_some(pool.page_size * pool.pages_peak)).sum()
        });
        Some(Self {
            in_use_bytes: Bytes::new(usage.bytes_in_use),
            padding_bytes: Bytes::new(usage.bytes_padding),
            reserved_bytes: Bytes::new(usage.bytes_reserved),
            allocations: usage.number_allocs,
            pages_peak_bytes: pages.map(Bytes::new),
        })
    }
}

/// Sets the pool layout of a device, before its first allocation.
pub(crate) fn install_pool(device: &Device, pool: Pool) -> Result<(), InstallMemoryPoolsError> {
    let layout = match pool {
        Pool::SubSlices => MemoryPoolLayout::SubSlices,
        Pool::ExclusivePages => MemoryPoolLayout::ExclusivePages,
        // It reserves least, and a plan knows what it reserves.
        Pool::Default | Pool::Direct => MemoryPoolLayout::Direct,
    };
    match device.memory_install_pools(layout) {
        // The CPU has no pools, and nobody asked for a layout.
        Err(InstallMemoryPoolsError::Unsupported) if pool == Pool::Default => Ok(()),
        answer => answer,
    }
}

/// The reading at the end of a stage or a phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Boundary {
    /// The phase.
    pub phase: Phase,
    /// The stage that ended; empty at the end of a phase.
    pub stage: String,
    /// The reading.
    #[serde(flatten)]
    pub reading: PoolReading,
}

/// Reads a GPU's pools at every boundary. Memory between boundaries is not seen: the highest reading is a lower bound of
/// the peak in use, and the pages are an upper bound.
#[derive(Clone, Debug)]
pub struct PoolWatch {
    device: Device,
    boundaries: Arc<Mutex<Vec<Boundary>>>,
}

impl PoolWatch {
    /// Watches a device off autodiff.
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), boundaries: Arc::default() }
    }

    /// The readings so far.
    pub fn boundaries(&self) -> Vec<Boundary> {
        self.boundaries.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Watch for PoolWatch {
    fn holds(&mut self, _category: Category, _name: &str, _tensor: &AnyTensor) {}

    fn boundary(&mut self, stage: &str) {
        let Some(reading) = PoolReading::of(&self.device) else { return };
        let boundary = Boundary { phase: current_point().phase(), stage: stage.to_owned(), reading };
        self.boundaries.lock().unwrap_or_else(PoisonError::into_inner).push(boundary);
    }
}

/// Reads the memory of a training's device; of several CPU devices, the one with the highest peak.
#[derive(Debug)]
pub(crate) struct Gauge {
    device: Device,
    /// CPU devices of this process.
    devices: usize,
    highest: Bytes,
    /// Reserved bytes of a GPU at the last look. A failed GPU cannot be read again.
    pub(crate) reserved_bytes: Option<Bytes>,
    /// The most of them.
    pub(crate) peak_reserved_bytes: Option<Bytes>,
}

/// One look at a [`Gauge`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gauged {
    pub(crate) in_use_bytes: Bytes,
    /// Exact on the CPU. On a GPU, the highest reading.
    pub(crate) peak_in_use_bytes: Bytes,
    pub(crate) pools: Option<PoolReading>,
}

impl Gauge {
    pub(crate) fn new(device: &Device, devices: usize) -> Self {
        let highest = Bytes::default();
        Self { device: device.clone(), devices, highest, reserved_bytes: None, peak_reserved_bytes: None }
    }

    pub(crate) fn look(&mut self) -> Gauged {
        let pools = PoolReading::of(&self.device);
        let Some(reading) = pools else {
            let all = (0..self.devices).map(oomph_memory::read_device);
            let fullest = all.max_by_key(|meter| meter.peak_in_use_bytes);
            let oomph_memory::Reading { in_use_bytes, peak_in_use_bytes, .. } =
                fullest.unwrap_or_else(oomph_memory::read);
            return Gauged { in_use_bytes, peak_in_use_bytes, pools };
        };
        self.highest = self.highest.max(reading.in_use_bytes);
        self.reserved_bytes = Some(reading.reserved_bytes);
        self.peak_reserved_bytes = self.peak_reserved_bytes.max(self.reserved_bytes);
        Gauged { in_use_bytes: reading.in_use_bytes, peak_in_use_bytes: self.highest, pools }
    }
}
