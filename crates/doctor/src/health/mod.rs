//! The health checks of a machine, each of which returns a [`Check`](crate::Check).
//!
//! - [`processor`], [`host_memory`], [`shared_memory`], [`limits`], [`disk`], [`cache`]: for every training.
//! - [`Hardware`], [`driver`], [`device_files`], [`visible_devices`], [`gpu`], [`lost`]: for a training on a GPU.
//!
//! The checks change nothing, wait for nothing, and need nothing of NVIDIA. They read files below the root of a
//! [`Procfs`](oomph_memory::processes::Procfs), so tests can provide a machine of their own.

mod disk;
mod driver;
mod gpu;
mod hardware;
mod host_memory;
mod limits;
mod processor;
mod visible;

pub use disk::{cache, disk, shared_memory};
pub use driver::driver;
pub use gpu::{gpu, lost};
pub use hardware::{Hardware, device_files};
pub use host_memory::host_memory;
pub use limits::limits;
pub use processor::processor;
pub use visible::visible_devices;

/// A machine for tests: files below a temporary folder.
#[cfg(test)]
mod tree {
    use std::fs;

    use oomph_memory::processes::Procfs;

    use crate::check::{Check, CheckState};

    pub(super) struct Tree(tempfile::TempDir);

    impl Tree {
        pub(super) fn of(files: &[(&str, &str)]) -> Self {
            let tree = Self(tempfile::tempdir().unwrap());
            for (path, text) in files {
                tree.write(path, text);
            }
            tree
        }

        pub(super) fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        pub(super) fn link(&self, path: &str, to: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(to, path).unwrap();
        }

        pub(super) fn procfs(&self) -> Procfs {
            Procfs::at(self.0.path())
        }
    }

    /// The state and the finding of a check.
    pub(super) fn state_and_finding(check: &Check) -> (CheckState, &str) {
        assert!(!check.finding.ends_with('.') && !check.finding.is_empty(), "{check:?}");
        let has_hint = matches!(check.state, CheckState::Warning | CheckState::Problem);
        assert_eq!(check.hint.is_some(), has_hint, "{check:?}");
        (check.state, &check.finding)
    }
}
