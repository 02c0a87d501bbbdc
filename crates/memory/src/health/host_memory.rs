use std::path::Path;

use oomph_core::Bytes;

use super::Check;
use crate::{
    machine::{default_limit_from, memory},
    processes::Procfs,
};

const NAME: &str = "host memory";

/// Below this a small ResNet on small images no longer trains.
const LEAST: Bytes = Bytes::mib(256);
/// Below this little more than that does.
const LITTLE: Bytes = Bytes::mib(2 << 10);

/// The machine's memory: what is there, what cgroups allow, what training on the CPU would take as its limit, whether
/// the system swaps, and whether it promises more than it has.
pub fn host_memory(procfs: &Procfs) -> Check {
    let read = |path: &Path| procfs.read(path.strip_prefix("/").unwrap_or(path));
    let meminfo = procfs.read("proc/meminfo").unwrap_or_default();
    let field = |key| memory(&meminfo, key).map(Bytes::new).unwrap_or_default();
    let host = procfs.host_memory();
    let Some(limit) = default_limit_from(read, Bytes::default()) else {
        return Check::skipped(NAME, "this system does not tell");
    };
    let mut finding = format!("{} of {} available", host.available_bytes, host.total_bytes);
    if let (Some(limit), Some(used)) = (host.cgroup_limit_bytes, host.cgroup_used_bytes) {
        finding += &format!("; the cgroup uses {used} of its {limit}");
    }
    finding += &format!("; training on the CPU would take at most {}", limit.bytes);
    finding += &match field("SwapTotal:") {
        total if total.get() == 0 => "; no swap".to_owned(),
        total => format!("; swap {} of {total} free", field("SwapFree:")),
    };
    if limit.bytes < LEAST {
        return Check::problem(
            NAME,
            finding,
            "end other programs, or raise the memory of the container or job",
        );
    }
    let strict = procfs.read("proc/sys/vm/overcommit_memory").is_some_and(|mode| mode.trim() == "2");
    if strict {
        let promised = format!("{} of {} promised", field("Committed_AS:"), field("CommitLimit:"));
        return Check::warning(
            NAME,
            format!(
                "{finding}; the system promises no more than it has (`vm.overcommit_memory` is 2), {promised}"
            ),
            "allocations fail although memory is free, CUDA's above all, which reserves more than it uses; \
             `sysctl vm.overcommit_memory=0` (as root)",
        );
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
    use crate::health::{
        State,
        tree::{Tree, told},
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
    fn what_is_there_is_told() {
        assert_eq!(
            told(&host_memory(&machine(10 << 10).procfs())),
            (
                State::Ok,
                "10.0 GiB of 16.0 GiB available; training on the CPU would take at most 9.50 GiB; swap 1.00 GiB of \
                 2.00 GiB free"
            )
        );
        assert_eq!(host_memory(&Tree::of(&[]).procfs()).state, State::Skipped);
    }

    #[test]
    fn little_memory_is_a_warning_and_none_a_problem() {
        assert_eq!(host_memory(&machine(2000).procfs()).state, State::Warning);
        assert_eq!(host_memory(&machine(400).procfs()).state, State::Problem);
    }

    #[test]
    fn the_limit_of_a_container_counts() {
        let tree = machine(10 << 10);
        tree.write("proc/self/cgroup", "0::/\n");
        tree.write("sys/fs/cgroup/memory.max", "1073741824\n");
        tree.write("sys/fs/cgroup/memory.current", "536870912\n");
        let check = host_memory(&tree.procfs());
        assert_eq!(check.state, State::Warning);
        assert!(check.finding.contains("the cgroup uses 512 MiB of its 1.00 GiB; "), "{}", check.finding);
    }

    #[test]
    fn a_system_that_promises_no_more_than_it_has_is_a_warning() {
        let tree = machine(10 << 10);
        tree.write("proc/sys/vm/overcommit_memory", "2\n");
        let check = host_memory(&tree.procfs());
        assert_eq!(check.state, State::Warning);
        assert!(check.finding.ends_with("1.00 GiB of 8.00 GiB promised"), "{}", check.finding);
        tree.write("proc/sys/vm/overcommit_memory", "1\n");
        assert_eq!(host_memory(&tree.procfs()).state, State::Ok);
    }
}
