//! Tensors as the bytes of a safetensors file.
//!
//! A file of optimizer state has packed tensors too: bf16 as such, and 8-bit codes as bytes in the shape of the parameter,
//! beside their scales. These are named as the codes, with `_codes` and `_scales` behind.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::{self, Write},
};

use burn::tensor::bf16;
use oomph_kernels::packed::StoredMoment;
use oomph_model::Named;
use safetensors::{
    Dtype, SafeTensors,
    tensor::{Metadata, TensorInfo, TensorView},
};

use crate::record::{HostTensor, OptimizerRecord, PackedTensor, RecordError};

const CODES: &str = "_codes";
const SCALES: &str = "_scales";

/// A safetensors file of tensors, which become bytes one after another while it is written. Equal tensors give equal bytes.
#[derive(Debug)]
pub struct TensorFile<'a> {
    /// Its length, and behind it the names, formats, shapes and places of the tensors.
    header: Vec<u8>,
    tensors: Vec<Encoded<'a>>,
}

impl<'a> TensorFile<'a> {
    /// The file of some tensors.
    ///
    /// # Errors
    /// [`RecordError::Malformed`] if the safetensors crate refuses the tensors.
    pub fn of(tensors: &'a Named<HostTensor>) -> Result<Self, RecordError> {
        let encoded = |tensor: &'a HostTensor| encoded(&tensor.shape, Values::F32(&tensor.values));
        Self::new(tensors.iter().map(|(name, tensor)| (name.clone(), encoded(tensor))).collect())
    }

    /// The file of all tensors of a record.
    ///
    /// # Errors
    /// As [`TensorFile::of`].
    pub fn of_state(record: &'a OptimizerRecord) -> Result<Self, RecordError> {
        Self::new(state_tensors(record))
    }

    /// As [`safetensors::serialize`] makes it, which needs the memory of all tensors.
    fn new(tensors: BTreeMap<String, Encoded<'a>>) -> Result<Self, RecordError> {
        /// The length of the header is a multiple of it, and stands before the header in so many bytes.
        const ALIGNED: usize = 8;
        let mut tensors: Vec<_> = tensors.into_iter().collect();
        // Those of the widest elements first, so that all are aligned; then by name.
        tensors.sort_by_key(|(_, tensor)| std::cmp::Reverse(tensor.dtype()));
        let mut end = 0;
        let about = |(name, tensor): &(String, Encoded<'a>)| {
            let start = end;
            end += tensor.length();
            let data_offsets = (start, end);
            (name.clone(), TensorInfo { dtype: tensor.dtype(), shape: tensor.shape.clone(), data_offsets })
        };
        let about = tensors.iter().map(about).collect();
        // PyTorch's loaders look for this entry. It is the only one, since a map of several has no fixed order.
        let notes = [("format".to_owned(), "pt".to_owned())].into();
        let metadata = Metadata::new(Some(notes), about).map_err(|error| malformed(&error))?;
        let mut names = serde_json::to_vec(&metadata)
            .map_err(|error| RecordError::Malformed { reason: error.to_string() })?;
        names.resize(names.len().next_multiple_of(ALIGNED), b' ');
        let mut header = (names.len() as u64).to_le_bytes().to_vec();
        header.append(&mut names);
        Ok(Self { header, tensors: tensors.into_iter().map(|(_, tensor)| tensor).collect() })
    }

    /// Writes the whole file.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(&self, to: &mut dyn Write) -> io::Result<()> {
        to.write_all(&self.header)?;
        self.tensors.iter().try_for_each(|tensor| to.write_all(&tensor.data()))
    }

    fn bytes(&self) -> Vec<u8> {
        let tensors = self.tensors.iter().map(Encoded::length).sum::<usize>();
        let mut bytes = Vec::with_capacity(self.header.len() + tensors);
        bytes.extend_from_slice(&self.header);
        self.tensors.iter().for_each(|tensor| bytes.extend_from_slice(&tensor.data()));
        bytes
    }
}

/// The bytes of a [`TensorFile`].
///
/// # Errors
/// As [`TensorFile::of`].
pub fn encode(tensors: &Named<HostTensor>) -> Result<Vec<u8>, RecordError> {
    Ok(TensorFile::of(tensors)?.bytes())
}

/// As [`encode`], of all tensors of a record.
///
/// # Errors
/// As [`TensorFile::of`].
pub fn encode_state(record: &OptimizerRecord) -> Result<Vec<u8>, RecordError> {
    Ok(TensorFile::of_state(record)?.bytes())
}

