use std::path::Path;

use oomph_core::Bytes;

use crate::check::Check;
use oomph_memory::{ProcessLimit as Limit, cgroup, processes::Procfs};

/// Checks the limits of this process (`ulimit`). `cores` is the number of cores it may run on. `for_gpu` says whether it is
/// to use a GPU.
pub fn limits(procfs: &Procfs, cores: usize, for_gpu: bool) -> Vec<Check> {
    let Some(text) = procfs.read("proc/self/limits") else {
        return vec![Check::skipped("limits", "not reported by this system")];
    };
    let limit = |name: &str| Limit::read(&text, name);
    let total = procfs.host_memory().total_bytes;
    let cards = procfs.path("sys/class/infiniband").read_dir();
    let has_infiniband = cards.is_ok_and(|mut cards| cards.next().is_some());
    vec![
        open_files(&limit("Max open files")),
        processes(&limit("Max processes"), pids_left(procfs), cores),
        address_space(tighter(limit("Max address space"), limit("Max data size")), total, for_gpu),
        locked_memory(&limit("Max locked memory"), has_infiniband),
        file_size(&limit("Max file size")),
    ]
}

/// The limit that is reached first.
fn tighter(one: Limit, other: Limit) -> Limit {
    match (one.soft, other.soft) {
        (Some(own), Some(others)) if others < own => other,
        (None, Some(_)) => other,
        _ => one,
    }
}

/// The hint to raise a limit.
fn raise(limit: &Limit, flag: char, to: u64) -> String {
    match limit.hard {
        Some(hard) if hard < to => {
            format!("the hard limit is {hard}; an administrator or an option of the container raises it")
        }
        _ => format!("run `ulimit -{flag} {to}` before oomph"),
    }
}

fn open_files(limit: &Limit) -> Check {
    const NAME: &str = "open files";
    match limit.soft {
        // The program, its libraries and the driver have about sixty files open.
        Some(files) if files < 128 => Check::problem(
            NAME,
            format!("at most {files}, too few for CUDA and the loader"),
            raise(limit, 'n', 4096),
        ),
        Some(files) if files < 1024 => Check::warning(
            NAME,
            format!("at most {files}; NCCL and shells expect 1024"),
            raise(limit, 'n', 4096),
        ),
        Some(files) => Check::ok(NAME, format!("at most {files}")),
        None => Check::ok(NAME, "no limit"),
    }
}

/// Threads count as processes.
fn processes(limit: &Limit, left: Option<u64>, cores: usize) -> Check {
    const NAME: &str = "processes";
    // One compute thread per core, at most one loader per core, and the threads of Burn, the driver and the program.
    let needed = 2 * cores as u64 + 32;
    if let Some(left) = left.filter(|left| *left < needed) {
        let finding =
            format!("the cgroup leaves {left} processes and threads; a training takes up to {needed}");
        let hint =
            "raise `pids.max`: a container needs `--pids-limit=-1`, a systemd service `TasksMax=infinity`";
        return Check::warning(NAME, finding, hint);
    }
    match limit.soft {
        Some(threads) if threads < 2 * needed => Check::warning(
            NAME,
            format!("at most {threads} processes and threads of this user; a training takes up to {needed}"),
            raise(limit, 'u', 4096.max(4 * needed)),
        ),
        Some(threads) => Check::ok(NAME, format!("at most {threads} processes and threads of this user")),
        None => Check::ok(NAME, "no limit"),
    }
}

fn address_space(limit: Limit, total: Bytes, for_gpu: bool) -> Check {
    const NAME: &str = "address space";
    let Some(bytes) = limit.soft.map(Bytes::new) else { return Check::ok(NAME, "no limit") };
    let hint = "run `ulimit -v unlimited` before oomph; in Slurm `sbatch --propagate=NONE`";
    if for_gpu {
        let finding = format!(
            "at most {bytes}; CUDA reserves addresses for all memory of host and GPUs, and may fail to start"
        );
        return Check::warning(NAME, finding, hint);
    }
    if bytes < total {
        return Check::warning(
            NAME,
            format!("at most {bytes}, less than the machine's {total}; a training on the CPU ends before it"),
            hint,
        );
    }
    Check::ok(NAME, format!("at most {bytes}"))
}

fn locked_memory(limit: &Limit, infiniband: bool) -> Check {
    const NAME: &str = "locked memory";
    match limit.soft.map(Bytes::new) {
        Some(bytes) if infiniband && bytes < Bytes::mib(64) => Check::warning(
            NAME,
            format!("at most {bytes}; NCCL over InfiniBand pins more"),
            "run `ulimit -l unlimited` before oomph; a container needs `--ulimit memlock=-1`",
        ),
        Some(bytes) => Check::ok(NAME, format!("at most {bytes}; memory pinned by CUDA does not count")),
        None => Check::ok(NAME, "no limit"),
    }
}

fn file_size(limit: &Limit) -> Check {
    const NAME: &str = "file size";
    match limit.soft.map(Bytes::new) {
        Some(bytes) if bytes < Bytes::mib(4 << 10) => Check::warning(
            NAME,
            format!("at most {bytes}; a larger checkpoint cannot be saved"),
            "run `ulimit -f unlimited` before oomph",
        ),
        Some(bytes) => Check::ok(NAME, format!("at most {bytes}")),
        None => Check::ok(NAME, "no limit"),
    }
}

