use std::path::{Path, PathBuf};

use super::Detected;
use crate::{
    DataError,
    folder::{is_image, sorted_entries},
};

/// Class folders of images, in `train` or in the folder itself.
pub(super) fn detect(folder: &Path) -> Result<Option<Detected>, DataError> {
    let train = folder.join("train");
    let root = if train.is_dir() { train } else { folder.to_owned() };
    let classes = class_folders(&root)?.len();
    Ok((classes > 0).then(|| {
        Detected::at(
            "folder",
            format!("{classes} class folder{} of images", if classes == 1 { "" } else { "s" }),
            folder,
        )
    }))
}

/// The folders within a folder that hold images.
fn class_folders(root: &Path) -> Result<Vec<PathBuf>, DataError> {
    let mut folders = Vec::new();
    for (name, _) in sorted_entries(root)? {
        let path = root.join(name);
        if path.is_dir() && sorted_entries(&path)?.iter().any(|(name, _)| is_image(name)) {
            folders.push(path);
        }
    }
    Ok(folders)
}