fn state_tensors(record: &OptimizerRecord) -> BTreeMap<String, Encoded<'_>> {
    let mut files = BTreeMap::new();
    for (name, HostTensor { shape, values }) in &record.tensors {
        files.insert(name.clone(), encoded(shape, Values::F32(values)));
    }
    for (name, PackedTensor { shape, moment }) in &record.packed {
        match moment {
            StoredMoment::Bf16(values) => {
                files.insert(name.clone(), encoded(shape, Values::Bf16(values)));
            }
            StoredMoment::Int8 { codes, scales } => {
                files.insert(format!("{name}{CODES}"), encoded(shape, Values::U8(codes)));
                files.insert(format!("{name}{SCALES}"), encoded(&[scales.len()], Values::F32(scales)));
            }
        }
    }
    files
}

/// A record as a message to another rank of the same program: the length of the numbers, the numbers as JSON, the tensors.
///
/// # Errors
/// As [`encode_state`].
pub fn encode_message(record: &OptimizerRecord) -> Result<Vec<u8>, RecordError> {
    let numbers = serde_json::to_vec(&(&record.scalars, &record.ranks))
        .map_err(|error| RecordError::Malformed { reason: error.to_string() })?;
    let length = (numbers.len() as u64).to_le_bytes();
    Ok([&length[..], &numbers, &encode_state(record)?].concat())
}

/// The record of such a message.
///
/// # Errors
/// [`RecordError::Malformed`] if another version of the program wrote it.
pub fn decode_message(bytes: &[u8]) -> Result<OptimizerRecord, RecordError> {
    let other = || RecordError::Malformed { reason: "another version of oomph wrote it".to_owned() };
    let (length, rest) = bytes.split_first_chunk().ok_or_else(other)?;
    let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| other())?;
    let (numbers, tensors) = rest.split_at_checked(length).ok_or_else(other)?;
    let (scalars, ranks) = serde_json::from_slice(numbers).map_err(|_| other())?;
    Ok(OptimizerRecord { scalars, ranks, ..decode_state(tensors)? })
}

/// The tensors of a safetensors file.
///
/// # Errors
/// [`RecordError::Malformed`] if `bytes` are not a safetensors file, [`RecordError::NotFloats`] if a tensor does not
/// consist of 32-bit floats.
pub fn decode(bytes: &[u8]) -> Result<Named<HostTensor>, RecordError> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| malformed(&error))?;
    file.iter().map(|(name, view)| Ok((name.to_owned(), host(name, &view)?))).collect()
}

/// As [`decode`], where the memory of each tensor's bytes is freed once it is decoded: all tensors twice would be the most memory that an
/// evaluation takes.
///
/// # Errors
/// As [`decode`].
pub fn decoded(mut bytes: Vec<u8>) -> Result<Named<HostTensor>, RecordError> {
    let (_, file) = SafeTensors::read_metadata(&bytes).map_err(|error| malformed(&error))?;
    // The tensors stand behind the header, and end with the file.
    let header = bytes.len() - file.data_len();
    let mut tensors = Named::new();
    // From the last one on, so that the rest of the bytes need not be moved.
    for name in file.offset_keys().into_iter().rev() {
        let Some(TensorInfo { dtype, shape, data_offsets: (start, end) }) = file.info(&name) else {
            continue;
        };
        let view = TensorView::new(*dtype, shape.clone(), &bytes[header + start..header + end]);
        let tensor = host(&name, &view.map_err(|error| malformed(&error))?)?;
        bytes.truncate(header + start);
        bytes.shrink_to_fit();
        tensors.insert(name, tensor);
    }
    Ok(tensors)
}

/// The tensors of a file of optimizer state. The record has no scalars and ranks, which are not in the file.
///
/// # Errors
/// As [`decode`]; [`RecordError::Malformed`] too where the scales of codes are missing, or are not one for each 128 codes.
pub fn decode_state(bytes: &[u8]) -> Result<OptimizerRecord, RecordError> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| malformed(&error))?;
    let mut record = OptimizerRecord::default();
    for (name, view) in file.iter() {
        let shape = || view.shape().to_vec();
        match view.dtype() {
            Dtype::BF16 => {
                let moment = StoredMoment::Bf16(halves(&view).collect());
                record.packed.insert(name.to_owned(), PackedTensor { shape: shape(), moment });
            }
            Dtype::U8 => {
                let (name, scales) = scales_of(name, &view, &file)?;
                let moment = StoredMoment::Int8 {
                    codes: view.data().to_vec(),
                    scales: floats(name, &scales)?.collect(),
                };
                record.packed.insert(name.to_owned(), PackedTensor { shape: shape(), moment });
            }
            _ if is_of_codes(name, &file) => {}
            _ => drop(record.tensors.insert(name.to_owned(), host(name, &view)?)),
        }
    }
    Ok(record)
}

