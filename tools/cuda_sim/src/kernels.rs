//! The folder of `CUDA_SIM_KERNELS`: a file for each module that a card loaded, and for each kernel that did not compile.
//!
//! A file's name is the kernel's and a hash of the content, so many processes may share a folder: what they have in
//! common is there once.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    path::{Path, PathBuf},
    process,
};

/// The ending of a module's file, which holds PTX.
pub const PTX: &str = "ptx";

/// The ending of the file of a kernel that did not compile. It holds the compiler's messages, a line
/// `==== source`, and the kernel's source.
pub const FAILED: &str = "failed";

/// The line between the compiler's messages and the source.
pub(crate) const SOURCE: &str = "==== source";

/// Writes a file, unless it is there.
pub(crate) fn keep(folder: &Path, kernel: &str, ending: &str, content: &str) {
    if let Err(error) = write(&path(folder, kernel, ending, content), content) {
        eprintln!("cuda-sim: CUDA_SIM_KERNELS: `{}`: {error}", folder.display());
    }
}

fn path(folder: &Path, kernel: &str, ending: &str, content: &str) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    // The longest name of a file is 255 bytes; names of kernels are ASCII.
    let kernel: String = kernel.chars().take(200).collect();
    folder.join(format!("{kernel}-{:016x}.{ending}", hasher.finish()))
}

/// Another process may write the same file at the same time: a file appears whole or not at all.
fn write(path: &Path, content: &str) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let unfinished = path.with_extension(format!("{}.unfinished", process::id()));
    fs::write(&unfinished, content)?;
    fs::rename(unfinished, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_same_is_kept_once() {
        let folder = std::env::temp_dir().join(format!("oomph-kernels-{}", process::id()));
        for content in ["first", "second", "first"] {
            keep(&folder, "add", PTX, content);
        }
        keep(&folder, &"k".repeat(300), FAILED, "error");
        let mut names: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(names.len(), 3, "{names:?}");
        assert!(names[..2].iter().all(|name| name.starts_with("add-") && name.ends_with(".ptx")));
        assert!(names[2].ends_with(".failed") && names[2].len() < 255);
    }
}
