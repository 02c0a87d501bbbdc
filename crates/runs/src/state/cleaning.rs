//! Removing checkpoints, whole ones and leftovers of a crash. What cannot be removed is a warning, since a training can
//! continue beside it.

use std::{fs, path::Path};

use super::{StateError, disk::sync_directory, listing::entries};

/// Prefixes of directories that are being written or removed. The next save clears the leftovers of a crash.
pub(super) const WRITING: &str = ".writing-";
const REMOVING: &str = ".removing-";

/// Removes the half-written and half-removed checkpoints of a crash. Returns a warning for each that the system keeps.
pub(super) fn clear_leftovers(directory: &Path) -> Result<Vec<String>, StateError> {
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let names = entries(directory)?;
    let leftovers = names.iter().filter(|name| name.starts_with(WRITING) || name.starts_with(REMOVING));
    Ok(leftovers.filter_map(|name| delete(&directory.join(name))).collect())
}

/// Removes a checkpoint. Returns a warning if it stays.
///
/// It is renamed first, so a crash leaves no half of a checkpoint under a final name. The new name is flushed before anything
/// is removed: a loss of power keeps operations in no order.
pub(super) fn remove(directory: &Path, name: &str) -> Option<String> {
    let (path, removing) = (directory.join(name), directory.join(format!("{REMOVING}{name}")));
    // Somebody wants to keep it. The system's administrator could remove it nevertheless.
    if path.metadata().is_ok_and(|metadata| metadata.permissions().readonly()) {
        return Some(format!("`{}` is read-only, so it is not removed", path.display()));
    }
    if let Err(error) = fs::rename(&path, &removing) {
        return Some(kept(&path, &error));
    }
    match sync_directory(directory) {
        Ok(()) => delete(&removing),
        // The next save tries again.
        Err(error) => Some(error.to_string()),
    }
}

/// Deletes a directory or a file. Returns a warning if it stays.
fn delete(path: &Path) -> Option<String> {
    let is_directory = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let deleted = if is_directory { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    deleted.err().map(|error| kept(path, &error))
}

fn kept(path: &Path, error: &std::io::Error) -> String {
    format!("cannot remove `{}`, which takes up space: {error}", path.display())
}
