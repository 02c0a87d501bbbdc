//! The memory of the machine, as its system counts it.

use std::path::Path;

/// Linux's count.
pub(crate) const MEMINFO: &str = "/proc/meminfo";

/// What the system counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amount {
    /// All memory.
    Total,
    /// Memory that programs can have without swapping.
    Available,
}

/// Bytes of memory; `None` if the system does not say. `file` reads Linux's `/proc/meminfo`.
pub(crate) fn bytes(amount: Amount, file: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let field = match amount {
        Amount::Total => "MemTotal:",
        Amount::Available => "MemAvailable:",
    };
    match file(Path::new(MEMINFO)) {
        Some(text) => meminfo_field(&text, field),
        None => elsewhere(amount),
    }
}

/// A field of `/proc/meminfo` or `/proc/<pid>/status` in bytes: `MemTotal: 24689588 kB`.
pub fn meminfo_field(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}

#[cfg(target_os = "linux")]
fn elsewhere(_: Amount) -> Option<u64> {
    None
}

/// macOS and Windows have no `/proc`.
#[cfg(not(target_os = "linux"))]
fn elsewhere(amount: Amount) -> Option<u64> {
    let mut system = sysinfo::System::new();
    system.refresh_memory();
    let bytes = match amount {
        Amount::Total => system.total_memory(),
        Amount::Available => system.available_memory(),
    };
    // Where the system refuses to say.
    Some(bytes).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_in_kib() {
        let file = |_: &Path| Some("MemTotal:   2 kB\nMemAvailable: 1 kB\n".to_owned());
        assert_eq!(
            [Amount::Total, Amount::Available].map(|amount| bytes(amount, file)),
            [Some(2048), Some(1024)]
        );
        assert_eq!(bytes(Amount::Total, |_| Some(String::new())), None);
    }
}
