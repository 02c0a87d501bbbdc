use std::{
    collections::HashMap,
    env,
    path::PathBuf,
    time::{Duration, Instant, SystemTime},
};

use oomph_core::Bytes;
use oomph_memory::{
    gpu::{Card, CardMemory, Cards, MigInstance, Nvml, NvmlError, ProcessKind, cuda_devices},
    processes::{GpuProcess, HostMemory, Process, Procfs, Watch, on_gpus},
};
use serde::Serialize;

/// A sample; one line of JSON.
#[derive(Debug, Serialize)]
pub struct Sample {
    pub(crate) unix_seconds: f64,
    pub(crate) cards: Vec<CardSample>,
    /// Why there are no cards.
    pub no_gpu: Option<String>,
    pub(crate) host: HostMemory,
    pub(crate) trainings: Vec<Training>,
}

/// A card, with its MIG instances if it has any.
#[derive(Debug, Serialize)]
pub(crate) struct CardSample {
    pub(crate) index: u32,
    /// Its name for `--devices`, if CUDA_VISIBLE_DEVICES includes it.
    pub(crate) device: Option<String>,
    pub(crate) uuid: String,
    pub(crate) name: String,
    pub(crate) pci_bus_id: Option<String>,
    #[serde(flatten)]
    pub(crate) memory: MemorySample,
    pub(crate) gpu_utilization_percent: Option<u32>,
    pub(crate) memory_utilization_percent: Option<u32>,
    pub(crate) temperature_celsius: Option<u32>,
    pub(crate) power_watts: Option<f64>,
    pub(crate) power_limit_watts: Option<f64>,
    pub(crate) mig_instances: Vec<InstanceSample>,
    pub(crate) processes: Vec<ProcessSample>,
}

#[derive(Debug, Serialize)]
pub(crate) struct InstanceSample {
    pub(crate) device: Option<String>,
    pub(crate) uuid: String,
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) memory: MemorySample,
}

#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct MemorySample {
    pub(crate) memory_used_bytes: Option<Bytes>,
    pub(crate) memory_total_bytes: Option<Bytes>,
    pub(crate) memory_free_bytes: Option<Bytes>,
    pub(crate) memory_reserved_bytes: Option<Bytes>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ProcessSample {
    pub(crate) pid: u32,
    pub(crate) user: Option<String>,
    pub(crate) command: Option<String>,
    pub(crate) memory_bytes: Option<Bytes>,
    pub(crate) gpu_utilization_percent: Option<u32>,
    /// `None` if the driver does not list the process.
    pub(crate) kind: Option<ProcessKind>,
    pub(crate) age_seconds: Option<f64>,
    pub(crate) parent_is_gone: bool,
    pub(crate) stale: bool,
    /// The command that ends a stale process.
    pub(crate) end_with: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Training {
    pub(crate) pid: u32,
    pub(crate) user: String,
    pub(crate) command: String,
    pub(crate) resident_bytes: Bytes,
    pub(crate) peak_resident_bytes: Bytes,
    pub(crate) processor_percent: Option<f64>,
    pub(crate) age_seconds: f64,
}

/// Takes samples, and remembers earlier ones for rates.
pub struct Sampler {
    cards: Result<Box<dyn Cards>, NvmlError>,
    /// Why the last sample failed, if the driver worked before.
    failed: Option<NvmlError>,
    visible: Option<String>,
    procfs: Procfs,
    own: Option<PathBuf>,
    start: Instant,
    watch: Watch,
    processors: Processors,
}

impl Sampler {
    /// Opens the driver, if there is one. `visible` is the value of `CUDA_VISIBLE_DEVICES`.
    pub fn open(visible: Option<String>) -> Self {
        Self {
            cards: Nvml::open().map(|nvml| Box::new(nvml) as Box<dyn Cards>),
            failed: None,
            visible,
            procfs: Procfs::system(),
            own: env::current_exe().ok(),
            start: Instant::now(),
            watch: Watch::default(),
            processors: Processors::default(),
        }
    }

    /// Why the last sample has no cards.
    pub fn no_gpu(&self) -> Option<&NvmlError> {
        self.failed.as_ref().or(self.cards.as_ref().err())
    }

    /// Takes a sample.
    pub fn sample(&mut self) -> Sample {
        let now = Instant::now();
        let cards = self.cards();
        let processes = on_gpus(&cards, &self.procfs, &mut self.watch, now.duration_since(self.start));
        let devices = Devices::of(&cards, self.visible.as_deref());
        Sample {
            unix_seconds: SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |time| time.as_secs_f64()),
            cards: cards.iter().map(|card| card_sample(card, &devices, &processes)).collect(),
            no_gpu: self.no_gpu().map(ToString::to_string),
            host: self.procfs.host_memory(),
            trainings: self.trainings(now),
        }
    }

    fn cards(&mut self) -> Vec<Card> {
        let Ok(source) = &mut self.cards else { return Vec::new() };
        let (cards, failed) = match source.sample() {
            Ok(cards) => (cards, None),
            Err(error) => (Vec::new(), Some(error)),
        };
        self.failed = failed;
        cards
    }

    fn trainings(&mut self, now: Instant) -> Vec<Training> {
        let processes = self.procfs.trainings(self.own.as_deref());
        let trainings = processes.into_iter().map(|process| Training {
            pid: process.pid,
            processor_percent: self.processors.percent(&process, now),
            age_seconds: process.age.as_secs_f64(),
            resident_bytes: process.resident_bytes,
            peak_resident_bytes: process.peak_resident_bytes,
            command: process.command.join(" "),
            user: process.user,
        });
        let trainings = trainings.collect();
        self.processors.forget_before(now);
        trainings
    }
}

