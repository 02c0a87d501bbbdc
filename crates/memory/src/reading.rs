use std::sync::atomic::Ordering::Relaxed;

use oomph_core::{Bytes, current_device};

use crate::{
    account::{Account, charge},
    allocator::{Device, HOST},
};

/// The figures of one moment: of one CPU device, and of the program that all of them share.
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

/// Reads the meter of the CPU device that this thread works for: the only one, where nobody said
/// [another](oomph_core::on_device). All zero where [`install_meter!`](crate::install_meter) is missing: see
/// [`is_installed`].
pub fn read() -> Reading {
    read_device(current_device())
}

/// Reads the meter of the CPU device of that index.
pub fn read_device(device: usize) -> Reading {
    let figures = Device::of(device);
    Reading {
        in_use_bytes: Bytes::new(figures.live.load(Relaxed)),
        peak_in_use_bytes: Bytes::new(figures.peak.load(Relaxed)),
        host_bytes: Bytes::new(HOST.live.load(Relaxed)),
        allocations: figures.allocations.load(Relaxed),
    }
}

/// Starts a new peak of this thread's device from what is in use on it now.
pub fn restart_peak() {
    let figures = Device::of(current_device());
    figures.peak.store(figures.live.load(Relaxed), Relaxed);
}

/// Whether the counting allocator is this program's. Without it CPU memory is not measured.
pub fn is_installed() -> bool {
    // Something is allocated on the host while it is asked.
    let probe = charge(Account::Host, || std::hint::black_box(Box::new(0u8)));
    let is_counted = HOST.live.load(Relaxed) > 0;
    drop(probe);
    is_counted
}
