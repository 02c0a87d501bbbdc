use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use oomph_core::Bytes;
use serde::Serialize;

use super::{Process, ProcessState, process::Stat};
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

/// The kernel's files about processes and memory, below a root.
#[derive(Clone, Debug)]
pub struct Procfs {
    root: PathBuf,
}

impl Procfs {
    /// The files of this machine.
    pub fn system() -> Self {
        Self::at("/")
    }

    /// A tree of files with `proc`, `etc/passwd` and `sys/fs/cgroup`.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

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

    /// The ids of all visible processes.
    pub fn pids(&self) -> Vec<u32> {
        let entries = fs::read_dir(self.path("proc")).into_iter().flatten().flatten();
        let mut pids: Vec<u32> =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        pids.sort_unstable();
        pids
    }

    /// The process of that id; `None` if it ended or is hidden.
    pub fn process(&self, pid: u32) -> Option<Process> {
        let stat = Stat::parse(&self.of(pid, "stat")?)?;
        let status = self.of(pid, "status").unwrap_or_default();
        let memory = |key| Bytes::new(meminfo_field(&status, key).unwrap_or(0));
        let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
        let user = ids.and_then(|ids| ids.split_whitespace().next());
        Some(Process {
            pid,
            parent: stat.parent,
            session: stat.session,
            user: user.map(|id| self.user(id)).unwrap_or_default(),
            command: self.command(pid).unwrap_or_else(|| vec![stat.name.clone()]),
            executable: fs::read_link(self.path(format!("proc/{pid}/exe"))).ok(),
            state: stat.state,
            started: stat.started,
            age: self.uptime().unwrap_or_default().saturating_sub(stat.started),
            processor_time: stat.processor_time,
            resident_bytes: memory("VmRSS:"),
            peak_resident_bytes: memory("VmHWM:"),
        })
    }

    /// The running trainings: processes with the argument `train` whose program is `own` or is called `oomph`.
    pub fn trainings(&self, own: Option<&Path>) -> Vec<Process> {
        let processes = self.pids().into_iter().filter_map(|pid| self.process(pid));
        processes
            .filter(|process| process.state != Some(ProcessState::Zombie) && is_training(process, own))
            .collect()
    }

    /// Whether the process is orphaned: its parent has ended, and the init process adopted it.
    ///
    /// Processes that init started do not count: services of systemd, or those of a container's first process.
    pub fn parent_is_gone(&self, process: &Process) -> bool {
        let parent = self.process(process.parent);
        if parent.as_ref().is_some_and(|parent| parent.state == Some(ProcessState::Zombie)) {
            return true;
        }
        // `systemd --user` takes the orphans of a desktop's session.
        let is_init =
            process.parent == 1 || parent.is_some_and(|parent| program(&parent) == Some("systemd".as_ref()));
        is_init && process.session != 1 && !self.is_service(process)
    }

    /// Whether systemd runs it as a service: such a process leads its session, in a control group of that name.
    fn is_service(&self, process: &Process) -> bool {
        let groups = self.of(process.pid, "cgroup").unwrap_or_default();
        process.session == process.pid && groups.lines().any(|line| line.ends_with(".service"))
    }

    /// Whether this process was started with a signal ignored, as `nohup` does with SIGHUP.
    pub fn ignores(&self, signal: i32) -> bool {
        let status = self.read("proc/self/status").unwrap_or_default();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        ignored.is_some_and(|mask| (mask >> (signal - 1)) & 1 == 1)
    }

    fn command(&self, pid: u32) -> Option<Vec<String>> {
        let bytes = fs::read(self.path(format!("proc/{pid}/cmdline"))).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let words: Vec<String> = text.trim_end_matches('\0').split('\0').map(str::to_owned).collect();
        (!text.is_empty()).then_some(words)
    }

    /// The name of a user, or the id if it has no name.
    fn user(&self, id: &str) -> String {
        let users = fs::read_to_string(self.path("etc/passwd")).unwrap_or_default();
        let name = users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            (fields.nth(1)? == id).then(|| name.to_owned())
        });
        name.unwrap_or_else(|| id.to_owned())
    }

    fn uptime(&self) -> Option<Duration> {
        let text = self.read("proc/uptime")?;
        Duration::try_from_secs_f64(text.split_whitespace().next()?.parse().ok()?).ok()
    }

    /// The text of a file of a process.
    pub(super) fn of(&self, pid: u32, file: &str) -> Option<String> {
        self.read(format!("proc/{pid}/{file}"))
    }

    /// The text of a file below the root. Bytes that are not UTF-8 are replaced: process names may contain any bytes.
    pub fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        Some(String::from_utf8_lossy(&fs::read(self.path(path)).ok()?).into_owned())
    }

    /// A path below the root.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }
}