/// The CUDA device names of cards and MIG instances, by UUID.
struct Devices(Vec<(String, String)>);

impl Devices {
    fn of(cards: &[Card], visible: Option<&str>) -> Self {
        let devices = cuda_devices(cards, visible).into_iter();
        Self(devices.map(|it| (it.reading().uuid.to_owned(), format!("cuda:{}", it.index))).collect())
    }

    fn name(&self, uuid: &str) -> Option<String> {
        self.0.iter().find(|(known, _)| known == uuid).map(|(_, name)| name.clone())
    }
}

fn card_sample(card: &Card, devices: &Devices, processes: &[GpuProcess]) -> CardSample {
    let own = processes.iter().filter(|process| process.card == card.index);
    let instance = |instance: &MigInstance| InstanceSample {
        device: devices.name(&instance.uuid),
        uuid: instance.uuid.clone(),
        name: instance.name.clone(),
        memory: instance.memory.into(),
    };
    CardSample {
        index: card.index,
        device: devices.name(&card.uuid),
        uuid: card.uuid.clone(),
        name: card.name.clone(),
        pci_bus_id: card.pci_bus_id.clone(),
        memory: card.memory.into(),
        gpu_utilization_percent: card.gpu_utilization_percent,
        memory_utilization_percent: card.memory_utilization_percent,
        temperature_celsius: card.temperature_celsius,
        power_watts: card.power_watts,
        power_limit_watts: card.power_limit_watts,
        mig_instances: card.mig_instances.iter().map(instance).collect(),
        processes: own.map(process_sample).collect(),
    }
}

impl From<Option<CardMemory>> for MemorySample {
    fn from(memory: Option<CardMemory>) -> Self {
        Self {
            memory_used_bytes: memory.map(|it| it.used_bytes),
            memory_total_bytes: memory.map(|it| it.total_bytes),
            memory_free_bytes: memory.map(|it| it.free_bytes),
            memory_reserved_bytes: memory.map(|it| it.reserved_bytes),
        }
    }
}

fn process_sample(found: &GpuProcess) -> ProcessSample {
    let process = found.process.as_ref();
    ProcessSample {
        pid: found.pid,
        user: process.map(|it| it.user.clone()),
        command: process.map(|it| it.command.join(" ")),
        memory_bytes: found.used_bytes,
        gpu_utilization_percent: found.gpu_utilization_percent,
        kind: found.kind,
        age_seconds: process.map(|it| it.age.as_secs_f64()),
        parent_is_gone: found.parent_is_gone,
        stale: found.stale,
        end_with: found.stale.then(|| format!("kill {}", found.pid)),
    }
}

/// The CPU usage of processes since their previous sample.
#[derive(Debug, Default)]
pub(crate) struct Processors {
    /// The time of the sample and the processor time until then, by process id and start: the system reuses ids.
    seen: HashMap<(u32, Duration), (Instant, Duration)>,
}

impl Processors {
    /// The CPU usage in percent of one core. The first sample of a process covers the time since its start.
    pub(crate) fn percent(&mut self, process: &Process, now: Instant) -> Option<f64> {
        let before = self.seen.insert((process.pid, process.started), (now, process.processor_time));
        let (took, time) = match before {
            Some((then, taken)) => {
                (process.processor_time.saturating_sub(taken), now.saturating_duration_since(then))
            }
            None => (process.processor_time, process.age),
        };
        (!time.is_zero()).then(|| 100.0 * took.as_secs_f64() / time.as_secs_f64())
    }

    /// Forgets the processes that were not sampled at `now`.
    pub(crate) fn forget_before(&mut self, now: Instant) {
        self.seen.retain(|_, (then, _)| *then >= now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_counts_since_the_last_sample() {
        let process = |seconds| Process {
            pid: 7,
            parent: 1,
            session: 1,
            user: "ada".into(),
            command: Vec::new(),
            executable: None,
            state: None,
            started: Duration::ZERO,
            age: Duration::from_secs(40),
            processor_time: Duration::from_secs(seconds),
            resident_bytes: Default::default(),
            peak_resident_bytes: Default::default(),
        };
        let (mut processors, start) = (Processors::default(), Instant::now());
        assert_eq!(processors.percent(&process(20), start), Some(50.0));
        assert_eq!(processors.percent(&process(24), start + Duration::from_secs(2)), Some(200.0));
        assert_eq!(processors.percent(&process(24), start + Duration::from_secs(2)), None);
        processors.forget_before(start + Duration::from_secs(3));
        assert!(processors.seen.is_empty());
    }
}
