use std::fmt;

use oomph_core::read_text;
use serde::{Deserialize, Serialize};

/// What a calibration belongs to: another processor, another number of threads or other kernels are as fast as something
/// else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineKey {
    /// The processor, as the system names it.
    pub processor: String,
    /// Compute threads.
    pub threads: usize,
    /// The version of oomph, whose kernels were measured.
    pub version: String,
}

impl MachineKey {
    /// This machine with `threads` compute threads.
    pub fn here(threads: usize) -> Self {
        let cpuinfo = read_text("/proc/cpuinfo".as_ref()).unwrap_or_default();
        let processor = processor(&cpuinfo).unwrap_or_else(|| std::env::consts::ARCH.to_owned());
        Self { processor, threads, version: env!("CARGO_PKG_VERSION").to_owned() }
    }

    /// The name of the file of a calibration: `intel-r-xeon-r-processor-6-207-2-2-threads.json`.
    pub fn file_name(&self) -> String {
        let words = self.processor.split(|letter: char| !letter.is_ascii_alphanumeric());
        let words: Vec<String> = words.filter(|word| !word.is_empty()).map(str::to_ascii_lowercase).collect();
        let name: String = words.join("-").chars().take(100).collect();
        format!("{name}-{}-threads.json", self.threads)
    }
}

/// `Intel(R) Xeon(R) Processor, 2 threads`.
impl fmt::Display for MachineKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = if self.threads == 1 { "thread" } else { "threads" };
        write!(f, "{}, {} {threads}", self.processor, self.threads)
    }
}

/// Name, family, model and stepping of Linux's `cpuinfo`: virtual machines have the same name on different processors.
fn processor(cpuinfo: &str) -> Option<String> {
    let value = |key: &str| {
        let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(name, _)| name.trim() == key)?;
        Some(value.trim().to_owned()).filter(|value| !value.is_empty())
    };
    let name = value("model name").or_else(|| value("CPU part").map(|part| format!("ARM {part}")))?;
    let numbers = ["cpu family", "model", "stepping"].map(value).into_iter().flatten();
    let numbers = numbers.collect::<Vec<_>>().join(".");
    Some(if numbers.is_empty() { name } else { format!("{name} {numbers}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_has_its_name_and_numbers() {
        let cpuinfo = "processor\t: 0\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Intel(R) Xeon(R)\nstepping\t: 2\n";
        assert_eq!(processor(cpuinfo).as_deref(), Some("Intel(R) Xeon(R) 6.207.2"));
        assert_eq!(processor("CPU part\t: 0xd0c\n").as_deref(), Some("ARM 0xd0c"));
        assert_eq!(processor(""), None);
    }

    #[test]
    fn a_file_is_named_after_its_machine() {
        let machine =
            MachineKey { processor: "AMD/EPYC (2) ../x".into(), threads: 8, version: String::new() };
        assert_eq!(machine.file_name(), "amd-epyc-2-x-8-threads.json");
    }
}
