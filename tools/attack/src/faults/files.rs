//! What a folder holds.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::{ffi::OsStrExt, fs::symlink},
    path::{Path, PathBuf},
};

/// The content of each file by its path, and the text of each link behind an arrow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Files(pub(super) BTreeMap<String, Vec<u8>>);

const ARROW: &[u8] = b"-> ";

impl Files {
    /// Reads a folder. TensorBoard's files, whose names tell time and process, get one name.
    pub(super) fn read(folder: &Path) -> io::Result<Self> {
        let mut files = Self::default();
        files.add(folder, "")?;
        Ok(files)
    }

    fn add(&mut self, folder: &Path, prefix: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            let mut name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(EVENTS) {
                name = EVENTS.into();
            }
            let name = format!("{prefix}{name}");
            if kind.is_dir() {
                self.add(&path, &format!("{name}/"))?;
            } else if kind.is_symlink() {
                let target = fs::read_link(&path)?;
                self.0.insert(name, [ARROW, target.as_os_str().as_bytes()].concat());
            } else {
                self.0.insert(name, fs::read(&path)?);
            }
        }
        Ok(())
    }

    /// Writes them into a folder.
    pub(super) fn write(&self, folder: &Path) -> io::Result<()> {
        for (name, content) in &self.0 {
            let path = folder.join(name);
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            match content.strip_prefix(ARROW) {
                Some(target) => symlink(PathBuf::from(std::ffi::OsStr::from_bytes(target)), path)?,
                None => fs::write(path, content)?,
            }
        }
        Ok(())
    }

    /// Those that another folder holds with the same content. Pages show the machine's free memory, so they are left out.
    pub(super) fn alike(&self, other: &Self) -> Self {
        let is_page = |name: &str| name.ends_with(".html") || name.ends_with(".svg");
        let same =
            self.0.iter().filter(|(name, content)| !is_page(name) && other.0.get(*name) == Some(content));
        Self(same.map(|(name, content)| (name.clone(), content.clone())).collect())
    }
}

const EVENTS: &str = "events.out.tfevents";

/// Whether a file grows while a command runs, or is made again when it is missing or damaged.
pub(super) fn is_secondary(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or(name);
    [EVENTS, "metrics.jsonl", "lock"].contains(&last) || name.starts_with("cache/")
}

/// Whether a name says that the file is not final.
pub(super) fn is_unfinished(name: &str) -> bool {
    name.ends_with(".part") || name.split('/').any(|part| part.starts_with('.'))
}

/// Whether a file is one of a checkpoint, which its own checksums tell more about.
pub(super) fn is_of_checkpoint(name: &str) -> bool {
    name.starts_with("run/checkpoints/")
}

/// Whether content ends where such a file ends, though its values differ from one time to the next.
pub(super) fn is_whole(name: &str, content: &[u8]) -> bool {
    let text = String::from_utf8_lossy(content);
    let is_json = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
    match name.rsplit('.').next() {
        Some("html") => text.trim_end().ends_with("</html>"),
        Some("svg") => text.trim_end().ends_with("</svg>"),
        Some("json") => is_json(&text),
        Some("jsonl") => !content.is_empty() && text.lines().all(is_json),
        // A pickle ends with its opcode STOP.
        Some("pickle") => content.ends_with(b"."),
        Some("safetensors") => ends_with_last_tensor(content),
        _ => !content.is_empty(),
    }
}

/// Whether a safetensors file ends where the last of its tensors does.
fn ends_with_last_tensor(content: &[u8]) -> bool {
    let end = || {
        let (length, rest) = content.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let head: serde_json::Value = serde_json::from_slice(rest.get(..length)?).ok()?;
        let ends = head.as_object()?.values().filter_map(|tensor| tensor["data_offsets"][1].as_u64());
        Some(8 + length as u64 + ends.max().unwrap_or(0))
    };
    end() == Some(content.len() as u64)
}
