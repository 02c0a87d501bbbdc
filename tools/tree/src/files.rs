//! Files of the repository.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::RustFile;

/// Folders from the root that git ignores, or that are not part of this repository.
const IGNORED: [&str; 5] = ["target", "runs", "profiles", "out-of-memory", "shared"];
/// Hidden folders of this repository; all others belong to other programs.
const HIDDEN: [&str; 3] = [".cargo", ".ci", ".github"];

/// A working tree of the repository.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// The tree whose root directory is `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The tree in which this crate was compiled.
    pub fn own() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
        // This crate lies in tools/tree.
        Self::new(root.expect("tools/tree is two folders below the root"))
    }

    /// The root directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// All text files below the folder `below` whose names end in `ending`: path from the root, and text; by path.
    pub fn files(&self, below: &str, ending: &str) -> Vec<(String, String)> {
        let mut found = Vec::new();
        self.walk(&self.root.join(below), ending, &mut found);
        found.sort();
        found
    }

    /// All Rust files.
    pub fn rust_files(&self) -> Vec<RustFile> {
        self.files("", ".rs").into_iter().map(|(path, text)| RustFile::parse(path, text)).collect()
    }

    /// The text of one file.
    ///
    /// # Panics
    ///
    /// If it cannot be read.
    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap_or_else(|error| panic!("cannot read {path}: {error}"))
    }

    /// The names of the folders directly in the folder `below`.
    ///
    /// # Panics
    ///
    /// If it cannot be listed.
    pub fn folders(&self, below: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(below))
            .unwrap_or_else(|error| panic!("cannot list {below}: {error}"));
        let folders = entries.flatten().filter(|entry| entry.path().is_dir());
        let mut names: Vec<_> =
            folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    fn walk(&self, folder: &Path, ending: &str, found: &mut Vec<(String, String)>) {
        let Ok(entries) = fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let from_root = path.strip_prefix(&self.root).unwrap_or(&path);
            // Links are not followed: their targets are either in the tree themselves or not part of it.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                let is_ours = match name.starts_with('.') {
                    true => HIDDEN.contains(&&*name),
                    false => !IGNORED.iter().any(|ignored| from_root == Path::new(ignored)),
                };
                if is_ours {
                    self.walk(&path, ending, found);
                }
            } else if name.ends_with(ending)
                && let Ok(text) = fs::read_to_string(&path)
            {
                found.push((from_root.display().to_string(), text));
            }
        }
    }
}
