use std::sync::atomic::Ordering::Relaxed;

use oomph_core::{Account, Bytes, charge, current_device};

use crate::allocator::{Device, HOST};

/// The figures of one moment: of one CPU device, and of the host account that all devices share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Bytes of tensors and kernel workspaces on the CPU device now.
    pub in_use_bytes: Bytes,
    /// The most bytes in use since the start or the last [`restart_peak`].
    pub peak_in_use_bytes: Bytes,
    /// Bytes of the host account: data sets, decoded images, the program itself.
    pub host_bytes: Bytes,
    /// Allocations on the CPU device since the start.
    pub allocations: u64,
}

/// Reads the meter of this thread's CPU device: the first, unless [set otherwise](oomph_core::on_device). All figures are 0
/// without [`install_meter!`](crate::install_meter): see [`is_installed`].
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

/// Restarts the peak of this thread's device at the bytes in use now.
pub fn restart_peak() {
    let figures = Device::of(current_device());
    figures.peak.store(figures.live.load(Relaxed), Relaxed);
}

/// Whether this program uses the counting allocator. Without it CPU memory is not measured.
pub fn is_installed() -> bool {
    // The check allocates on the host.
    let probe = charge(Account::Host, || std::hint::black_box(Box::new(0u8)));
    let is_counted = HOST.live.load(Relaxed) > 0;
    drop(probe);
    is_counted
}
