//! Reads run directories without oomph's code.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;
use sha2::{Digest, Sha256};

/// A checkpoint whose files have the checksums that its `state.json` names.
#[derive(Clone, Debug)]
pub(crate) struct Checkpoint {
    pub(crate) path: PathBuf,
    /// What is sealed in `state.json`.
    pub(crate) state: Value,
    /// The SHA-256 of each file, `state.json` left out.
    pub(crate) files: BTreeMap<String, String>,
}

/// The SHA-256 of bytes, in hexadecimal digits.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Checkpoint {
    /// Reads and verifies a checkpoint.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let says =
            |file: &str, problem: &dyn std::fmt::Display| format!("{}: {problem}", path.join(file).display());
        let bytes = fs::read(path.join("state.json")).map_err(|error| says("state.json", &error))?;
        let sealed: Value = serde_json::from_slice(&bytes).map_err(|error| says("state.json", &error))?;
        let text = sealed_text(&bytes).ok_or_else(|| says("state.json", &"is not sealed"))?;
        if sealed["sha256"].as_str() != Some(&sha256(text)) {
            return Err(says("state.json", &"has another checksum"));
        }
        let state = sealed["state"].clone();
        let named = state["files"].as_object().ok_or_else(|| says("state.json", &"names no files"))?;
        let mut files = BTreeMap::new();
        for (file, digest) in named {
            let bytes = fs::read(path.join(file)).map_err(|error| says(file, &error))?;
            let found = sha256(&bytes);
            if digest.as_str() != Some(&found) {
                return Err(says(file, &"has another checksum"));
            }
            files.insert(file.clone(), found);
        }
        Ok(Self { path: path.to_owned(), state, files })
    }

    /// The step that it is of.
    pub(crate) fn step(&self) -> u64 {
        self.state["progress"]["step"].as_u64().unwrap_or(0)
    }

    /// The checksums of what was trained: parameters, optimizer state, carried state.
    pub(crate) fn trained(&self) -> Vec<(&String, &String)> {
        self.files.iter().filter(|(file, _)| file.ends_with(".safetensors")).collect()
    }
}

/// The bytes of `state` in a sealed file, which its checksum is of.
fn sealed_text(bytes: &[u8]) -> Option<&[u8]> {
    let key = b"\"state\":";
    let start = bytes.windows(key.len()).position(|window| window == key)? + key.len();
    let end = bytes.iter().rposition(|byte| *byte == b'}')?;
    bytes.get(start..end)
}

/// The names in `checkpoints/` of a run that are those of checkpoints, in order.
pub(crate) fn checkpoint_names(run: &Path) -> io::Result<Vec<String>> {
    let folder = run.join("checkpoints");
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut names: Vec<_> = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<_>>()?;
    names.retain(|name| name.starts_with("step-"));
    names.sort();
    Ok(names)
}

/// All checkpoints of a run, verified, and what is wrong with the others.
pub(crate) fn checkpoints(run: &Path) -> io::Result<(Vec<Checkpoint>, Vec<String>)> {
    let read = |name: &String| Checkpoint::read(&run.join("checkpoints").join(name));
    let (mut whole, mut damaged) = (Vec::new(), Vec::new());
    for name in &checkpoint_names(run)? {
        match read(name) {
            Ok(checkpoint) => whole.push(checkpoint),
            Err(problem) => damaged.push(problem),
        }
    }
    Ok((whole, damaged))
}

/// The checkpoint that a link of a run names.
pub(crate) fn linked(run: &Path, link: &str) -> Result<Checkpoint, String> {
    Checkpoint::read(&run.join("checkpoints").join(link))
}
