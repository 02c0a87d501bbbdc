use std::{fs, thread};

use oomph_core::Bytes;

/// The machine as this process may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The processor's name, or its architecture where the system does not tell.
    pub processor: String,
    /// Cores that this process may run on.
    pub cores: usize,
    /// The smaller of the machine's memory and the limit of this process's cgroup; zero where the system tells
    /// neither.
    pub memory_bytes: Bytes,
}

/// Reads what the system says of itself (`/proc` and the cgroup).
pub fn machine() -> Machine {
    let total = fs::read_to_string("/proc/meminfo").ok().and_then(|text| total_memory(&text));
    let limit = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .into_iter()
        .find_map(|path| fs::read_to_string(path).ok())
        .and_then(|text| text.trim().parse().ok());
    let processor = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| model_name(&text));
    Machine {
        processor: processor.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        cores: thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: Bytes::new(total.into_iter().chain(limit).min().unwrap_or(0)),
    }
}

/// `MemTotal: 24689588 kB` in bytes.
fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn model_name(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_texts_are_read() {
        assert_eq!(total_memory("MemFree: 1 kB\nMemTotal:       24689588 kB\n"), Some(24_689_588 * 1024));
        assert_eq!(total_memory("MemTotal: many"), None);
        assert_eq!(model_name("processor : 0\nmodel name\t: AMD EPYC\n"), Some("AMD EPYC".to_owned()));
    }

    #[test]
    fn this_machine_has_a_core() {
        assert!(machine().cores >= 1);
    }
}
