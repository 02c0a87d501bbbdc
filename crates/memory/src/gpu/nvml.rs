use std::{collections::HashMap, ffi::OsStr};

use nvml_wrapper::{
    Device,
    enum_wrappers::device::{ComputeMode as Mode, EccCounter, MemoryError, TemperatureSensor},
    enums::device::UsedGpuMemory,
    error::NvmlError as Answer,
    struct_wrappers::device::ProcessInfo,
};
use oomph_core::Bytes;

use super::{
    Card, CardMemory, CardProcess, CardState, Cards, ComputeMode, MigInstance,
    card::{credit, merged},
};

/// NVIDIA's management library, which comes with the driver. The name without a version is in the development package
/// only.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// Why the cards cannot be queried.
#[derive(Debug, thiserror::Error)]
pub enum NvmlError {
    /// The library cannot be loaded.
    #[error(
        "`{library}` cannot be loaded: no NVIDIA driver is installed, or the container has no access to it"
    )]
    Missing {
        /// The file name of the library.
        library: &'static str,
        /// The loader's error.
        #[source]
        source: Answer,
    },
    /// The driver's kernel module is not loaded.
    #[error("the NVIDIA driver is installed, but not loaded")]
    NotLoaded,
    /// Library and running driver have different versions.
    #[error("the NVIDIA driver was updated, but the old one still runs")]
    VersionMismatch,
    /// This user has no permission.
    #[error("the NVIDIA driver denies this user access")]
    NoPermission,
    /// The driver failed.
    #[error("the NVIDIA driver cannot report the {query}")]
    Query {
        /// The query.
        query: &'static str,
        /// The driver's error.
        #[source]
        source: Answer,
    },
}

impl NvmlError {
    /// The remedy.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Missing { .. } => {
                "for an NVIDIA GPU, install its driver; a container needs `--gpus all` and the capability `utility`"
            }
            Self::NotLoaded => "run `modprobe nvidia`, or restart the machine",
            Self::VersionMismatch => "restart the machine",
            Self::NoPermission => "make the files `/dev/nvidia*` readable and writable for this user",
            Self::Query { .. } => "`nvidia-smi` shows details; a restart of the machine may help",
        })
    }

    /// Whether the driver lost a card.
    pub fn is_lost_card(&self) -> bool {
        matches!(self, Self::Query { source: Answer::GpuLost, .. })
    }

    fn on_start(source: Answer) -> Self {
        match source {
            Answer::LibloadingError(_) => Self::Missing { library: LIBRARY, source },
            Answer::DriverNotLoaded => Self::NotLoaded,
            Answer::LibRmVersionMismatch => Self::VersionMismatch,
            Answer::NoPermission => Self::NoPermission,
            _ => Self::Query { query: "state of its library", source },
        }
    }
}

/// NVIDIA's cards by its management library.
#[derive(Debug)]
pub struct Nvml {
    library: nvml_wrapper::Nvml,
    /// By card: the time of the newest sample of its processes, in microseconds of the driver's clock.
    seen: HashMap<String, u64>,
}

impl Nvml {
    /// Loads the library.
    ///
    /// # Errors
    /// The library is missing, or does not work.
    pub fn open() -> Result<Self, NvmlError> {
        let library = nvml_wrapper::Nvml::builder().lib_path(OsStr::new(LIBRARY)).init();
        library.map(|library| Self { library, seen: HashMap::new() }).map_err(NvmlError::on_start)
    }

    /// The version of the driver.
    pub fn driver_version(&self) -> Option<String> {
        self.library.sys_driver_version().ok()
    }

    /// The settings and errors of the card of that index.
    pub fn state(&self, index: u32) -> CardState {
        let Ok(device) = self.library.device_by_index(index) else { return CardState::default() };
        let errors = device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile);
        CardState {
            compute_mode: device.compute_mode().ok().map(|mode| match mode {
                Mode::Default => ComputeMode::Default,
                // The driver replaced threads by processes in CUDA 8.
                Mode::ExclusiveThread | Mode::ExclusiveProcess => ComputeMode::ExclusiveProcess,
                Mode::Prohibited => ComputeMode::Prohibited,
            }),
            uncorrected_errors: errors.ok(),
            retirement_pending: device.are_pages_pending_retired().ok(),
        }
    }
}

