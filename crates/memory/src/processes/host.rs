use oomph_core::Bytes;
use serde::Serialize;

use super::Procfs;
use crate::{cgroup, meminfo_field};

/// Memory of the machine and of this process's cgroups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostMemory {
    /// Total memory of the machine.
    pub total_bytes: Bytes,
    /// Memory available to programs, with reclaimable caches.
    pub available_bytes: Bytes,
    /// The smallest limit of a cgroup; `None` if there is none.
    pub cgroup_limit_bytes: Option<Bytes>,
    /// The memory in use by that cgroup, without reclaimable file cache.
    pub cgroup_used_bytes: Option<Bytes>,
}

impl Procfs {
    /// Reads the memory of the machine. Unknown figures are 0.
    pub fn host_memory(&self) -> HostMemory {
        let meminfo = self.read("proc/meminfo").unwrap_or_default();
        let field = |key| Bytes::new(meminfo_field(&meminfo, key).unwrap_or(0));
        // Relative paths: joining an absolute path would replace the root.
        let levels = cgroup::levels(|path| self.read(path.strip_prefix("/").unwrap_or(path)));
        let tightest = levels.into_iter().min_by_key(|level| level.limit_bytes);
        HostMemory {
            total_bytes: field("MemTotal:"),
            available_bytes: field("MemAvailable:"),
            cgroup_limit_bytes: tightest.map(|level| Bytes::new(level.limit_bytes)),
            cgroup_used_bytes: tightest.map(|level| Bytes::new(level.used_bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::processes::procfs::tests::Tree;

    const MEMINFO: &str = "MemTotal:  1000 kB\nMemFree: 10 kB\nMemAvailable:   600 kB\n";

    #[test]
    fn without_a_limit_there_is_the_machine() {
        let tree = Tree::new();
        tree.write("proc/meminfo", MEMINFO);
        let memory = tree.procfs().host_memory();
        assert_eq!((memory.total_bytes.get(), memory.available_bytes.get()), (1_024_000, 614_400));
        assert_eq!((memory.cgroup_limit_bytes, memory.cgroup_used_bytes), (None, None));
    }

    #[test]
    fn the_smallest_limit_counts() {
        let tree = Tree::new();
        tree.write("proc/meminfo", MEMINFO);
        tree.write("proc/self/cgroup", "0::/a/b\n");
        tree.write("sys/fs/cgroup/a/b/memory.max", "max\n");
        tree.write("sys/fs/cgroup/a/memory.max", "50000\n");
        tree.write("sys/fs/cgroup/a/memory.current", "4000\n");
        tree.write("sys/fs/cgroup/memory.max", "60000\n");
        let memory = tree.procfs().host_memory();
        assert_eq!(memory.cgroup_limit_bytes, Some(Bytes::new(50_000)));
        assert_eq!(memory.cgroup_used_bytes, Some(Bytes::new(4000)));
    }
}
