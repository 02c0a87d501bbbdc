use std::path::Path;

use oomph_core::Bytes;

use crate::check::Check;
use oomph_memory::{default_limit_from, meminfo_field, processes::Procfs};

const NAME: &str = "host memory";

/// Below this, a small ResNet on small images cannot train.
const LEAST: Bytes = Bytes::mib(256);
/// Below this, only little more can train.
const LITTLE: Bytes = Bytes::mib(2 << 10);

/// Checks the host's memory: free memory, the cgroups' limits, the default limit of a training on the CPU, swap, and
/// whether the system overcommits.
pub fn host_memory(procfs: &Procfs) -> Check {
    let read = |path: &Path| procfs.read(path.strip_prefix("/").unwrap_or(path));
    let meminfo = procfs.read("proc/meminfo").unwrap_or_default();
    let field = |key| meminfo_field(&meminfo, key).map(Bytes::new).unwrap_or_default();
    let host = procfs.host_memory();
    let Some(limit) = default_limit_from(read, Bytes::default()) else {
        return Check::skipped(NAME, "not reported by this system");
    };
    let mut finding = format!("{} of {} available", host.available_bytes, host.total_bytes);
    if let (Some(limit), Some(used)) = (host.cgroup_limit_bytes, host.cgroup_used_bytes) {
        finding += &format!("; the cgroup uses {used} of its {limit}");
    }
    finding += &format!("; training on the CPU may use at most {}", limit.bytes);
    finding += &match field("SwapTotal:") {
        total if total.get() == 0 => "; no swap".to_owned(),
        total => format!("; swap {} of {total} free", field("SwapFree:")),
    };
    if limit.bytes < LEAST {
        let hint = "end other programs, or raise the memory of the container or job";
        return Check::problem(NAME, finding, hint);
    }
    let strict = procfs.read("proc/sys/vm/overcommit_memory").is_some_and(|mode| mode.trim() == "2");
    if strict {
        let promised = format!("{} of {} committed", field("Committed_AS:"), field("CommitLimit:"));
        let strict = "the system does not overcommit memory (`vm.overcommit_memory` is 2)";
        let hint = "allocations may fail although memory is free, above all CUDA's reservations; \
                    run `sysctl vm.overcommit_memory=0` (as root)";
        return Check::warning(NAME, format!("{finding}; {strict}, {promised}"), hint);
    }
    if limit.bytes < LITTLE {
        let hint =
            "`oomph plan` shows what fits; end other programs, or raise the memory of the container or job";
        return Check::warning(NAME, finding, hint);
    }
    Check::ok(NAME, finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        check::CheckState,
        health::tree::{Tree, state_and_finding},
    };

    fn machine(available_mib: u64) -> Tree {
        let kib = available_mib << 10;
        let text = format!(
            "MemTotal: 16777216 kB\nMemAvailable: {kib} kB\nCommitLimit: 8388608 kB\nCommitted_AS: 1048576 kB\n\
             SwapTotal: 2097152 kB\nSwapFree: 1048576 kB\n"
        );
        Tree::of(&[("proc/meminfo", &text)])
    }

    #[test]
    fn available_memory_is_reported() {
        assert_eq!(
            state_and_finding(&host_memory(&machine(10 << 10).procfs())),
            (
                CheckState::Ok,
                "10.0 GiB of 16.0 GiB available; training on the CPU may use at most 9.50 GiB; swap 1.00 GiB of \
                 2.00 GiB free"
            )
        );
        assert_eq!(host_memory(&Tree::of(&[]).procfs()).state, CheckState::Skipped);
    }

    #[test]
    fn little_memory_is_a_warning_and_none_a_problem() {
        assert_eq!(host_memory(&machine(2000).procfs()).state, CheckState::Warning);
        assert_eq!(host_memory(&machine(400).procfs()).state, CheckState::Problem);
    }

    #[test]
    fn the_limit_of_a_container_counts() {
        let tree = machine(10 << 10);
        tree.write("proc/self/cgroup", "0::/\n");
        tree.write("sys/fs/cgroup/memory.max", "1073741824\n");
        tree.write("sys/fs/cgroup/memory.current", "536870912\n");
        let check = host_memory(&tree.procfs());
        assert_eq!(check.state, CheckState::Warning);
        assert!(check.finding.contains("the cgroup uses 512 MiB of its 1.00 GiB; "), "{}", check.finding);
    }

    #[test]
    fn a_system_that_does_not_overcommit_is_a_warning() {
        let tree = machine(10 << 10);
        tree.write("proc/sys/vm/overcommit_memory", "2\n");
        let check = host_memory(&tree.procfs());
        assert_eq!(check.state, CheckState::Warning);
        assert!(check.finding.ends_with("1.00 GiB of 8.00 GiB committed"), "{}", check.finding);
        tree.write("proc/sys/vm/overcommit_memory", "1\n");
        assert_eq!(host_memory(&tree.procfs()).state, CheckState::Ok);
    }
}