/// Checks that [`decode`] reads the file, and that all values are finite: no training saves others. It copies nothing.
///
/// # Errors
/// Those of [`decode`], and [`RecordError::NotFinite`].
pub fn check(bytes: &[u8]) -> Result<(), RecordError> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| malformed(&error))?;
    file.iter().try_for_each(|(name, view)| finite(name, floats(name, &view)?))
}

/// As [`check`], for [`decode_state`].
///
/// # Errors
/// Those of [`decode_state`], and [`RecordError::NotFinite`].
pub fn check_state(bytes: &[u8]) -> Result<(), RecordError> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| malformed(&error))?;
    file.iter().try_for_each(|(name, view)| match view.dtype() {
        Dtype::BF16 => finite(name, halves(&view).map(bf16::to_f32)),
        // The scales are checked as a tensor of their own.
        Dtype::U8 => scales_of(name, &view, &file).map(drop),
        _ => finite(name, floats(name, &view)?),
    })
}

fn finite(name: &str, mut values: impl Iterator<Item = f32>) -> Result<(), RecordError> {
    if values.all(f32::is_finite) { Ok(()) } else { Err(RecordError::NotFinite { name: name.to_owned() }) }
}

fn host(name: &str, view: &TensorView<'_>) -> Result<HostTensor, RecordError> {
    Ok(HostTensor { shape: view.shape().to_vec(), values: floats(name, view)?.collect() })
}

fn floats<'a>(name: &str, view: &TensorView<'a>) -> Result<impl Iterator<Item = f32> + use<'a>, RecordError> {
    if view.dtype() != Dtype::F32 {
        return Err(RecordError::NotFloats { name: name.to_owned() });
    }
    Ok(view.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)))
}

fn halves<'a>(view: &TensorView<'a>) -> impl Iterator<Item = bf16> + use<'a> {
    view.data().as_chunks().0.iter().map(|bytes| bf16::from_le_bytes(*bytes))
}

/// The name of the tensor whose codes `codes` are, and its scales.
fn scales_of<'a, 'b>(
    codes: &'a str,
    view: &TensorView<'_>,
    file: &SafeTensors<'b>,
) -> Result<(&'a str, TensorView<'b>), RecordError> {
    let refused = |reason: String| RecordError::Malformed { reason };
    let name = codes.strip_suffix(CODES).ok_or_else(|| RecordError::NotFloats { name: codes.to_owned() })?;
    let scales = file.tensor(&format!("{name}{SCALES}"));
    let scales = scales.map_err(|_| refused(format!("`{codes}` has no `{name}{SCALES}`")))?;
    let expected = StoredMoment::scales(view.data().len());
    match scales.shape() {
        [count] if *count == expected => Ok((name, scales)),
        found => Err(refused(format!("`{name}{SCALES}` is {found:?}, expected [{expected}]"))),
    }
}

/// Whether the tensor has the scales of codes.
fn is_of_codes(name: &str, file: &SafeTensors<'_>) -> bool {
    let codes = name.strip_suffix(SCALES).map(|name| format!("{name}{CODES}"));
    codes.is_some_and(|codes| file.tensor(&codes).is_ok_and(|view| view.dtype() == Dtype::U8))
}

fn malformed(error: &safetensors::SafeTensorError) -> RecordError {
    RecordError::Malformed { reason: error.to_string() }
}

fn encoded<'a>(shape: &[usize], values: Values<'a>) -> Encoded<'a> {
    Encoded { shape: shape.to_vec(), values }
}

#[derive(Debug)]
struct Encoded<'a> {
    shape: Vec<usize>,
    values: Values<'a>,
}

#[derive(Debug)]
enum Values<'a> {
    F32(&'a [f32]),
    Bf16(&'a [bf16]),
    U8(&'a [u8]),
}

impl Encoded<'_> {
    fn dtype(&self) -> Dtype {
        match self.values {
            Values::F32(_) => Dtype::F32,
            Values::Bf16(_) => Dtype::BF16,
            Values::U8(_) => Dtype::U8,
        }
    }

    fn data(&self) -> Cow<'_, [u8]> {
        match self.values {
            Values::F32(values) => float_bytes(values).into(),
            Values::Bf16(values) => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            Values::U8(bytes) => bytes.into(),
        }
    }

    /// In bytes.
    fn length(&self) -> usize {
        match self.values {
            Values::F32(values) => size_of_val(values),
            Values::Bf16(values) => size_of_val(values),
            Values::U8(bytes) => bytes.len(),
        }
    }
}

