//! Weight files: safetensors files, whose errors name the file.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    io,
    path::Path,
};

use oomph_core::files::{Existing, write_beside};
use oomph_data::SourceRecord;
use oomph_engine::{
    HostTensor,
    record::{OptimizerRecord, RecordError},
    tensor_file::{self, TensorFile, bytes},
};
use oomph_model::{Architecture, Named, UnshownSettings};
use safetensors::{Dtype, SafeTensorError, View, serialize_to_file};

use super::{StateError, disk::sync_entry};

/// The safetensors file of some tensors. Errors name `path`.
pub(super) fn tensor_file<'a>(
    tensors: &'a Named<HostTensor>,
    path: &Path,
) -> Result<TensorFile<'a>, StateError> {
    TensorFile::of(tensors).map_err(|error| of_file(path, error))
}

/// Decodes the safetensors file `path`, and refuses what [`check`] refuses.
pub(super) fn decode(bytes: Vec<u8>, path: &Path) -> Result<Named<HostTensor>, StateError> {
    check(&bytes, path)?;
    tensor_file::decoded(bytes).map_err(|error| of_file(path, error))
}

/// Checks that the safetensors file `path` can be decoded, and that all its values are finite: no training saves others.
pub(super) fn check(bytes: &[u8], path: &Path) -> Result<(), StateError> {
    tensor_file::check(bytes).map_err(|error| of_file(path, error))
}

/// The file of optimizer state. Errors name `path`.
pub(super) fn state_file<'a>(record: &'a OptimizerRecord, path: &Path) -> Result<TensorFile<'a>, StateError> {
    TensorFile::of_state(record).map_err(|error| of_file(path, error))
}

/// Decodes the file `path` of optimizer state.
pub(super) fn decode_state(bytes: &[u8], path: &Path) -> Result<OptimizerRecord, StateError> {
    tensor_file::decode_state(bytes).map_err(|error| of_file(path, error))
}

/// Checks that [`decode_state`] reads the file `path`.
pub(super) fn check_state(bytes: &[u8], path: &Path) -> Result<(), StateError> {
    tensor_file::check_state(bytes).map_err(|error| of_file(path, error))
}

fn of_file(path: &Path, error: RecordError) -> StateError {
    match error {
        RecordError::Malformed { reason } => StateError::malformed(path, reason),
        error @ (RecordError::NotFloats { .. } | RecordError::NotFinite { .. }) => {
            StateError::malformed(path, error)
        }
        error => error.into(),
    }
}

/// Encodes a record of the data as JSON. Errors name `path`.
pub(super) fn encode_source(source: &SourceRecord, path: &Path) -> Result<String, StateError> {
    serde_json::to_string_pretty(source).map_err(|error| StateError::malformed(path, error))
}

/// A tensor of a weight file.
pub enum WeightTensor<'a> {
    /// A parameter or a running statistic.
    Floats(&'a HostTensor),
    /// A 64-bit integer.
    Count(i64),
}

/// Writes a safetensors file, tensor by tensor, with the record of the data and the settings of the network that no shape shows
/// beside PyTorch's note. The file is complete or absent.
///
/// # Errors
/// Where an existing file stays, the system refuses, or the library refuses the tensors.
pub fn write(
    tensors: &BTreeMap<String, WeightTensor<'_>>,
    source: Option<&SourceRecord>,
    settings: &UnshownSettings,
    path: &Path,
    existing: Existing,
) -> Result<(), StateError> {
    let mut notes = BTreeMap::from([("format", "pt".to_owned())]);
    if !settings.is_empty() {
        let text = serde_json::to_string(settings).map_err(|error| StateError::malformed(path, error))?;
        notes.insert(Architecture::NOTE, text);
    }
    if let Some(source) = source {
        notes.insert(SourceRecord::NOTE, encode_source(source, path)?);
    }
    let metadata = Some(ordered(&notes));
    write_beside(path, existing, |beside| {
        serialize_to_file(tensors.iter(), metadata, beside).map_err(|error| match error {
            SafeTensorError::IoError(error) => error,
            error => io::Error::other(error),
        })
    })
    .map_err(|error| StateError::io("write", path)(error.into()))?;
    sync_entry(path)
}

/// Notes in a map that iterates in their order: the library writes them in the map's order, and equal weights must give equal
/// bytes. A new map of three has the right order every sixth time.
fn ordered(notes: &BTreeMap<&'static str, String>) -> HashMap<String, String> {
    loop {
        let unordered: HashMap<String, String> =
            notes.iter().map(|(key, note)| ((*key).to_owned(), note.clone())).collect();
        if unordered.keys().eq(notes.keys()) {
            return unordered;
        }
    }
}

impl View for &WeightTensor<'_> {
    fn dtype(&self) -> Dtype {
        match self {
            WeightTensor::Floats(_) => Dtype::F32,
            WeightTensor::Count(_) => Dtype::I64,
        }
    }

    fn shape(&self) -> &[usize] {
        match self {
            WeightTensor::Floats(tensor) => &tensor.shape,
            WeightTensor::Count(_) => &[],
        }
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match self {
            WeightTensor::Floats(tensor) => bytes(tensor).into(),
            WeightTensor::Count(count) => count.to_le_bytes().to_vec().into(),
        }
    }

    fn data_len(&self) -> usize {
        match self {
            WeightTensor::Floats(tensor) => tensor.values.len() * size_of::<f32>(),
            WeightTensor::Count(_) => size_of::<i64>(),
        }
    }
}