impl Cards for Nvml {
    fn sample(&mut self) -> Result<Vec<Card>, NvmlError> {
        let failed = |query| move |source| NvmlError::Query { query, source };
        let count = self.library.device_count().map_err(failed("number of cards"))?;
        let mut cards = Vec::new();
        for index in 0..count {
            let device = match self.library.device_by_index(index) {
                Ok(device) => device,
                // The count includes cards that the container was not given, which cannot be opened.
                Err(Answer::NoPermission) => continue,
                Err(source) => return Err(failed("handle of a card")(source)),
            };
            let uuid = device.uuid().map_err(failed("UUID of a card"))?;
            let mut card = card(&device, index, uuid).map_err(failed("name of a card"))?;
            let since = self.seen.get(&card.uuid).copied();
            if let Some(newest) = credit_processes(&device, since, &mut card.processes) {
                self.seen.insert(card.uuid.clone(), newest);
            }
            cards.push(card);
        }
        Ok(cards)
    }
}

/// A card or an older driver may refuse everything but name and UUID; those figures are absent.
fn card(device: &Device<'_>, index: u32, uuid: String) -> Result<Card, Answer> {
    let utilization = device.utilization_rates().ok();
    let mig = device.mig_mode().is_ok_and(|mode| mode.current == 1);
    Ok(Card {
        index,
        uuid,
        name: device.name()?,
        pci_bus_id: device.pci_info().ok().map(|pci| pci.bus_id),
        minor: minor(device),
        memory: memory(device),
        gpu_utilization_percent: utilization.as_ref().map(|it| it.gpu),
        memory_utilization_percent: utilization.as_ref().map(|it| it.memory),
        temperature_celsius: device.temperature(TemperatureSensor::Gpu).ok(),
        power_watts: device.power_usage().ok().map(watts),
        power_limit_watts: device.enforced_power_limit().ok().map(watts),
        processes: processes(device),
        mig_instances: if mig { instances(device) } else { Vec::new() },
        mig,
    })
}

/// The number of the card's device file, which Linux alone has.
#[cfg(target_os = "linux")]
fn minor(device: &Device<'_>) -> Option<u32> {
    device.minor_number().ok()
}

/// The number of the card's device file, which Linux alone has.
#[cfg(not(target_os = "linux"))]
fn minor(_device: &Device<'_>) -> Option<u32> {
    None
}

fn watts(milliwatts: u32) -> f64 {
    f64::from(milliwatts) / 1000.0
}

fn memory(device: &Device<'_>) -> Option<CardMemory> {
    let memory = device.memory_info().ok()?;
    Some(CardMemory {
        total_bytes: Bytes::new(memory.total),
        used_bytes: Bytes::new(memory.used),
        free_bytes: Bytes::new(memory.free),
        reserved_bytes: Bytes::new(memory.reserved),
    })
}

fn processes(device: &Device<'_>) -> Vec<CardProcess> {
    let list = |answer: Result<Vec<ProcessInfo>, Answer>| -> Vec<(u32, Option<u64>)> {
        let used = |memory| match memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        };
        let listed = answer.unwrap_or_default().into_iter();
        listed.map(|process| (process.pid, used(process.used_gpu_memory))).collect()
    };
    merged(list(device.running_compute_processes()), list(device.running_graphics_processes()))
}

fn instances(device: &Device<'_>) -> Vec<MigInstance> {
    // The count includes empty slots, which return an error.
    let places = 0..device.mig_device_count().unwrap_or(0);
    let instance = |place| {
        let part = device.mig_device_by_index(place).ok()?;
        let (uuid, name) = (part.uuid().ok()?, part.name().ok()?);
        Some(MigInstance { uuid, name, memory: memory(&part), processes: processes(&part) })
    };
    places.filter_map(instance).collect()
}

/// Sets the utilization of each process since the last sample, and returns the time of the newest sample.
fn credit_processes(device: &Device<'_>, since: Option<u64>, processes: &mut [CardProcess]) -> Option<u64> {
    let samples = match device.process_utilization_stats(since) {
        Ok(samples) => samples,
        // Some drivers report idleness this way.
        Err(Answer::NotFound) => Vec::new(),
        Err(_) => return None,
    };
    let shares: Vec<_> = samples.iter().map(|sample| (sample.pid, sample.sm_util)).collect();
    credit(processes, &shares);
    samples.iter().map(|sample| sample.timestamp).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_an_answer() {
        // On a machine with a driver there is nothing to check.
        if let Err(error) = Nvml::open() {
            assert!(error.hint().is_some());
            assert!(!error.to_string().ends_with('.'), "{error}");
        }
    }

    #[test]
    fn what_the_driver_answers_has_a_name() {
        assert!(matches!(NvmlError::on_start(Answer::DriverNotLoaded), NvmlError::NotLoaded));
        assert!(matches!(NvmlError::on_start(Answer::LibRmVersionMismatch), NvmlError::VersionMismatch));
        assert!(matches!(NvmlError::on_start(Answer::NoPermission), NvmlError::NoPermission));
        assert!(matches!(NvmlError::on_start(Answer::Unknown), NvmlError::Query { .. }));
    }
}
