use std::{cell::RefCell, rc::Rc};

use burn::tensor::Device;
use burn_backend::{InstallMemoryPoolsError, MemoryPoolLayout};
use oomph_config::Pool;
use oomph_core::{Bytes, Phase, place};
use oomph_memory::Category;
use oomph_model::AnyTensor;
use serde::Serialize;

use crate::Watch;

/// What a GPU's allocator holds at one moment. Taking it waits for what was queued on the device, so that chains of
/// operations that fusion would join across that moment are cut there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PoolReading {
    /// Bytes of live tensors and workspaces, padding left out.
    pub in_use_bytes: Bytes,
    /// Padding within them.
    pub padding_bytes: Bytes,
    /// What the allocator holds on the device.
    pub reserved_bytes: Bytes,
    /// Live allocations.
    pub allocations: u64,
    /// The most that pages ever took: an upper bound of the peak in use. `None` where a pool has no pages.
    pub pages_peak_bytes: Option<Bytes>,
}

impl PoolReading {
    /// Reads the pools of a device; `None` where it has none, as the CPU.
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

/// Lays out the pools of a device before anything is allocated on it.
pub(crate) fn install_pool(device: &Device, pool: Pool) -> Result<(), InstallMemoryPoolsError> {
    let layout = match pool {
        Pool::Default => return Ok(()),
        Pool::SubSlices => MemoryPoolLayout::SubSlices,
        Pool::ExclusivePages => MemoryPoolLayout::ExclusivePages,
        Pool::Direct => MemoryPoolLayout::Direct,
    };
    device.memory_install_pools(layout)
}

/// What the pools held when a stage or a phase ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Boundary {
    /// The phase.
    pub phase: Phase,
    /// The stage that ended; empty where it is the phase.
    pub stage: String,
    /// What was held.
    #[serde(flatten)]
    pub reading: PoolReading,
}

/// Reads a GPU's pools at every boundary: there is no peak of what is in use between them, so the highest reading is a
/// lower bound of it, and the pages an upper one.
#[derive(Clone, Debug)]
pub struct PoolWatch {
    device: Device,
    boundaries: Rc<RefCell<Vec<Boundary>>>,
}

impl PoolWatch {
    /// For a device off autodiff.
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), boundaries: Rc::default() }
    }

    /// What was read so far.
    pub fn boundaries(&self) -> Vec<Boundary> {
        self.boundaries.borrow().clone()
    }
}

impl Watch for PoolWatch {
    fn holds(&mut self, _category: Category, _name: &str, _tensor: &AnyTensor) {}

    fn boundary(&mut self, stage: &str) {
        let Some(reading) = PoolReading::of(&self.device) else { return };
        let boundary = Boundary { phase: place().phase(), stage: stage.to_owned(), reading };
        self.boundaries.borrow_mut().push(boundary);
    }
}

/// What a training reports of its device's memory: of several on the CPU, of the one that was fullest.
#[derive(Debug)]
pub(crate) struct Gauge {
    device: Device,
    /// How many devices of the CPU this process has.
    devices: usize,
    highest: Bytes,
    /// At the last look.
    reserved: Option<Bytes>,
}

/// One look at a [`Gauge`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gauged {
    pub(crate) in_use_bytes: Bytes,
    /// On the CPU exact; on a GPU the highest that was seen.
    pub(crate) peak_in_use_bytes: Bytes,
    pub(crate) pools: Option<PoolReading>,
}

impl Gauge {
    /// Of so many devices.
    pub(crate) fn new(device: &Device, devices: usize) -> Self {
        Self { device: device.clone(), devices, highest: Bytes::default(), reserved: None }
    }

    /// What a GPU's allocator held at the last look: one that failed is not asked any more.
    pub(crate) fn reserved_bytes(&self) -> Option<Bytes> {
        self.reserved
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
        self.reserved = Some(reading.reserved_bytes);
        Gauged { in_use_bytes: reading.in_use_bytes, peak_in_use_bytes: self.highest, pools }
    }
}
