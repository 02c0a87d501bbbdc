use oomph_core::Bytes;
use serde::Serialize;

use super::{DeviceReading, NvmlError};

/// A source of cards: [`Nvml`](super::Nvml), or a test's.
pub trait Cards {
    /// The current state of every card, in the order of PCI addresses.
    ///
    /// # Errors
    /// The driver does not answer.
    fn sample(&mut self) -> Result<Vec<Card>, NvmlError>;
}

/// One sample of a card. Figures that the card or its driver does not provide are `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Card {
    /// Its index in the order of PCI addresses, which is the driver's.
    pub index: u32,
    /// Its permanent UUID: `GPU-…`.
    pub uuid: String,
    /// Its model.
    pub name: String,
    /// Its PCI address.
    pub pci_bus_id: Option<String>,
    /// The number of its device file, `/dev/nvidia0`.
    pub minor: Option<u32>,
    /// Its memory. Absent on boards that share the processor's memory.
    pub memory: Option<CardMemory>,
    /// Share of the last sample period in which a kernel ran. Absent in MIG mode.
    pub gpu_utilization_percent: Option<u32>,
    /// Share of the last sample period in which memory was read or written. Absent in MIG mode.
    pub memory_utilization_percent: Option<u32>,
    /// Temperature of the chip.
    pub temperature_celsius: Option<u32>,
    /// Its power draw.
    pub power_watts: Option<f64>,
    /// Its power limit.
    pub power_limit_watts: Option<f64>,
    /// Its processes. Within a container the driver may list none.
    pub processes: Vec<CardProcess>,
    /// Its instances, if MIG mode is on.
    pub mig_instances: Vec<MigInstance>,
    /// Whether MIG mode is on: programs then see the instances instead of the card.
    pub mig: bool,
}

impl Card {
    /// Memory and processes of the whole card.
    pub fn reading(&self) -> DeviceReading<'_> {
        DeviceReading { uuid: &self.uuid, name: &self.name, memory: self.memory, processes: &self.processes }
    }
}

/// Settings and errors of a card beyond those of [`Card`]. Figures that the card or its driver does not
/// provide are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardState {
    /// Its compute mode.
    pub compute_mode: Option<ComputeMode>,
    /// Uncorrectable memory errors since the driver was loaded.
    pub uncorrected_errors: Option<u64>,
    /// Whether broken memory cells wait for a restart to be retired.
    pub retirement_pending: Option<bool>,
}

/// The processes that may compute on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComputeMode {
    /// Any number of processes.
    Default,
    /// One process at a time.
    ExclusiveProcess,
    /// None.
    Prohibited,
}

/// Memory of a card or instance. `used`, `free` and `reserved` add up to `total`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CardMemory {
    /// The total.
    pub total_bytes: Bytes,
    /// Memory held by programs.
    pub used_bytes: Bytes,
    /// Free memory.
    pub free_bytes: Bytes,
    /// Memory reserved by the driver and its firmware.
    pub reserved_bytes: Bytes,
}

/// A MIG instance: a part of a card with its own memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MigInstance {
    /// Its UUID: `MIG-…`.
    pub uuid: String,
    /// Model and profile: `NVIDIA A100-SXM4-80GB MIG 3g.40gb`.
    pub name: String,
    /// Its memory.
    pub memory: Option<CardMemory>,
    /// Its processes.
    pub processes: Vec<CardProcess>,
}

impl MigInstance {
    /// Memory and processes of the instance.
    pub fn reading(&self) -> DeviceReading<'_> {
        DeviceReading { uuid: &self.uuid, name: &self.name, memory: self.memory, processes: &self.processes }
    }
}

/// A process on a card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CardProcess {
    /// Its id on the machine, which differs from that in a container.
    pub pid: u32,
    /// Its memory, with its context.
    pub used_bytes: Option<Bytes>,
    /// The APIs it uses.
    pub kind: ProcessKind,
    /// Share of the time since the last sample in which its kernels ran. Absent if the driver does not count per process.
    pub gpu_utilization_percent: Option<u32>,
}

/// The APIs that a process uses on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessKind {
    /// CUDA.
    Compute,
    /// OpenGL or Vulkan, as a desktop does.
    Graphics,
    /// CUDA and graphics.
    Both,
}

/// Merges the driver's two lists. A process may be on both, with the same memory.
pub(super) fn merged(
    compute: Vec<(u32, Option<u64>)>,
    graphics: Vec<(u32, Option<u64>)>,
) -> Vec<CardProcess> {
    let mut all: Vec<CardProcess> = Vec::new();
    let lists = [(ProcessKind::Compute, compute), (ProcessKind::Graphics, graphics)];
    for (kind, (pid, used)) in
        lists.into_iter().flat_map(|(kind, list)| list.into_iter().map(move |it| (kind, it)))
    {
        let used_bytes = used.map(Bytes::new);
        match all.iter_mut().find(|process| process.pid == pid) {
            Some(known) => {
                known.used_bytes = known.used_bytes.max(used_bytes);
                if known.kind != kind {
                    known.kind = ProcessKind::Both;
                }
            }
            None => all.push(CardProcess { pid, used_bytes, kind, gpu_utilization_percent: None }),
        }
    }
    all.sort_by_key(|process| process.pid);
    all
}

/// Sets the utilization of each process. `samples` are ids with shares, only of busy processes.
pub(super) fn credit(processes: &mut [CardProcess], samples: &[(u32, u32)]) {
    for process in processes {
        let own = samples.iter().filter(|(pid, _)| *pid == process.pid).map(|(_, percent)| *percent);
        // Drivers occasionally report more than 100.
        process.gpu_utilization_percent = Some(own.filter(|percent| *percent <= 100).max().unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_on_both_lists_is_one() {
        let all = merged(vec![(7, Some(100)), (3, None)], vec![(7, Some(100)), (5, Some(1))]);
        let kinds: Vec<_> = all.iter().map(|it| (it.pid, it.kind, it.used_bytes.map(Bytes::get))).collect();
        assert_eq!(
            kinds,
            [
                (3, ProcessKind::Compute, None),
                (5, ProcessKind::Graphics, Some(1)),
                (7, ProcessKind::Both, Some(100)),
            ]
        );
    }

    #[test]
    fn who_is_not_among_the_samples_did_nothing() {
        let mut processes = merged(vec![(1, None), (2, None), (3, None)], vec![]);
        credit(&mut processes, &[(2, 40), (2, 60), (3, 4_000_000)]);
        let shares: Vec<_> = processes.iter().map(|it| it.gpu_utilization_percent).collect();
        assert_eq!(shares, [Some(0), Some(60), Some(0)]);
    }
}