/// The elements of a tensor as little-endian bytes.
pub fn bytes(tensor: &HostTensor) -> Vec<u8> {
    float_bytes(&tensor.values)
}

fn float_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use oomph_kernels::packed::{MomentKind, PackedFormat};

    use super::*;

    fn tensors() -> Named<HostTensor> {
        let tensor = |shape: &[usize], start: f32| HostTensor {
            shape: shape.to_vec(),
            values: (0..shape.iter().product()).map(|index: usize| start + index as f32).collect(),
        };
        [("b.weight".into(), tensor(&[2, 3], 0.5)), ("a".into(), tensor(&[1], -1.0))].into()
    }

    /// As the library writes them.
    impl safetensors::View for &Encoded<'_> {
        fn dtype(&self) -> Dtype {
            Encoded::dtype(self)
        }

        fn shape(&self) -> &[usize] {
            &self.shape
        }

        fn data(&self) -> Cow<'_, [u8]> {
            Encoded::data(self)
        }

        fn data_len(&self) -> usize {
            self.length()
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_library() {
        let state = state();
        let tensors = state_tensors(&state);
        let notes = [("format".to_owned(), "pt".to_owned())].into();
        let expected = safetensors::serialize(tensors.iter(), Some(notes)).unwrap();
        assert_eq!(encode_state(&state).unwrap(), expected);
        let mut written = Vec::new();
        TensorFile::of_state(&state).unwrap().write(&mut written).unwrap();
        assert_eq!(written, expected);
    }

    #[test]
    fn tensors_survive_and_bytes_repeat() {
        let bytes = encode(&tensors()).unwrap();
        assert_eq!(decode(&bytes).unwrap(), tensors());
        assert_eq!(decoded(bytes.clone()).unwrap(), tensors());
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

    fn state() -> OptimizerRecord {
        let values: Vec<f32> = (0..130).map(|at| at as f32 - 20.0).collect();
        let packed = |format| PackedTensor {
            shape: vec![13, 10],
            moment: StoredMoment::of_values(format, &values, MomentKind::Signed),
        };
        let packed =
            [("a.m".into(), packed(PackedFormat::Int8)), ("b.m".into(), packed(PackedFormat::Bf16))].into();
        OptimizerRecord { tensors: tensors(), packed, ..OptimizerRecord::default() }
    }

    #[test]
    fn packed_state_survives() {
        let bytes = encode_state(&state()).unwrap();
        assert_eq!(decode_state(&bytes).unwrap(), state());
        assert_eq!(encode_state(&state()).unwrap(), bytes);
        check_state(&bytes).unwrap();
        assert!(
            matches!(decode(&bytes), Err(RecordError::NotFloats { .. })),
            "a model has floats of 32 bits alone"
        );
    }

    #[test]
    fn packed_state_that_no_training_saves_is_refused() {
        let refused = |change: &dyn Fn(&mut Vec<u8>, &mut Vec<f32>)| {
            let mut state = state();
            match &mut state.packed.get_mut("a.m").unwrap().moment {
                StoredMoment::Int8 { codes, scales } => change(codes, scales),
                StoredMoment::Bf16(_) => panic!("it has 8 bits"),
            }
            let bytes = encode_state(&state).unwrap();
            [decode_state(&bytes).map(drop), check_state(&bytes)].map(|it| it.err().map(|it| it.to_string()))
        };
        let [read, checked] = refused(&|_, scales| scales[1] = f32::NAN);
        assert_eq!(
            (read, checked.unwrap()),
            (None, "`a.m_scales` has a value that is infinite or not a number".into())
        );
        let says = "not a safetensors file: `a.m_scales` is [1], expected [2]";
        assert_eq!(refused(&|_, scales| scales.truncate(1)), [Some(says.to_owned()), Some(says.to_owned())]);
        let mut state = state();
        state.packed.get_mut("b.m").unwrap().moment = StoredMoment::Bf16(vec![bf16::INFINITY; 130]);
        let bytes = encode_state(&state).unwrap();
        assert!(matches!(check_state(&bytes), Err(RecordError::NotFinite { name }) if name == "b.m"));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_without_a_panic(
            bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200),
        ) {
            let _ = (decode(&bytes), decode_state(&bytes), check_state(&bytes), decoded(bytes));
        }

        #[test]
        fn a_damaged_file_is_read_or_refused_without_a_panic(at in 0usize..1000, byte: u8) {
            let mut bytes = encode_state(&state()).unwrap();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = (decode(&bytes), decode_state(&bytes), check_state(&bytes), decoded(bytes));
        }
    }
}
