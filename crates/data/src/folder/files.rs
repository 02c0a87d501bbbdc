use std::path::{Path, PathBuf};

use super::scan::{is_hidden, is_image, sorted_entries};
use crate::DataError;

/// The files of `paths`, in order. A folder stands for its images and those of its subfolders, sorted by name.
///
/// In folders only visible files named `.jpg`, `.jpeg`, `.png` or `.webp` count. A file in `paths` is taken whatever its name, even
/// if it does not exist; reading it fails later. Symbolic links to folders are followed in `paths`, but not below.
///
/// # Errors
/// [`DataError::NoImages`], or a folder that cannot be read.
pub fn image_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, DataError> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let before = files.len();
        add_images(path, &mut files)?;
        if files.len() == before {
            return Err(DataError::NoImages { path: path.clone() });
        }
    }
    Ok(files)
}

fn add_images(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), DataError> {
    for (name, kind) in sorted_entries(folder)? {
        if is_hidden(&name) {
            continue;
        }
        let path = folder.join(&name);
        if kind.is_dir() {
            add_images(&path, files)?;
        } else if is_image(&name) && !path.is_dir() {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_stands_for_the_images_in_it_and_below() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name: &str| folder.path().join(name);
        for name in ["b.jpg", "a/2.PNG", "a/1.jpeg", "a/notes.txt", ".hidden.jpg", "a/.cache/3.jpg", "c.gif"]
        {
            fs::create_dir_all(at(name).parent().expect("within the folder")).expect("a folder");
            fs::write(at(name), "").expect("a file");
        }
        // Following this link would never end.
        std::os::unix::fs::symlink(folder.path(), at("a/loop")).expect("a link");
        let named = [at("c.gif"), folder.path().to_owned(), at("gone.jpg")];
        let expected = ["c.gif", "a/1.jpeg", "a/2.PNG", "b.jpg", "gone.jpg"].map(at);
        assert_eq!(image_files(&named).expect("readable folders"), expected);
        fs::create_dir(at("empty")).expect("a folder");
        assert!(
            matches!(image_files(&[at("empty")]), Err(DataError::NoImages { path }) if path == at("empty"))
        );
    }
}
