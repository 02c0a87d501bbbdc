//! A machine for tests: files below a temporary folder.

use std::fs;

use super::Check;
use crate::processes::Procfs;

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

/// The state of a check, and what it says.
pub(super) fn told(check: &Check) -> (super::State, &str) {
    assert!(!check.finding.ends_with('.') && !check.finding.is_empty(), "{check:?}");
    let has_hint = matches!(check.state, super::State::Warning | super::State::Problem);
    assert_eq!(check.hint.is_some(), has_hint, "{check:?}");
    (check.state, &check.finding)
}
