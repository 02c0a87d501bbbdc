//! Tensors as the bytes of a safetensors file.

use std::borrow::Cow;

use oomph_model::Named;
use safetensors::{Dtype, SafeTensors, View, serialize, tensor::TensorView};

use crate::record::{HostTensor, RecordError};

/// The bytes of a safetensors file of `tensors`. Equal tensors give equal bytes.
///
/// # Errors
/// [`RecordError::Malformed`] if the safetensors crate refuses the tensors.
pub fn encode(tensors: &Named<HostTensor>) -> Result<Vec<u8>, RecordError> {
    // PyTorch's loaders look for this entry. It is the only one, since a map of several has no fixed order.
    let metadata = [("format".to_owned(), "pt".to_owned())].into();
    serialize(tensors.iter().map(|(name, tensor)| (name, Encoded(tensor))), Some(metadata))
        .map_err(|error| malformed(&error))
}

/// The tensors of a safetensors file.
///
/// # Errors
/// [`RecordError::Malformed`] if `bytes` are not a safetensors file, [`RecordError::NotFloats`] if a tensor does not
/// consist of 32-bit floats.
pub fn decode(bytes: &[u8]) -> Result<Named<HostTensor>, RecordError> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| malformed(&error))?;
    file.iter()
        .map(|(name, view)| {
            let values = floats(name, &view)?.collect();
            Ok((name.to_owned(), HostTensor { shape: view.shape().to_vec(), values }))
        })
        .collect()
}

/// Checks that [`decode`] reads the file, and that all values are finite: no training saves others. It copies nothing.
///
/// # Errors
/// Those of [`decode`], and [`RecordError::NotFinite`].
pub fn check(bytes: &[u8]) -> Result<(), RecordError> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| malformed(&error))?;
    for (name, view) in file.iter() {
        if !floats(name, &view)?.all(f32::is_finite) {
            return Err(RecordError::NotFinite { name: name.to_owned() });
        }
    }
    Ok(())
}

fn floats<'a>(name: &str, view: &TensorView<'a>) -> Result<impl Iterator<Item = f32> + use<'a>, RecordError> {
    if view.dtype() != Dtype::F32 {
        return Err(RecordError::NotFloats { name: name.to_owned() });
    }
    Ok(view.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)))
}

fn malformed(error: &safetensors::SafeTensorError) -> RecordError {
    RecordError::Malformed { reason: error.to_string() }
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

/// The elements of a tensor as little-endian bytes.
pub fn bytes(tensor: &HostTensor) -> Vec<u8> {
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
        let bytes = encode(&tensors()).unwrap();
        assert_eq!(decode(&bytes).unwrap(), tensors());
        assert_eq!(encode(&tensors()).unwrap(), bytes);
    }

    #[test]
    fn a_value_that_no_training_saves_is_refused() {
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut tensors = tensors();
            tensors.get_mut("a").unwrap().values[0] = value;
            let bytes = encode(&tensors).unwrap();
            assert!(matches!(check(&bytes), Err(RecordError::NotFinite { name }) if name == "a"), "{value}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_without_a_panic(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200),
        ) {
            let _ = decode(&bytes);
        }

        #[test]
        fn a_damaged_file_is_read_or_refused_without_a_panic(at in 0usize..200, byte: u8) {
            let mut bytes = encode(&tensors()).unwrap();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = decode(&bytes);
        }
    }
}