fn program(process: &Process) -> Option<&OsStr> {
    let command = process.command.first().map(Path::new);
    process.executable.as_deref().or(command)?.file_name()
}

fn is_training(process: &Process, own: Option<&Path>) -> bool {
    let trains = process.command.iter().skip(1).any(|argument| argument == "train");
    let is_own = own.is_some() && process.executable.as_deref() == own;
    trains && (is_own || program(process) == Some("oomph".as_ref()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A tree of files as the kernel would show it, 1000 seconds after the start.
    pub(in crate::processes) struct Tree(tempfile::TempDir);

    impl Tree {
        pub(in crate::processes) fn new() -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            tree.write("proc/uptime", "1000.00 2000.00\n");
            tree.write("etc/passwd", "root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n");
            tree
        }

        pub(in crate::processes) fn procfs(&self) -> Procfs {
            Procfs::at(self.0.path())
        }

        pub(in crate::processes) fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        pub(in crate::processes) fn link(&self, path: &str, to: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(to, path).unwrap();
        }

        /// A process that was started at second 900 and computed for 20.
        pub(in crate::processes) fn process(&self, pid: u32, parent: u32, session: u32, command: &str) {
            let stat = format!(
                "{pid} (name) S {parent} {pid} {session} 0 -1 0 0 0 0 0 1500 500 0 0 20 0 1 0 90000 0"
            );
            self.write(&format!("proc/{pid}/stat"), &stat);
            self.write(
                &format!("proc/{pid}/status"),
                "Uid:\t1000\t1000\t1000\t1000\nVmHWM:\t 4 kB\nVmRSS:\t 2 kB\n",
            );
            self.write(&format!("proc/{pid}/cmdline"), &(command.replace(' ', "\0") + "\0"));
        }
    }

    #[test]
    fn a_process_is_read() {
        let tree = Tree::new();
        tree.process(42, 7, 7, "/usr/bin/python train.py");
        let process = tree.procfs().process(42).unwrap();
        assert_eq!((process.parent, process.session, process.user.as_str()), (7, 7, "ada"));
        assert_eq!(process.command, ["/usr/bin/python", "train.py"]);
        assert_eq!(process.state, Some(ProcessState::Sleeping));
        assert_eq!(process.age, Duration::from_secs(100));
        assert_eq!(process.processor_time, Duration::from_secs(20));
        assert_eq!((process.resident_bytes.get(), process.peak_resident_bytes.get()), (2048, 4096));
        assert_eq!(tree.procfs().process(43), None);
    }

    #[test]
    fn a_user_without_a_name_is_a_number_and_a_hidden_command_a_short_name() {
        let tree = Tree::new();
        tree.process(42, 7, 7, "");
        tree.write("proc/42/status", "Uid:\t1234\t0\t0\t0\n");
        tree.write("proc/42/cmdline", "");
        let process = tree.procfs().process(42).unwrap();
        assert_eq!((process.user.as_str(), process.command), ("1234", vec!["name".to_owned()]));
    }

    #[test]
    fn trainings_are_told_from_other_commands() {
        let tree = Tree::new();
        tree.process(1, 0, 1, "/sbin/init train");
        tree.process(10, 1, 9, "target/release/oomph train --config lstm");
        tree.process(11, 1, 9, "oomph monitor");
        tree.process(12, 1, 9, "./planes train");
        tree.link("proc/12/exe", "/home/ada/planes");
        let pids = |own| -> Vec<u32> {
            tree.procfs().trainings(own).into_iter().map(|process| process.pid).collect()
        };
        assert_eq!(pids(None), [10]);
        assert_eq!(pids(Some(Path::new("/home/ada/planes"))), [10, 12]);
    }

    #[test]
    fn an_orphan_is_told_from_what_init_started() {
        let tree = Tree::new();
        tree.process(1, 0, 1, "/sbin/init");
        tree.process(5, 1, 5, "/usr/lib/systemd/systemd --user");
        tree.process(20, 1, 19, "python orphan.py");
        tree.process(21, 20, 19, "python child.py");
        tree.process(22, 1, 1, "python of-a-container.py");
        tree.process(23, 1, 23, "/usr/bin/ollama serve");
        tree.write("proc/23/cgroup", "0::/system.slice/ollama.service\n");
        tree.process(24, 1, 24, "python orphan-of-a-launcher.py");
        tree.write("proc/24/cgroup", "0::/user.slice/user-1000.slice/session-3.scope\n");
        tree.process(25, 5, 18, "python orphan-of-a-desktop.py");
        let procfs = tree.procfs();
        let gone = |pid| procfs.parent_is_gone(&procfs.process(pid).unwrap());
        assert_eq!([20, 21, 22, 23, 24, 25].map(gone), [true, false, false, false, true, true]);
    }

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
