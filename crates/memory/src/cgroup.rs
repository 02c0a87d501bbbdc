//! The limits of this process's cgroups: its own and the enclosing ones.

use std::path::{Path, PathBuf};

/// One cgroup with a memory limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The limit of its processes together.
    pub limit_bytes: u64,
    /// The memory in use, without reclaimable file cache.
    pub used_bytes: u64,
}

impl Level {
    /// The rest of the limit.
    pub fn left_bytes(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.used_bytes)
    }
}

/// The file names of a version of cgroups.
#[derive(Clone, Copy)]
struct Version {
    limit: &'static str,
    used: &'static str,
    /// The key in `memory.stat`.
    idle_files: &'static str,
}

const V1: Version = Version {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    idle_files: "total_inactive_file",
};

const V2: Version = Version { limit: "memory.max", used: "memory.current", idle_files: "inactive_file" };

/// Version 1 writes "no limit" as the largest number of pages, which depends on the page size.
const UNLIMITED: u64 = 1 << 62;

/// All cgroups of this process with a memory limit. `read` reads the files.
pub fn levels(read: impl Fn(&Path) -> Option<String>) -> Vec<Level> {
    let groups = groups(&read, "memory");
    groups.iter().filter_map(|(version, folder)| level(version, folder, &read)).collect()
}

/// The folders of a controller such as `cpu` for this process, innermost first.
pub fn folders(read: impl Fn(&Path) -> Option<String>, controller: &str) -> Vec<PathBuf> {
    groups(&read, controller).into_iter().map(|(_, folder)| folder).collect()
}

fn groups(read: &impl Fn(&Path) -> Option<String>, controller: &str) -> Vec<(Version, PathBuf)> {
    const ROOT: &str = "/sys/fs/cgroup";
    let own = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let mut groups = Vec::new();
    // `4:memory:/jobs/1` in version 1, or `0::/jobs/1` in version 2.
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let mounts = match controllers {
            // The second is for systems with both versions.
            "" => vec![(V2, PathBuf::from(ROOT)), (V2, Path::new(ROOT).join("unified"))],
            _ if controllers.split(',').any(|name| name == controller) => {
                vec![(V1, Path::new(ROOT).join(controller))]
            }
            _ => Vec::new(),
        };
        for (version, mount) in mounts {
            // In a container the path may be the host's, and only the root exists.
            let ancestors = Path::new(path).ancestors();
            groups.extend(ancestors.map(|at| (version, mount.join(at.strip_prefix("/").unwrap_or(at)))));
        }
    }
    groups
}

fn level(version: &Version, folder: &Path, read: impl Fn(&Path) -> Option<String>) -> Option<Level> {
    // `max` is no number and means no limit.
    let limit_bytes = read(&folder.join(version.limit))?.trim().parse().ok()?;
    let used: u64 = read(&folder.join(version.used)).and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let idle = read(&folder.join("memory.stat")).and_then(|stat| value_of(&stat, version.idle_files));
    let used_bytes = used.saturating_sub(idle.unwrap_or(0));
    (limit_bytes < UNLIMITED).then_some(Level { limit_bytes, used_bytes })
}

/// The number after a key of `memory.stat`.
fn value_of(stat: &str, key: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels_of(files: &[(&str, &str)]) -> Vec<Level> {
        levels(|path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    fn level(limit_bytes: u64, used_bytes: u64) -> Level {
        Level { limit_bytes, used_bytes }
    }

    #[test]
    fn version_2_counts_every_level_with_a_limit() {
        let found = levels_of(&[
            ("/proc/self/cgroup", "0::/jobs/run\n"),
            ("/sys/fs/cgroup/jobs/run/memory.max", "max\n"),
            ("/sys/fs/cgroup/jobs/run/memory.current", "10\n"),
            ("/sys/fs/cgroup/jobs/memory.max", "1000\n"),
            ("/sys/fs/cgroup/jobs/memory.current", "700\n"),
            ("/sys/fs/cgroup/jobs/memory.stat", "anon 200\ninactive_file_x 1\ninactive_file 400\n"),
        ]);
        assert_eq!(found, [level(1000, 300)]);
        assert_eq!(found[0].left_bytes(), 700);
    }

    #[test]
    fn version_1_counts_the_root_where_a_container_shows_nothing_else() {
        let found = levels_of(&[
            ("/proc/self/cgroup", "5:cpu,cpuacct:/a\n4:hugetlb,memory:/docker/1\n0::/\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "500\n"),
            ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "600\n"),
            ("/sys/fs/cgroup/memory/memory.stat", "inactive_file 9\ntotal_inactive_file 50\n"),
        ]);
        assert_eq!(found, [level(500, 550)]);
        assert_eq!(found[0].left_bytes(), 0);
    }

    #[test]
    fn folders_of_a_controller_are_found_in_both_versions() {
        let found = folders(|_| Some("3:cpu,cpuacct:/a\n2:pids:/\n0::/b\n".to_owned()), "cpu");
        let found: Vec<_> = found.iter().filter_map(|path| path.to_str()).collect();
        assert_eq!(
            found,
            [
                "/sys/fs/cgroup/cpu/a",
                "/sys/fs/cgroup/cpu/",
                "/sys/fs/cgroup/b",
                "/sys/fs/cgroup/",
                "/sys/fs/cgroup/unified/b",
                "/sys/fs/cgroup/unified/",
            ]
        );
    }

    #[test]
    fn without_limits_there_is_no_level() {
        assert_eq!(levels_of(&[]), []);
        let unlimited = levels_of(&[
            ("/proc/self/cgroup", "nonsense\n4:memory:/\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        assert_eq!(unlimited, []);
    }
}
