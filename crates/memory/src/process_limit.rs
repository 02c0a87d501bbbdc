//! The limits of this process (`ulimit`).

use std::path::Path;

use crate::meminfo_field;

/// The soft limit, which applies, and the hard limit, up to which the user may raise it. `None` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessLimit {
    /// The limit that applies.
    pub soft: Option<u64>,
    /// The highest limit that the user may set.
    pub hard: Option<u64>,
}

/// The file of all limits.
pub(crate) const LIMITS: &str = "/proc/self/limits";

/// The limits of memory: their names in [`LIMITS`], and the field of `/proc/self/status` with the bytes that count.
const OF_MEMORY: [(&str, &str); 2] = [("Max address space", "VmSize:"), ("Max data size", "VmData:")];

impl ProcessLimit {
    /// Reads `Max open files    1024    524288    files`. Names contain spaces, so columns count from after the name.
    pub fn read(text: &str, name: &str) -> Self {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        let mut words = line.split_whitespace().map(|word| word.parse().ok());
        Self { soft: words.next().flatten(), hard: words.next().flatten() }
    }
}

/// The lowest limit of this process's memory.
pub(crate) fn memory_limit(file: &impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let limits = file(Path::new(LIMITS))?;
    OF_MEMORY.iter().filter_map(|(name, _)| ProcessLimit::read(&limits, name).soft).min()
}

/// The bytes that the limits of memory leave this process.
pub(crate) fn memory_left(file: &impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let limits = file(Path::new(LIMITS))?;
    let status = file(Path::new("/proc/self/status")).unwrap_or_default();
    let left = |(name, used): &(&str, &str)| {
        let limit = ProcessLimit::read(&limits, name).soft?;
        Some(limit.saturating_sub(meminfo_field(&status, used).unwrap_or(0)))
    };
    OF_MEMORY.iter().filter_map(left).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_limit_leaves_the_least() {
        let file = |path: &Path| match path.to_str()? {
            LIMITS => Some(
                "Max data size    9000 unlimited bytes\nMax address space    10000 20000 bytes\n".to_owned(),
            ),
            "/proc/self/status" => Some("VmSize: 4 kB\nVmData: 1 kB\n".to_owned()),
            _ => None,
        };
        assert_eq!((memory_limit(&file), memory_left(&file)), (Some(9000), Some(10_000 - 4096)));
        let limit = ProcessLimit::read(&file(Path::new(LIMITS)).unwrap(), "Max address space");
        assert_eq!(limit, ProcessLimit { soft: Some(10_000), hard: Some(20_000) });
        let unlimited = |_: &Path| Some("Max address space    unlimited unlimited bytes\n".to_owned());
        assert_eq!((memory_limit(&unlimited), memory_left(&unlimited)), (None, None));
    }
}
