//! Changes of a checkpoint, with all checksums repaired.

use std::{fs, io, path::Path};

use oomph_core::Generator;
use serde_json::{Value, json};

use super::{json, tensors::TensorFile};
use crate::{Error, hostile::mutate, run_files::sha256};

/// What is changed: the kinds of this attack.
pub(crate) const KINDS: [&str; 7] = [
    "numbers of the progress",
    "other values of the state",
    "tensors of the model",
    "tensors of the optimizer",
    "carried state",
    "record of the data",
    "configuration",
];

/// A change that was made.
#[derive(Debug)]
pub(crate) struct Change {
    /// In words.
    pub(crate) about: String,
    /// Words of which an error must have one.
    pub(crate) names: Vec<String>,
}

/// Changes the checkpoint in a folder. `None` if it has nothing of that kind.
pub(crate) fn make(kind: &str, random: &mut Generator, folder: &Path) -> Result<Option<Change>, Error> {
    let sealed: Value = serde_json::from_slice(&fs::read(folder.join("state.json"))?)?;
    let state = &sealed["state"];
    let of_file = |file: &str, bytes: &[u8], about: String| -> Result<Option<Change>, Error> {
        fs::write(folder.join(file), bytes)?;
        let mut state = state.clone();
        state["files"][file] = json!(sha256(bytes));
        seal(folder, &serde_json::to_vec(&state)?)?;
        Ok(Some(Change { about: format!("{file}: {about}"), names: vec![file.to_owned()] }))
    };
    let file = match kind {
        "numbers of the progress" | "other values of the state" => {
            let top = if kind == "numbers of the progress" { "/progress" } else { "" };
            let changed = json::change(random, state, top);
            seal(folder, &changed.bytes)?;
            let names = vec!["state.json".to_owned(), format!("`{}`", changed.key)];
            return Ok(Some(Change { about: format!("state.json: {}", changed.about), names }));
        }
        "record of the data" => {
            let document = serde_json::from_slice(&fs::read(folder.join("source.json"))?)?;
            let changed = json::change(random, &document, "");
            return of_file("source.json", &changed.bytes, changed.about);
        }
        "configuration" => {
            let valid = fs::read(folder.join("config.toml"))?;
            let (bytes, about) = mutate::text(random, &valid);
            return of_file("config.toml", &bytes, about);
        }
        "tensors of the model" => "model.safetensors",
        "tensors of the optimizer" => "optimizer.safetensors",
        _ => "carried.safetensors",
    };
    let Ok(bytes) = fs::read(folder.join(file)) else { return Ok(None) };
    let tensors = TensorFile::decode(&bytes).ok_or_else(|| format!("{file} is no safetensors file"))?;
    if tensors.names().is_empty() {
        return Ok(None);
    }
    let names = tensors.names();
    let name = names[random.below(names.len())].clone();
    let (tensors, about) = change_tensor(random, tensors, &name);
    let made = of_file(file, &tensors.encode(), about)?;
    Ok(made.map(|change| Change { names: [change.names, vec![format!("`{name}")]].concat(), ..change }))
}

/// Writes `state.json` with the right checksum of its state.
fn seal(folder: &Path, state: &[u8]) -> io::Result<()> {
    let head = format!("{{\"sha256\":\"{}\",\"state\":", sha256(state));
    fs::write(folder.join("state.json"), [head.as_bytes(), state, b"}"].concat())
}

/// Values that a tensor is filled with. The finite ones overflow in no precision: what then is infinite was forged.
const VALUES: &[f32] = &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-45, 0.0, -0.0, -1.0, 1e3];

/// Shapes that a tensor gets; some are of other ranks.
const SHAPES: &[&[usize]] = &[
    &[],
    &[0],
    &[1],
    &[7],
    &[10, 0],
    &[1, 1],
    &[8, 10],
    &[10, 8],
    &[32],
    &[32, 1],
    &[2, 3, 4],
    &[1, 1, 1, 1, 1, 1, 1, 1, 1],
];

fn change_tensor(random: &mut Generator, mut file: TensorFile, name: &str) -> (TensorFile, String) {
    let about = match random.below(10) {
        0 | 1 => {
            let value = VALUES[random.below(VALUES.len())];
            let (begin, end) = file.place(name).unwrap_or_default();
            let whole = random.chance(0.5);
            let end = if whole { end } else { end.min(begin + 4) };
            file.data[begin..end].chunks_exact_mut(4).for_each(|it| it.copy_from_slice(&value.to_le_bytes()));
            format!("{name} has {value:e}")
        }
        2 => {
            file.remove(name);
            format!("{name} is missing")
        }
        3 => {
            let shape = SHAPES[random.below(SHAPES.len())];
            file.add(format!("{name}.tail"), shape);
            format!("{name}.tail beside {name}, of {shape:?}")
        }
        4 | 5 => {
            let shape = SHAPES[random.below(SHAPES.len())];
            file.reshape(name, shape);
            format!("{name} is {shape:?}")
        }
        6 => {
            let mut shape: Vec<Value> = file.head[name]["shape"].as_array().cloned().unwrap_or_default();
            shape.reverse();
            file.head[name]["shape"] = json!(shape);
            format!("{name} is transposed")
        }
        7 => {
            let dtype = ["F64", "F16", "BF16", "I64", "I32", "U8", "BOOL", "F8_E4M3", "X"][random.below(9)];
            file.head[name]["dtype"] = json!(dtype);
            format!("{name} is of {dtype}")
        }
        8 => {
            let entry = file.head.remove(name).unwrap_or_default();
            let new = ["", ".", "x", "..", "head.fc.weight"][random.below(5)];
            file.head.insert(new.to_owned(), entry);
            format!("{name} is called `{new}`")
        }
        _ => {
            let offset = [0u64, 1, 1 << 40, u64::MAX][random.below(4)];
            file.head[name]["data_offsets"][random.below(2)] = json!(offset);
            format!("{name} begins or ends at {offset}")
        }
    };
    (file, about)
}
