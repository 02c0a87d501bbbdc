use std::{fmt, fs, path::Path, thread};

use oomph_core::Bytes;

use crate::{
    cgroup, process_limit,
    reading::read,
    system_memory::{Amount, bytes},
};

/// The part of the machine that this process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineInfo {
    /// The processor's name, or its architecture if the name is unknown.
    pub processor: String,
    /// Cores that this process may run on.
    pub cores: usize,
    /// The smaller of the machine's memory and the limits of this process's cgroups; 0 if both are unknown.
    pub memory_bytes: Bytes,
}

/// Reads the machine from `/proc` and the cgroup.
pub fn machine() -> MachineInfo {
    let total = bytes(Amount::Total, file);
    let limits = cgroup::levels(file).into_iter().map(|level| level.limit_bytes);
    let limits = limits.chain(process_limit::memory_limit(&file));
    let processor = file(Path::new("/proc/cpuinfo")).and_then(|text| model_name(&text));
    MachineInfo {
        processor: processor.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        cores: thread::available_parallelism().map_or(1, usize::from),
        memory_bytes: Bytes::new(total.into_iter().chain(limits).min().unwrap_or(0)),
    }
}

/// The memory limit of the CPU device by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultLimit {
    /// The limit.
    pub bytes: Bytes,
    /// Its origin.
    pub reason: LimitReason,
    /// The reserve, which the limit leaves free.
    pub reserve_bytes: Bytes,
}

/// The origin of a limit: the scarcest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReason {
    /// The machine's available memory.
    Machine,
    /// The rest of the limit of a container's or job's cgroup.
    Cgroup,
    /// The rest of this process's limit of addresses or data: `ulimit -v`, `ulimit -d`.
    AddressSpace,
}

impl fmt::Display for LimitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Machine => "available memory",
            Self::Cgroup => "cgroup limit",
            Self::AddressSpace => "limit of `ulimit -v` or `-d`",
        })
    }
}

impl fmt::Display for DefaultLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} less {} in reserve)", self.bytes, self.reason, self.reserve_bytes)
    }
}

/// The reserve is this fraction of the free memory...
const RESERVE_PART: u64 = 20;
/// … but at least this number of bytes.
const LEAST_RESERVE: u64 = 256 << 20;

/// The default limit of the CPU device: the bytes it holds now, plus the memory that the machine and the cgroups leave,
/// minus a reserve. `None` if the free memory is unknown. Limits of this process (`ulimit -v`) count like free
/// memory.
///
/// The reserve is 5 %, at least 256 MiB. The program itself and the loader's batches share the memory, allocators hold
/// some per cent more than requested, and a machine without free memory swaps or kills the process before an allocation
/// fails.
pub fn default_limit() -> Option<DefaultLimit> {
    default_limit_from(file, read().in_use_bytes)
}

/// [`default_limit`] from given files, and with given bytes in use.
pub fn default_limit_from(
    file: impl Fn(&Path) -> Option<String>,
    in_use_bytes: Bytes,
) -> Option<DefaultLimit> {
    let machine = bytes(Amount::Available, &file);
    let process = process_limit::memory_left(&file);
    let cgroup = cgroup::levels(file).iter().map(cgroup::Level::left_bytes).min();
    let known = [
        (machine, LimitReason::Machine),
        (cgroup, LimitReason::Cgroup),
        (process, LimitReason::AddressSpace),
    ];
    let known = known.into_iter().filter_map(|(left, reason)| Some((left?, reason)));
    let (left, reason) = known.min_by_key(|(left, _)| *left)?;
    let reserve = (left / RESERVE_PART).max(LEAST_RESERVE).min(left);
    let bytes = Bytes::new(left - reserve + in_use_bytes.get());
    Some(DefaultLimit { bytes, reason, reserve_bytes: Bytes::new(reserve) })
}

fn file(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

fn model_name(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system_memory::{MEMINFO, meminfo_field};

    #[test]
    fn the_systems_texts_are_read() {
        let meminfo = "MemFree: 1 kB\nMemTotal:       24689588 kB\nMemAvailable: many\n";
        assert_eq!(meminfo_field(meminfo, "MemTotal:"), Some(24_689_588 * 1024));
        assert_eq!(meminfo_field(meminfo, "MemAvailable:"), None);
        assert_eq!(model_name("processor : 0\nmodel name\t: AMD EPYC\n"), Some("AMD EPYC".to_owned()));
    }

    #[test]
    fn the_default_limit_is_what_the_scarcer_leaves_less_a_reserve() {
        const GIB: u64 = 1 << 30;
        let with = |available_kib: Option<u64>, cgroup_max: Option<u64>| {
            let file = |path: &Path| match path.to_str()? {
                MEMINFO => Some(format!("MemAvailable: {} kB\n", available_kib?)),
                "/proc/self/cgroup" => Some("0::/\n".to_owned()),
                "/sys/fs/cgroup/memory.max" => Some(cgroup_max?.to_string()),
                "/sys/fs/cgroup/memory.current" => Some(GIB.to_string()),
                _ => None,
            };
            let limit = default_limit_from(file, Bytes::new(7))?;
            Some((limit.bytes.get() - 7, limit.reason, limit.reserve_bytes.get()))
        };
        let mib_256 = 256 << 20;
        // A twentieth of 20 GiB is 1 GiB. A twentieth of 2 GiB is below the minimum reserve.
        assert_eq!(with(Some(20 << 20), None), Some((19 * GIB, LimitReason::Machine, GIB)));
        assert_eq!(
            with(Some(20 << 20), Some(3 * GIB)),
            Some((2 * GIB - mib_256, LimitReason::Cgroup, mib_256))
        );
        assert_eq!(with(Some(1 << 20), Some(9 * GIB)).map(|it| it.1), Some(LimitReason::Machine));
        assert_eq!(with(None, Some(GIB)), Some((0, LimitReason::Cgroup, 0)));
        let limited = |path: &Path| match path.to_str()? {
            MEMINFO => Some(format!("MemAvailable: {} kB\n", 20 << 20)),
            "/proc/self/limits" => {
                Some("Max address space         3221225472           unlimited            bytes\n".into())
            }
            "/proc/self/status" => Some("VmSize: 1048576 kB\n".to_owned()),
            _ => None,
        };
        let limit = default_limit_from(limited, Bytes::default()).unwrap();
        assert_eq!((limit.bytes.get(), limit.reason), (2 * GIB - mib_256, LimitReason::AddressSpace));
        assert_eq!(with(None, None), None);
    }

    #[test]
    fn the_default_limit_says_what_it_follows_from() {
        let limit = DefaultLimit {
            bytes: Bytes::mib(19 << 10),
            reason: LimitReason::Cgroup,
            reserve_bytes: Bytes::mib(1 << 10),
        };
        assert_eq!(limit.to_string(), "19.0 GiB (cgroup limit less 1.00 GiB in reserve)");
    }

    #[test]
    fn this_machine_has_a_core() {
        assert!(machine().cores >= 1);
    }
}
