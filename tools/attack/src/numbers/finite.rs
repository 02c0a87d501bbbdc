//! Looks for numbers that are not finite in the files of a run, without oomph's code.

use std::{fs, path::Path};

use serde_json::Value;

use super::events;

/// The first number of a run's files that is not finite, or what cannot be read. Files within `spared` are left out.
pub(super) fn first_in_run(run: &Path, spared: Option<&Path>) -> Option<String> {
    let mut folders = vec![run.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            // A run that was refused early has no folder.
            Err(_) => continue,
        };
        for path in entries.flatten().map(|entry| entry.path()) {
            if Some(&*path) == spared || path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Err(problem) = file(&path) {
                return Some(format!("{}: {problem}", path.strip_prefix(run).unwrap_or(&path).display()));
            }
        }
    }
    None
}

/// Checks a file by its name.
pub(super) fn file(path: &Path) -> Result<(), String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let bytes = || fs::read(path).map_err(|error| error.to_string());
    match &*name {
        "metrics.jsonl" => metrics(&bytes()?),
        "state.json" => state(&bytes()?),
        "source.json" => source(&bytes()?),
        name if name.ends_with(".safetensors") => tensors(&bytes()?),
        name if name.starts_with("events.out.tfevents") => events::check(&bytes()?),
        _ => Ok(()),
    }
}

/// A tensor in a safetensors file: its name, its type, and where its bytes lie in the file.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) dtype: String,
    pub(super) bytes: std::ops::Range<usize>,
}

/// The tensors of a safetensors file, by name.
pub(super) fn listed(file: &[u8]) -> Result<Vec<Tensor>, String> {
    let length = file.first_chunk().map(|length| u64::from_le_bytes(*length)).ok_or("has no header")?;
    let start = usize::try_from(length).ok().and_then(|length| length.checked_add(8));
    let start = start.filter(|start| *start <= file.len()).ok_or("ends within its header")?;
    let header: Value = serde_json::from_slice(&file[8..start]).map_err(|error| error.to_string())?;
    let header = header.as_object().ok_or("its header is no object")?;
    let tensor = |(name, entry): (&String, &Value)| {
        let offset = |index: usize| entry["data_offsets"][index].as_u64().map(|at| start + at as usize);
        let bytes = offset(0).zip(offset(1)).map(|(from, to)| from..to);
        let bytes = bytes.filter(|range| range.start <= range.end && range.end <= file.len());
        let bytes = bytes.ok_or_else(|| format!("`{name}` lies outside of the file"))?;
        let dtype = entry["dtype"].as_str().unwrap_or_default().to_owned();
        Ok(Tensor { name: name.clone(), dtype, bytes })
    };
    header.iter().filter(|(name, _)| *name != "__metadata__").map(tensor).collect()
}

/// The elements of a tensor.
pub(super) fn elements(dtype: &str, bytes: &[u8]) -> Result<Vec<f64>, String> {
    Ok(match dtype {
        "F64" => bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect(),
        "F32" => bytes.as_chunks().0.iter().map(|bytes| f64::from(f32::from_le_bytes(*bytes))).collect(),
        "BF16" => {
            let wide = |bytes: &[u8; 2]| f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16);
            bytes.as_chunks().0.iter().map(|bytes| f64::from(wide(bytes))).collect()
        }
        // Only whether it is finite matters: an exponent of ones is not.
        "F16" => {
            let is_finite = |bytes: &[u8; 2]| u16::from_le_bytes(*bytes) & 0x7c00 != 0x7c00;
            bytes.as_chunks().0.iter().map(|bytes| if is_finite(bytes) { 0.0 } else { f64::NAN }).collect()
        }
        // Counts, such as that of the batches that a statistic is over.
        "I64" => Vec::new(),
        _ => return Err(format!("has elements of type `{dtype}`")),
    })
}

fn tensors(file: &[u8]) -> Result<(), String> {
    for Tensor { name, dtype, bytes } in listed(file)? {
        let elements = elements(&dtype, &file[bytes])?;
        if let Some(at) = elements.iter().position(|value| !value.is_finite()) {
            return Err(format!("`{name}`[{at}] is {}", elements[at]));
        }
    }
    Ok(())
}

/// Numbers of a state that training always knows must be numbers: JSON has `null` for those that are not finite.
fn state(file: &[u8]) -> Result<(), String> {
    let sealed: Value = serde_json::from_slice(file).map_err(|error| error.to_string())?;
    let state = &sealed["state"];
    for place in ["/progress/step", "/progress/seconds", "/progress/window/loss"] {
        if !state.pointer(place).is_some_and(Value::is_number) {
            return Err(format!("`{place}` is no number"));
        }
    }
    let best = &state["progress"]["early_stopping"];
    if best["best_step"].is_number() && !best["best"].is_number() {
        return Err("the best loss is no number".into());
    }
    if state["loss_scale"].is_object() && !state["loss_scale"]["scale"].is_number() {
        return Err("the loss scale is no number".into());
    }
    let scalars = state["optimizer_scalars"].as_object();
    let bits = scalars.into_iter().flatten().filter_map(|(name, scalar)| {
        let bits = scalar.as_object()?.iter().find(|(kind, _)| kind.starts_with("float"))?.1;
        Some((name, f64::from_bits(bits.as_u64()?)))
    });
    match bits.into_iter().find(|(_, value)| !value.is_finite()) {
        Some((name, value)) => Err(format!("`{name}` is {value}")),
        None => Ok(()),
    }
}

