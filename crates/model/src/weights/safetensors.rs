//! The safetensors format: a header in JSON, then the tensors' values.

use safetensors::{Dtype, tensor::Metadata};

use super::{
    element::Element,
    error::FormatError,
    file::Contents,
    header::check_entries,
    source::{ReadAt, array},
    stored::Stored,
};

/// Bytes of the header's length field.
const LENGTH_BYTES: u64 = 8;
/// The longest header that is read, as in the format's own library.
const LONGEST_HEADER: u64 = 100_000_000;

/// Whether the bytes may be such a file: a possible length, followed by the start of JSON.
pub(super) fn is_safetensors(head: &[u8], len: u64) -> bool {
    let Some((length, rest)) = head.split_first_chunk() else { return false };
    rest.first() == Some(&b'{') && u64::from_le_bytes(*length) <= len
}

/// Reads the header.
pub(super) fn index(bytes: &dyn ReadAt) -> Result<Contents, FormatError> {
    let length = u64::from_le_bytes(array(bytes, 0)?);
    if length > LONGEST_HEADER {
        return Err(FormatError::Unexpected { at: 0, expected: "a header of at most 100 MB" });
    }
    let Some(behind) = bytes.len().checked_sub(LENGTH_BYTES + length) else {
        return Err(FormatError::Truncated { at: bytes.len(), what: "header" });
    };
    // At most the file's bytes, by the check above.
    let mut header = vec![0; length as usize];
    bytes.read_at(LENGTH_BYTES, &mut header)?;
    check_entries(&header)?;
    let metadata: Metadata =
        serde_json::from_slice(&header).map_err(|source| FormatError::Header { source })?;
    drop(header);
    if (metadata.data_len() as u64) > behind {
        return Err(FormatError::Truncated { at: bytes.len(), what: "last tensor" });
    }
    let start = LENGTH_BYTES + length;
    let stored = metadata.tensors().into_iter().map(|(name, info)| {
        let at = start + info.data_offsets.0 as u64;
        (name, Stored::contiguous(element(info.dtype), info.shape.clone(), at))
    });
    let notes = metadata.metadata().clone().unwrap_or_default();
    Ok(Contents { tensors: stored.collect(), notes })
}

fn element(dtype: Dtype) -> Element {
    let name = match dtype {
        Dtype::F64 => return Element::F64,
        Dtype::F32 => return Element::F32,
        Dtype::F16 => return Element::F16,
        Dtype::BF16 => return Element::Bf16,
        Dtype::BOOL => "bool",
        Dtype::U8 => "uint8",
        Dtype::I8 => "int8",
        Dtype::I16 => "int16",
        Dtype::U16 => "uint16",
        Dtype::I32 => "int32",
        Dtype::U32 => "uint32",
        Dtype::I64 => "int64",
        Dtype::U64 => "uint64",
        Dtype::C64 => "complex64",
        _ => "of another kind",
    };
    Element::Other(name, dtype.bitsize().div_ceil(8))
}
