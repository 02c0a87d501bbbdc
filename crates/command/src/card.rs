//! The driver's account of the memory of this process's card.

use std::process;

use oomph_config::DeviceName;
use oomph_memory::gpu::{Breakdown, Cards as _, Nvml, OwnMemory, cuda_devices, visible_devices};
use oomph_trainer::PoolReading;

/// The memory of the card `device`, beside a reading of the pools; `None` if the driver does not answer.
pub fn own_card(device: DeviceName, pools: &PoolReading) -> Option<Breakdown> {
    let DeviceName::Cuda(index) = device else { return None };
    let cards = Nvml::open().ok()?.sample().ok()?;
    let devices = cuda_devices(&cards, visible_devices());
    let PoolReading { in_use_bytes, reserved_bytes, .. } = *pools;
    let own = OwnMemory { pid: process::id(), in_use_bytes, reserved_bytes };
    Some(Breakdown::new(&devices.get(index)?.reading(), own))
}
