//! Reads tensors of a checkpoint, and tells how far they are from others.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;

/// The values of each tensor, by its name.
type Tensors = BTreeMap<String, Vec<f32>>;

/// The largest relative difference between the tensors of two `model.safetensors`, by the norm of the difference.
pub(super) fn difference(one: &Path, other: &Path) -> Result<f64, String> {
    let (one, other) = (read(one)?, read(other)?);
    if !one.keys().eq(other.keys()) {
        return Err("they have tensors of other names".into());
    }
    let mut largest = 0.0_f64;
    for (name, values) in &one {
        let others = &other[name];
        if values.len() != others.len() {
            return Err(format!("`{name}` has another number of values"));
        }
        let norm =
            |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
        let size = norm(&mut others.iter().map(|value| f64::from(*value)));
        let apart = norm(&mut values.iter().zip(others).map(|(a, b)| f64::from(*a) - f64::from(*b)));
        if !apart.is_finite() {
            return Err(format!("`{name}` is not finite"));
        }
        largest = largest.max(if apart == 0.0 { 0.0 } else { apart / size });
    }
    Ok(largest)
}

fn read(path: &Path) -> Result<Tensors, String> {
    let says = |problem: &dyn std::fmt::Display| format!("{}: {problem}", path.display());
    let bytes = fs::read(path).map_err(|error| says(&error))?;
    let length = bytes.first_chunk().map(|length| u64::from_le_bytes(*length) as usize);
    let length = length.ok_or_else(|| says(&"has no header"))?;
    let header = bytes.get(8..8 + length).ok_or_else(|| says(&"has a cut header"))?;
    let header: BTreeMap<String, Value> = serde_json::from_slice(header).map_err(|error| says(&error))?;
    let tensor = |(name, place): (&String, &Value)| {
        if place["dtype"] != "F32" {
            return Err(says(&format!("`{name}` has the type {}", place["dtype"])));
        }
        let at = |index: usize| place["data_offsets"][index].as_u64().map(|at| 8 + length + at as usize);
        let values = at(0).zip(at(1)).and_then(|(start, end)| bytes.get(start..end));
        let values = values.ok_or_else(|| says(&format!("`{name}` has no values")))?;
        let values = values.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value));
        Ok((name.clone(), values.collect()))
    };
    header.iter().filter(|(name, _)| *name != "__metadata__").map(tensor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &Path, name: &str, values: &[f32]) -> std::path::PathBuf {
        let end = values.len() * 4;
        let header = format!(
            r#"{{"__metadata__":{{"a":"b"}},"w":{{"dtype":"F32","shape":[{}],"data_offsets":[0,{end}]}}}}"#,
            values.len()
        );
        let values = values.iter().flat_map(|value| value.to_le_bytes());
        let bytes = (header.len() as u64).to_le_bytes().into_iter().chain(header.bytes()).chain(values);
        let path = folder.join(name);
        fs::write(&path, bytes.collect::<Vec<_>>()).expect("a folder of this test");
        path
    }

    #[test]
    fn differences_are_relative_to_the_second() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let one = file(folder.path(), "one", &[3.0, 4.0]);
        let other = file(folder.path(), "other", &[3.0, 4.5]);
        let shorter = file(folder.path(), "shorter", &[3.0]);
        assert_eq!(difference(&one, &one), Ok(0.0));
        assert_eq!(difference(&other, &one), Ok(0.1));
        assert!(difference(&shorter, &one).is_err());
    }
}
