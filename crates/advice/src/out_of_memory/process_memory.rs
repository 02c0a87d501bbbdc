use oomph_config::DeviceName;
use oomph_core::Bytes;
use oomph_memory::{
    gpu::{Breakdown, Cards as _, Nvml, OwnMemory, cuda_devices, visible_devices},
    processes::Procfs,
    read,
};
use serde::{Deserialize, Serialize};

use oomph_engine::session::Session;

/// Memory of the device beside the memory in use: the allocator's reserve, and other processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMemory {
    /// Bytes that the allocator of this process has reserved. On the CPU: the resident set size of the process, less
    /// host memory that the meter counts separately.
    pub reserved_bytes: Option<Bytes>,
    /// Reserved bytes that are not in use.
    pub fragmentation_bytes: Option<Bytes>,
    /// Bytes of other processes.
    pub others_bytes: Option<Bytes>,
    /// Free bytes of the device.
    pub free_bytes: Option<Bytes>,
    /// All bytes of the device.
    pub total_bytes: Option<Bytes>,
    /// The largest other processes, the largest first.
    pub others: Vec<OtherProcess>,
}

/// Another process with memory on the device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherProcess {
    /// Its id.
    pub pid: u32,
    /// The beginning of its command line; empty if it is hidden.
    pub command: String,
    /// Bytes of the process.
    pub bytes: Bytes,
}

/// Free bytes of a GPU, if its driver answers; `None` for a CPU device.
pub fn free_bytes(device: DeviceName) -> Option<Bytes> {
    let DeviceName::Cuda(index) = device else { return None };
    ProcessMemory::of_card(index, Bytes::default(), None)?.free_bytes
}

/// The number of other processes in a report.
const NAMED: usize = 3;

impl ProcessMemory {
    /// Reads the memory around `in_use_bytes` in use on the device of that number. `reserved_bytes` is the last reading of
    /// a GPU's allocator.
    pub(super) fn look(
        session: &Session,
        device: usize,
        in_use_bytes: Bytes,
        reserved_bytes: Option<Bytes>,
    ) -> Self {
        match session.config.device.devices[device] {
            DeviceName::Cpu => {
                let around = Self::of_machine(&Procfs::system(), std::process::id(), in_use_bytes);
                match session.config.memory.limit {
                    // A CPU device with a configured limit has no other processes.
                    Some(_) => Self {
                        reserved_bytes: around.reserved_bytes,
                        fragmentation_bytes: around.fragmentation_bytes,
                        ..Self::default()
                    },
                    None => around,
                }
            }
            DeviceName::Vulkan(_) => Self::default(),
            DeviceName::Cuda(index) => Self::of_card(index, in_use_bytes, reserved_bytes).unwrap_or_default(),
        }
    }

    fn of_machine(procfs: &Procfs, own: u32, in_use_bytes: Bytes) -> Self {
        let processes = procfs.pids().into_iter().filter_map(|pid| procfs.process(pid));
        let (own, others): (Vec<_>, Vec<_>) = processes.partition(|process| process.pid == own);
        let reserved = own.first().map(|process| process.resident_bytes.saturating_sub(read().host_bytes));
        let memory = procfs.host_memory();
        let known = |bytes: Bytes| Some(bytes).filter(|bytes| *bytes != Bytes::default());
        Self {
            reserved_bytes: reserved,
            fragmentation_bytes: reserved.map(|reserved| reserved.saturating_sub(in_use_bytes)),
            others_bytes: known(others.iter().map(|process| process.resident_bytes).sum()),
            free_bytes: known(memory.available_bytes),
            total_bytes: known(memory.total_bytes),
            others: largest(others.iter().map(|process| OtherProcess {
                pid: process.pid,
                command: short(&process.command),
                bytes: process.resident_bytes,
            })),
        }
    }

    /// Reads a GPU from its driver; `None` if the driver does not answer.
    fn of_card(index: usize, in_use_bytes: Bytes, reserved_bytes: Option<Bytes>) -> Option<Self> {
        let cards = Nvml::open().ok()?.sample().ok()?;
        let devices = cuda_devices(&cards, visible_devices());
        let reading = devices.get(index)?.reading();
        let pid = std::process::id();
        let own = OwnMemory { pid, in_use_bytes, reserved_bytes: reserved_bytes.unwrap_or(in_use_bytes) };
        let parts = Breakdown::new(&reading, own);
        let procfs = Procfs::system();
        let others = reading.processes.iter().filter(|process| process.pid != pid);
        Some(Self {
            reserved_bytes,
            fragmentation_bytes: reserved_bytes.map(|_| parts.fragmentation_bytes),
            others_bytes: Some(parts.others_bytes),
            free_bytes: Some(parts.free_bytes),
            total_bytes: Some(parts.total_bytes),
            others: largest(others.filter_map(|process| {
                let command = procfs.process(process.pid).map(|known| short(&known.command));
                Some(OtherProcess {
                    pid: process.pid,
                    command: command.unwrap_or_default(),
                    bytes: process.used_bytes?,
                })
            })),
        })
    }
}

/// The beginning of a command: enough to recognise it, without later arguments, which may be private.
fn short(command: &[String]) -> String {
    /// Letters.
    const MOST: usize = 40;
    let whole = command.join(" ");
    let beginning: String = whole.chars().take(MOST).collect();
    if beginning.len() < whole.len() { beginning + "…" } else { beginning }
}

fn largest(processes: impl Iterator<Item = OtherProcess>) -> Vec<OtherProcess> {
    let mut largest: Vec<_> = processes.filter(|process| process.bytes > Bytes::default()).collect();
    largest.sort_by_key(|process| std::cmp::Reverse(process.bytes));
    largest.truncate(NAMED);
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_processes_are_named() {
        let of = |pid, bytes| OtherProcess { pid, command: String::new(), bytes: Bytes::new(bytes) };
        let named = largest([of(1, 5), of(2, 0), of(3, 9), of(4, 7), of(5, 1)].into_iter());
        assert_eq!(named.iter().map(|process| process.pid).collect::<Vec<_>>(), [3, 4, 1]);
    }

    #[test]
    fn the_memory_of_this_machine_can_be_read() {
        let around = ProcessMemory::of_machine(&Procfs::system(), std::process::id(), Bytes::new(1));
        assert!(around.reserved_bytes > around.fragmentation_bytes && around.total_bytes > around.free_bytes);
    }
}
