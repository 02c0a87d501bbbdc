//! Puts values into files that others wrote, and repairs their checksums.

use std::{fs, io, path::Path};

use serde_json::{Map, Value, json};

use super::finite::{self, Tensor};
use crate::{Error, run_files::sha256};

/// Copies a folder with its links.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (source, target) = {
            let entry = entry?;
            (entry.path(), to.join(entry.file_name()))
        };
        if source.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source)?, target)?;
        } else if source.is_dir() {
            copy(&source, &target)?;
        } else {
            fs::copy(source, target)?;
        }
    }
    Ok(())
}

/// The bytes of a value in 32 bits.
pub(super) fn bytes_of(value: &str) -> Result<[u8; 4], Error> {
    Ok(value.parse::<f32>().map_err(|error| format!("`{value}`: {error}"))?.to_le_bytes())
}

/// Puts a value of 32 bits into the `element`th element of a tensor, or into all; elements beyond the last begin again.
pub(super) fn put(
    file: &mut [u8],
    tensor: &Tensor,
    element: Option<usize>,
    value: &str,
) -> Result<(), Error> {
    let value = bytes_of(value)?;
    let (elements, _) = file[tensor.bytes.clone()].as_chunks_mut::<4>();
    let count = elements.len().max(1);
    for (at, place) in elements.iter_mut().enumerate() {
        if element.is_none_or(|element| element % count == at) {
            *place = value;
        }
    }
    Ok(())
}

/// Changes a checkpoint's `state`, after each file's checksum was taken anew, and seals it.
pub(super) fn seal(checkpoint: &Path, change: impl FnOnce(&mut Value)) -> Result<(), Error> {
    let path = checkpoint.join("state.json");
    let mut sealed: Value = serde_json::from_slice(&fs::read(&path)?)?;
    let mut state = sealed["state"].take();
    let files = state["files"].as_object_mut().ok_or("a state names no files")?;
    for (file, digest) in files {
        *digest = json!(sha256(&fs::read(checkpoint.join(file))?));
    }
    change(&mut state);
    let state = serde_json::to_string(&state)?;
    fs::write(path, format!("{{\"sha256\":\"{}\",\"state\":{state}}}", sha256(state.as_bytes())))?;
    Ok(())
}

/// The bytes of a weights file in another type: `F64`, `F32`, `BF16` or `F16`. The tensor `poisoned` gets `value` as its first
/// element. In 16 bits all other elements are 0.
pub(super) fn converted(file: &[u8], dtype: &str, poisoned: &str, value: &[u8]) -> Result<Vec<u8>, Error> {
    let (mut header, mut body) = (Map::new(), Vec::new());
    let old: Value = serde_json::from_slice(&file[8..8 + header_length(file)])?;
    for Tensor { name, bytes, .. } in finite::listed(file)? {
        let start = body.len();
        for element in finite::elements("F32", &file[bytes])? {
            match dtype {
                "F64" => body.extend(element.to_le_bytes()),
                "F32" => body.extend((element as f32).to_le_bytes()),
                _ => body.extend([0; 2]),
            }
        }
        if name == poisoned {
            body[start..start + value.len()].copy_from_slice(value);
        }
        let shape = &old[&name]["shape"];
        header.insert(name, json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, body.len()] }));
    }
    let mut header = serde_json::to_vec(&header)?;
    header.resize(header.len().next_multiple_of(8), b' ');
    Ok([&(header.len() as u64).to_le_bytes()[..], &header, &body].concat())
}

/// The length of a safetensors header; 0 without one.
fn header_length(file: &[u8]) -> usize {
    file.first_chunk().map_or(0, |length| u64::from_le_bytes(*length) as usize)
}