/// The processes that the tightest cgroup leaves.
fn pids_left(procfs: &Procfs) -> Option<u64> {
    let read = |path: &Path| procfs.read(path.strip_prefix("/").unwrap_or(path));
    let number = |path: &Path| read(path)?.trim().parse::<u64>().ok();
    let left = |folder: &Path| {
        let most = number(&folder.join("pids.max"))?;
        Some(most.saturating_sub(number(&folder.join("pids.current")).unwrap_or(0)))
    };
    cgroup::folders(read, "pids").iter().filter_map(|folder| left(folder)).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        check::CheckState,
        health::tree::{Tree, state_and_finding},
    };

    /// A machine with these limits; the others are unlimited.
    fn machine(limits: &[(&str, &str)]) -> Tree {
        let mut text =
            "Limit                     Soft Limit           Hard Limit           Units     \n".to_owned();
        for name in
            ["Max open files", "Max processes", "Max locked memory", "Max address space", "Max file size"]
        {
            let value =
                limits.iter().find(|(of, _)| *of == name).map_or("unlimited unlimited", |(_, value)| value);
            text += &format!("{name:26}{value} units\n");
        }
        Tree::of(&[("proc/self/limits", &text), ("proc/meminfo", "MemTotal: 16777216 kB\n")])
    }

    #[track_caller]
    fn check(tree: &Tree, for_gpu: bool, name: &str) -> Check {
        let checks = limits(&tree.procfs(), 4, for_gpu);
        checks.into_iter().find(|check| check.name == name).unwrap()
    }

    #[test]
    fn without_limits_all_is_well() {
        let checks = limits(&machine(&[]).procfs(), 4, true);
        assert!(
            checks.iter().all(|check| state_and_finding(check) == (CheckState::Ok, "no limit")),
            "{checks:?}"
        );
        assert_eq!(checks.len(), 5);
        let unknown = limits(&Tree::of(&[]).procfs(), 4, true);
        assert_eq!(state_and_finding(&unknown[0]), (CheckState::Skipped, "not reported by this system"));
    }

    #[test]
    fn open_files_are_counted() {
        let of = |value| check(&machine(&[("Max open files", value)]), false, "open files");
        assert_eq!(state_and_finding(&of("1024 4096")), (CheckState::Ok, "at most 1024"));
        assert_eq!(of("256 4096").hint.unwrap(), "run `ulimit -n 4096` before oomph");
        assert_eq!(
            state_and_finding(&of("256 300")),
            (CheckState::Warning, "at most 256; NCCL and shells expect 1024")
        );
        assert!(of("256 300").hint.unwrap().starts_with("the hard limit is 300"));
        assert_eq!(of("64 64").state, CheckState::Problem);
    }

    #[test]
    fn threads_are_counted_with_the_cgroup() {
        let of = |value| check(&machine(&[("Max processes", value)]), false, "processes");
        assert_eq!(
            state_and_finding(&of("4096 4096")),
            (CheckState::Ok, "at most 4096 processes and threads of this user")
        );
        assert_eq!(of("50 4096").state, CheckState::Warning);
        let tree = machine(&[]);
        tree.write("proc/self/cgroup", "0::/a\n");
        tree.write("sys/fs/cgroup/a/pids.max", "100\n");
        tree.write("sys/fs/cgroup/a/pids.current", "90\n");
        assert_eq!(
            state_and_finding(&check(&tree, false, "processes")),
            (CheckState::Warning, "the cgroup leaves 10 processes and threads; a training takes up to 40")
        );
    }

    #[test]
    fn addresses_matter_to_cuda() {
        let of = |value, for_gpu| check(&machine(&[("Max address space", value)]), for_gpu, "address space");
        assert_eq!(of("34359738368 unlimited", false).state, CheckState::Ok);
        assert_eq!(of("34359738368 unlimited", true).state, CheckState::Warning);
        assert_eq!(
            state_and_finding(&of("8589934592 unlimited", false)),
            (
                CheckState::Warning,
                "at most 8.00 GiB, less than the machine's 16.0 GiB; a training on the CPU ends before it"
            )
        );
    }

    #[test]
    fn locked_memory_matters_to_infiniband() {
        let tree = machine(&[("Max locked memory", "8388608 8388608")]);
        assert_eq!(check(&tree, true, "locked memory").state, CheckState::Ok);
        tree.write("sys/class/infiniband/mlx5_0", "");
        assert_eq!(
            state_and_finding(&check(&tree, true, "locked memory")),
            (CheckState::Warning, "at most 8.00 MiB; NCCL over InfiniBand pins more")
        );
    }

    #[test]
    fn files_may_be_too_small_for_checkpoints() {
        let of = |value| check(&machine(&[("Max file size", value)]), false, "file size");
        assert_eq!(of("1073741824 unlimited").state, CheckState::Warning);
        assert_eq!(state_and_finding(&of("1099511627776 unlimited")), (CheckState::Ok, "at most 1.00 TiB"));
    }
}
