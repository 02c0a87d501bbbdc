use std::sync::atomic::Ordering::Relaxed;

use oomph_core::Bytes;

use crate::{
    account::{Account, charge},
    allocator::{DEVICE, HOST},
};

/// The figures of one moment, of the whole process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Bytes of tensors and kernel workspaces on the CPU device now.
    pub in_use_bytes: Bytes,
    /// The most that were in use since the start or the last [`restart_peak`].
    pub peak_in_use_bytes: Bytes,
    /// Bytes that the rest of the program holds: data sets, decoded images, itself.
    pub host_bytes: Bytes,
    /// Allocations on the CPU device since the start.
    pub allocations: u64,
}

/// Reads the meter. All zero where [`install_meter!`](crate::install_meter) is missing: see [`is_installed`].
pub fn read() -> Reading {
    Reading {
        in_use_bytes: Bytes::new(DEVICE.live.load(Relaxed)),
        peak_in_use_bytes: Bytes::new(DEVICE.peak.load(Relaxed)),
        host_bytes: Bytes::new(HOST.live.load(Relaxed)),
        allocations: DEVICE.allocations.load(Relaxed),
    }
}

/// Starts a new peak from what is in use now.
pub fn restart_peak() {
    DEVICE.peak.store(DEVICE.live.load(Relaxed), Relaxed);
}

/// Whether the counting allocator is this program's. Without it CPU memory is not measured.
pub fn is_installed() -> bool {
    // Something is allocated on the host while it is asked.
    let probe = charge(Account::Host, || std::hint::black_box(Box::new(0u8)));
    let is_counted = HOST.live.load(Relaxed) > 0;
    drop(probe);
    is_counted
}
