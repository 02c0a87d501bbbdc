use oomph_core::Bytes;
use serde::{Deserialize, Serialize};

use super::{CardMemory, CardProcess};

/// Memory and processes of a card or MIG instance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceReading<'a> {
    /// Its UUID.
    pub uuid: &'a str,
    /// Its model.
    pub name: &'a str,
    /// Its memory.
    pub memory: Option<CardMemory>,
    /// Its processes.
    pub processes: &'a [CardProcess],
}

impl DeviceReading<'_> {
    /// The memory of a process by the driver, with its context. `None` if the driver does not list the process: it holds
    /// nothing, or this is a container with its own process ids.
    pub fn process_bytes(&self, pid: u32) -> Option<Bytes> {
        self.processes.iter().find(|process| process.pid == pid)?.used_bytes
    }
}

/// A process's own figures of its memory on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnMemory {
    /// Its id.
    pub pid: u32,
    /// Bytes of its live tensors and kernel workspaces.
    pub in_use_bytes: Bytes,
    /// Bytes reserved by its allocator.
    pub reserved_bytes: Bytes,
}

/// The memory of a device from the view of one process. `in_use`, `fragmentation`, `context`, `others` and
/// `unattributed` add up to the used memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breakdown {
    /// Live tensors and kernel workspaces of this process.
    pub in_use_bytes: Bytes,
    /// Reserved by this process and not in use: reserved − in use.
    pub fragmentation_bytes: Bytes,
    /// The memory of this process by the driver; `None` if it does not list the process.
    pub process_total_bytes: Option<Bytes>,
    /// CUDA itself, kernels and stacks of this process: process total − reserved.
    pub context_bytes: Option<Bytes>,
    /// The memory of other processes by the driver.
    pub others_bytes: Bytes,
    /// Used memory that the driver attributes to no process. If it does not list this process, this includes its context.
    pub unattributed_bytes: Bytes,
    /// Free memory.
    pub free_bytes: Bytes,
    /// All memory of the device.
    pub total_bytes: Bytes,
}

impl Breakdown {
    /// Breaks down the memory of a device for one of its processes.
    pub fn new(device: &DeviceReading<'_>, own: OwnMemory) -> Self {
        let memory = device.memory.unwrap_or_default();
        let process_total_bytes = device.process_bytes(own.pid);
        let others = device.processes.iter().filter(|process| process.pid != own.pid);
        let others_bytes: Bytes = others.filter_map(|process| process.used_bytes).sum();
        // The two readings are from different moments and may disagree.
        let ours = process_total_bytes.unwrap_or_default().max(own.reserved_bytes).max(own.in_use_bytes);
        Self {
            in_use_bytes: own.in_use_bytes,
            fragmentation_bytes: own.reserved_bytes.saturating_sub(own.in_use_bytes),
            process_total_bytes,
            context_bytes: process_total_bytes.map(|total| total.saturating_sub(own.reserved_bytes)),
            others_bytes,
            unattributed_bytes: memory.used_bytes.saturating_sub(ours + others_bytes),
            free_bytes: memory.free_bytes,
            total_bytes: memory.total_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gpu::ProcessKind;

    fn process(pid: u32, used: Option<u64>) -> CardProcess {
        let used_bytes = used.map(Bytes::mib);
        CardProcess { pid, used_bytes, kind: ProcessKind::Compute, gpu_utilization_percent: None }
    }

    fn breakdown(used: u64, processes: &[CardProcess], in_use: u64, reserved: u64) -> Breakdown {
        let memory = CardMemory {
            total_bytes: Bytes::mib(1000),
            used_bytes: Bytes::mib(used),
            free_bytes: Bytes::mib(1000 - used),
            reserved_bytes: Bytes::mib(0),
        };
        let device = DeviceReading { uuid: "GPU-1", name: "card", memory: Some(memory), processes };
        let (in_use_bytes, reserved_bytes) = (Bytes::mib(in_use), Bytes::mib(reserved));
        Breakdown::new(&device, OwnMemory { pid: 1, in_use_bytes, reserved_bytes })
    }

    #[test]
    fn the_parts_make_up_what_is_used() {
        let parts = breakdown(700, &[process(1, Some(500)), process(2, Some(150))], 300, 400);
        assert_eq!(parts.fragmentation_bytes, Bytes::mib(100));
        assert_eq!(parts.context_bytes, Some(Bytes::mib(100)));
        assert_eq!(parts.others_bytes, Bytes::mib(150));
        assert_eq!(parts.unattributed_bytes, Bytes::mib(50));
        assert_eq!(parts.free_bytes, Bytes::mib(300));
    }

    #[test]
    fn where_the_driver_lists_nobody_the_rest_is_unattributed() {
        let parts = breakdown(700, &[], 300, 400);
        assert_eq!((parts.process_total_bytes, parts.context_bytes), (None, None));
        assert_eq!(parts.unattributed_bytes, Bytes::mib(300));
    }

    #[test]
    fn readings_of_different_moments_do_not_go_below_zero() {
        let parts = breakdown(100, &[process(1, Some(90)), process(2, None)], 500, 400);
        let zero = Bytes::new(0);
        assert_eq!(parts.fragmentation_bytes, zero);
        assert_eq!(parts.context_bytes, Some(zero));
        assert_eq!(parts.unattributed_bytes, zero);
    }
}
