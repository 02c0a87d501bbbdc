//! Walks the files of the repository.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// What git ignores, and what is not ours.
const PASSED_OVER: [&str; 4] = ["target", "runs", "profiles", "shared"];
/// Hidden folders that are ours; all others are those of tools.
const HIDDEN: [&str; 3] = [".cargo", ".ci", ".github"];

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// All files below a folder of the repository whose names end in `ending`, by path, as `(path from the root, text)`.
/// Files that are no text are passed over.
pub(crate) fn files(below: &str, ending: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    walk(&root().join(below), ending, &mut found);
    found.sort();
    found
}

/// The text of one file of the repository.
pub(crate) fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("cannot read {path}: {error}"))
}

/// The names of the folders right below a folder of the repository.
pub(crate) fn folders(below: &str) -> Vec<String> {
    let entries =
        fs::read_dir(root().join(below)).unwrap_or_else(|error| panic!("cannot list {below}: {error}"));
    let folders = entries.flatten().filter(|entry| entry.path().is_dir());
    let mut names: Vec<_> = folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn walk(folder: &Path, ending: &str, found: &mut Vec<(String, String)>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        // Links are not followed: what they point to is either ours and found anyway, or not ours.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let ours =
                if name.starts_with('.') { HIDDEN.contains(&&*name) } else { !PASSED_OVER.contains(&&*name) };
            if ours {
                walk(&path, ending, found);
            }
        } else if name.ends_with(ending)
            && let Ok(text) = fs::read_to_string(&path)
        {
            let from_root = path.strip_prefix(root()).unwrap_or(&path);
            found.push((from_root.display().to_string(), text));
        }
    }
}
