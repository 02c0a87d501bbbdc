use std::path::Path;

use crate::check::Check;
use oomph_memory::{cgroup, processes::Procfs};

const NAME: &str = "processor";

/// Checks the processor: the cores of this process, the processor time that its cgroups grant, and the SIMD instructions.
pub fn processor(procfs: &Procfs, cores: usize) -> Check {
    let cpuinfo = procfs.read("proc/cpuinfo").unwrap_or_default();
    let all = cpuinfo.lines().filter(|line| line.starts_with("processor")).count().max(cores);
    let simd = simd(&cpuinfo);
    let mut finding = match cores {
        _ if all > cores => format!("{cores} of {all} cores"),
        1 => "1 core".to_owned(),
        _ => format!("{cores} cores"),
    };
    finding.extend(simd.iter().flat_map(|name| [", ", name]));
    if let Some(quota) = quota(procfs).filter(|quota| *quota + 0.5 < cores as f64) {
        let threads = quota.floor().max(1.0);
        finding += &format!("; the cgroup grants the time of {quota:.1} cores; threads beyond it are paused");
        let hint = format!("`--set device.threads={threads}`, or start the container or job with more cores");
        return Check::warning(NAME, finding, hint);
    }
    match simd {
        // Only x86-64 processors may lack it.
        Some("no AVX2") => Check::warning(
            NAME,
            finding,
            "training on the CPU is several times slower without AVX2; a virtual machine may hide it: pass the host's \
             CPU through",
        ),
        _ => Check::ok(NAME, finding),
    }
}

/// The widest SIMD instructions of Burn's kernels. `None` if the system does not list them as x86-64 does.
fn simd(cpuinfo: &str) -> Option<&'static str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("flags"))?;
    let has = |flag| line.split_whitespace().any(|it| it == flag);
    Some(match (has("avx512f"), has("avx2")) {
        (true, _) => "AVX-512",
        (false, true) => "AVX2",
        (false, false) => "no AVX2",
    })
}

/// The processor time that the tightest cgroup grants, in cores.
fn quota(procfs: &Procfs) -> Option<f64> {
    let read = |path: &Path| procfs.read(path.strip_prefix("/").unwrap_or(path));
    let number = |path: &Path| read(path)?.trim().parse::<f64>().ok();
    let of = |folder: &Path| {
        let (quota, period) = match read(&folder.join("cpu.max")) {
            Some(text) => {
                let mut words = text.split_whitespace();
                // `max` is no number and means no quota.
                (words.next()?.parse().ok()?, words.next()?.parse().ok()?)
            }
            None => (number(&folder.join("cpu.cfs_quota_us"))?, number(&folder.join("cpu.cfs_period_us"))?),
        };
        // Version 1 writes "no quota" as −1.
        (quota > 0.0 && period > 0.0).then(|| quota / period)
    };
    cgroup::folders(read, "cpu").iter().filter_map(|folder| of(folder)).min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        check::CheckState,
        health::tree::{Tree, state_and_finding},
    };

    const FOUR: &str =
        "processor\t: 0\nflags\t\t: fpu avx2\nprocessor\t: 1\nprocessor\t: 2\nprocessor\t: 3\n";

    #[test]
    fn cores_and_simd_are_told() {
        let tree = Tree::of(&[("proc/cpuinfo", FOUR)]);
        assert_eq!(state_and_finding(&processor(&tree.procfs(), 4)), (CheckState::Ok, "4 cores, AVX2"));
        assert_eq!(state_and_finding(&processor(&tree.procfs(), 2)), (CheckState::Ok, "2 of 4 cores, AVX2"));
        tree.write("proc/cpuinfo", "flags : avx avx2 avx512f\n");
        assert_eq!(state_and_finding(&processor(&tree.procfs(), 2)), (CheckState::Ok, "2 cores, AVX-512"));
        tree.write("proc/cpuinfo", "Features : asimd\n");
        assert_eq!(state_and_finding(&processor(&tree.procfs(), 2)), (CheckState::Ok, "2 cores"));
    }

    #[test]
    fn a_processor_without_avx2_is_slow() {
        let tree = Tree::of(&[("proc/cpuinfo", "flags : sse2\n")]);
        assert_eq!(
            state_and_finding(&processor(&tree.procfs(), 1)),
            (CheckState::Warning, "1 core, no AVX2")
        );
    }

    #[test]
    fn a_quota_below_the_cores_pauses_threads() {
        let tree =
            Tree::of(&[("proc/self/cgroup", "0::/a\n"), ("sys/fs/cgroup/a/cpu.max", "150000 100000\n")]);
        let check = processor(&tree.procfs(), 8);
        assert_eq!(
            state_and_finding(&check),
            (
                CheckState::Warning,
                "8 cores; the cgroup grants the time of 1.5 cores; threads beyond it are paused"
            )
        );
        assert!(check.hint.unwrap().starts_with("`--set device.threads=1`"));
        tree.write("sys/fs/cgroup/a/cpu.max", "max 100000\n");
        assert_eq!(processor(&tree.procfs(), 8).state, CheckState::Ok);
        let old = Tree::of(&[
            ("proc/self/cgroup", "1:cpu:/\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(processor(&old.procfs(), 4).state, CheckState::Ok);
        assert_eq!(processor(&old.procfs(), 5).state, CheckState::Warning);
        old.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
        assert_eq!(processor(&old.procfs(), 5).state, CheckState::Ok);
    }
}
