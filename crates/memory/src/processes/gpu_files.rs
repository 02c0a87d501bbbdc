use std::fs;

use super::Procfs;

/// The NVIDIA device files that a process has open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuFiles {
    /// The cards: the number in `/dev/nvidia0`.
    pub minors: Vec<u32>,
    /// Whether it computes: CUDA opens `/dev/nvidia-uvm`, a monitor does not.
    pub computes: bool,
}

impl GpuFiles {
    /// Whether no file is open.
    pub fn is_empty(&self) -> bool {
        self.minors.is_empty() && !self.computes
    }
}

impl Procfs {
    /// The device files that a process has open. `None` without permission: only root may read those of other users.
    pub fn gpu_files(&self, pid: u32) -> Option<GpuFiles> {
        let mut files = GpuFiles::default();
        for entry in fs::read_dir(self.path(format!("proc/{pid}/fd"))).ok()?.flatten() {
            let Ok(target) = fs::read_link(entry.path()) else { continue };
            let Some(name) = target.to_str().and_then(|path| path.strip_prefix("/dev/nvidia")) else {
                continue;
            };
            match name.parse::<u32>() {
                Ok(minor) => files.minors.push(minor),
                Err(_) => files.computes |= name == "-uvm",
            }
        }
        files.minors.sort_unstable();
        files.minors.dedup();
        Some(files)
    }
}

#[cfg(test)]
mod tests {
    use crate::processes::procfs::tests::Tree;

    #[test]
    fn open_files_tell_cards_and_computing() {
        let tree = Tree::new();
        for (fd, target) in
            ["/dev/nvidiactl", "/dev/nvidia3", "/dev/nvidia-uvm", "/dev/nvidia3", "/dev/null", "socket:[7]"]
                .iter()
                .enumerate()
        {
            tree.link(&format!("proc/42/fd/{fd}"), target);
        }
        tree.link("proc/43/fd/0", "/dev/nvidiactl");
        let files = tree.procfs().gpu_files(42).unwrap();
        assert_eq!((files.minors.as_slice(), files.computes), (&[3][..], true));
        assert!(tree.procfs().gpu_files(43).unwrap().is_empty());
        assert_eq!(tree.procfs().gpu_files(44), None);
    }
}