/// The statistics of the data: lists of numbers.
fn source(file: &[u8]) -> Result<(), String> {
    let source: Value = serde_json::from_slice(file).map_err(|error| error.to_string())?;
    let has_null = |list: &Value| list.as_array().is_some_and(|list| list.iter().any(Value::is_null));
    let mut waiting = vec![("source", &source)];
    while let Some((name, value)) = waiting.pop() {
        if has_null(value) {
            return Err(format!("`{name}` has an element that is no number"));
        }
        waiting.extend(value.as_object().into_iter().flatten().map(|(name, value)| (&**name, value)));
    }
    Ok(())
}

/// The lines of metrics: the loss of steps is finite, since another one ends the run. That of an evaluation may be unknown,
/// which `null` says.
fn metrics(file: &[u8]) -> Result<(), String> {
    let lines = file.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    for (number, line) in lines.enumerate() {
        let event: Value =
            serde_json::from_slice(line).map_err(|error| format!("line {}: {error}", number + 1))?;
        let wrong = |key: &str| format!("line {}: `{key}` is {}", number + 1, event[key]);
        let needed: &[&str] = match event["event"].as_str().ok_or("a line names no event")? {
            "step" => &["step", "loss", "lr", "samples_per_second", "seconds"],
            "eval" => &["step", "samples", "eval_seconds"],
            "checkpoint" => &["step", "save_seconds", "paused_seconds"],
            "done" => &["step", "seconds"],
            _ => &[],
        };
        if let Some(key) = needed.iter().find(|key| !event[**key].is_number()) {
            return Err(wrong(key));
        }
        if event["best"] == Value::Bool(true) && !event["eval_loss"].is_number() {
            return Err("an evaluation without a loss is the best".into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A file with one tensor of two elements, of which the last has `bytes`.
    fn weights(dtype: &str, bytes: &[u8]) -> Vec<u8> {
        let length = 2 * bytes.len();
        let header =
            json!({ "a": { "dtype": dtype, "shape": [2], "data_offsets": [0, length] } }).to_string();
        let zeros = vec![0; bytes.len()];
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &zeros, bytes].concat()
    }

    #[test]
    fn a_number_that_is_not_finite_is_found_in_each_type() {
        let bad: [(&str, &[u8]); 6] = [
            ("F32", &f32::NAN.to_le_bytes()),
            ("F32", &f32::NEG_INFINITY.to_le_bytes()),
            ("F64", &f64::INFINITY.to_le_bytes()),
            ("F16", &0xfc00_u16.to_le_bytes()),
            ("BF16", &0x7fc0_u16.to_le_bytes()),
            ("BF16", &0xff80_u16.to_le_bytes()),
        ];
        for (dtype, bytes) in bad {
            let problem = tensors(&weights(dtype, bytes)).expect_err(dtype);
            assert!(problem.starts_with("`a`[1] is "), "{problem}");
        }
        let good: [(&str, &[u8]); 4] = [
            ("F32", &f32::MAX.to_le_bytes()),
            ("F64", &f64::MIN.to_le_bytes()),
            ("F16", &0x7bff_u16.to_le_bytes()),
            ("BF16", &0xff7f_u16.to_le_bytes()),
        ];
        for (dtype, bytes) in good {
            tensors(&weights(dtype, bytes)).expect(dtype);
        }
        tensors(&weights("F32", &[0; 4])[..60]).expect_err("it ends too early");
    }

    #[test]
    fn a_line_of_metrics_has_its_numbers() {
        let line = |loss: Value| json!({ "event": "step", "step": 1, "loss": loss, "lr": 0.1, "samples_per_second": 1.0, "seconds": 1.0 });
        metrics(line(json!(1.0)).to_string().as_bytes()).expect("it has all");
        metrics(line(Value::Null).to_string().as_bytes()).expect_err("its loss is not finite");
        metrics(b"{\"event\":\"step\",\"loss\":NaN}").expect_err("JSON has no such number");
    }

    #[test]
    fn a_state_has_its_numbers() {
        let state = |bits: u64, best: Value| {
            let early = json!({ "best_step": 1, "best": best });
            let progress =
                json!({ "step": 1, "seconds": 0.5, "window": { "loss": 0.0 }, "early_stopping": early });
            let scalars = json!({ "a.b": { "floatbits": bits } });
            json!({ "state": { "progress": progress, "optimizer_scalars": scalars } }).to_string()
        };
        let checked = |bits: f64, best: Value| super::state(state(bits.to_bits(), best).as_bytes());
        checked(1.0, json!(0.5)).expect("it has all");
        checked(f64::NAN, json!(0.5)).expect_err("a number of the optimizer is none");
        checked(1.0, Value::Null).expect_err("the best loss is none");
    }
}
