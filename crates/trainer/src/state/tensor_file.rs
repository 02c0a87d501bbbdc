use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    path::Path,
};

use oomph_model::Named;
use safetensors::{Dtype, SafeTensorError, SafeTensors, View, serialize, serialize_to_file};

use super::{HostTensor, StateError, disk::rename_durably};

/// The bytes of a safetensors file of `tensors`: the same bytes for the same tensors.
pub(crate) fn encode(tensors: &Named<HostTensor>, path: &Path) -> Result<Vec<u8>, StateError> {
    // One entry of metadata, since a map of several has no fixed order; PyTorch's loaders look for this one.
    let metadata = [("format".to_owned(), "pt".to_owned())].into();
    serialize(tensors.iter().map(|(name, tensor)| (name, Encoded(tensor))), Some(metadata))
        .map_err(|error| malformed(path, error))
}

/// A tensor of a file of weights.
pub(crate) enum Exported<'a> {
    /// A parameter or a running statistic.
    Floats(&'a HostTensor),
    /// A number of 64 bits.
    Count(i64),
}

/// Writes a safetensors file that is whole or not there, tensor by tensor, with a note of ours beside PyTorch's.
pub(crate) fn write(
    tensors: &BTreeMap<String, Exported<'_>>,
    note: Option<(String, String)>,
    path: &Path,
) -> Result<(), StateError> {
    let metadata = Some(ordered(note));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let written = serialize_to_file(tensors.iter(), metadata, &beside)
        .map_err(|error| match error {
            SafeTensorError::IoError(error) => StateError::io("write", path)(error),
            error => malformed(path, error),
        })
        .and_then(|()| rename_durably(&beside, path));
    written.inspect_err(|_| {
        // Half a file is of no use; where it cannot be removed either, the first error is the one to tell.
        let _ = std::fs::remove_file(&beside);
    })
}

/// PyTorch's note and ours, as a map that has them in this order: the library writes them as they come, and the same
/// weights are to give the same bytes. A map of two comes out right every second time.
fn ordered(note: Option<(String, String)>) -> HashMap<String, String> {
    const FIRST: &str = "format";
    loop {
        let mut notes = HashMap::from([(FIRST.to_owned(), "pt".to_owned())]);
        notes.extend(note.clone());
        if notes.keys().next().is_some_and(|key| key == FIRST) {
            return notes;
        }
    }
}

/// The tensors of a safetensors file.
///
/// # Errors
/// Where it is not one, or holds something else than 32-bit floats.
pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<Named<HostTensor>, StateError> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| malformed(path, error))?;
    file.iter()
        .map(|(name, view)| {
            if view.dtype() != Dtype::F32 {
                return Err(StateError::NotFloats { name: name.to_owned() });
            }
            let values = view
                .data()
                .chunks_exact(4)
                .map(|bytes| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
                .collect();
            Ok((name.to_owned(), HostTensor { shape: view.shape().to_vec(), values }))
        })
        .collect()
}

fn malformed(path: &Path, error: safetensors::SafeTensorError) -> StateError {
    StateError::Malformed { path: path.to_owned(), reason: error.to_string() }
}

struct Encoded<'a>(&'a HostTensor);

impl View for Encoded<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }

    fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        bytes(self.0).into()
    }

    fn data_len(&self) -> usize {
        self.0.values.len() * 4
    }
}

impl View for &Exported<'_> {
    fn dtype(&self) -> Dtype {
        match self {
            Exported::Floats(_) => Dtype::F32,
            Exported::Count(_) => Dtype::I64,
        }
    }

    fn shape(&self) -> &[usize] {
        match self {
            Exported::Floats(tensor) => &tensor.shape,
            Exported::Count(_) => &[],
        }
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match self {
            Exported::Floats(tensor) => bytes(tensor).into(),
            Exported::Count(count) => count.to_le_bytes().to_vec().into(),
        }
    }

    fn data_len(&self) -> usize {
        match self {
            Exported::Floats(tensor) => tensor.values.len() * size_of::<f32>(),
            Exported::Count(_) => size_of::<i64>(),
        }
    }
}

fn bytes(tensor: &HostTensor) -> Vec<u8> {
    tensor.values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensors() -> Named<HostTensor> {
        let tensor = |shape: &[usize], start: f32| HostTensor {
            shape: shape.to_vec(),
            values: (0..shape.iter().product()).map(|index: usize| start + index as f32).collect(),
        };
        [("b.weight".into(), tensor(&[2, 3], 0.5)), ("a".into(), tensor(&[1], -1.0))].into()
    }

    #[test]
    fn tensors_survive_and_bytes_repeat() {
        let path = Path::new("x");
        let bytes = encode(&tensors(), path).unwrap();
        assert_eq!(decode(&bytes, path).unwrap(), tensors());
        assert_eq!(encode(&tensors(), path).unwrap(), bytes);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_without_a_panic(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200),
        ) {
            let _ = decode(&bytes, Path::new("x"));
        }

        #[test]
        fn a_damaged_file_is_read_or_refused_without_a_panic(at in 0usize..200, byte: u8) {
            let mut bytes = encode(&tensors(), Path::new("x")).unwrap();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = decode(&bytes, Path::new("x"));
        }
    }
}
