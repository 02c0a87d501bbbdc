//! Files in the format safetensors, read and written by none of oomph's code.

use serde_json::{Map, Value, json};

/// A file: its head, and the bytes behind it.
#[derive(Clone, Debug)]
pub(crate) struct TensorFile {
    pub(crate) head: Map<String, Value>,
    pub(crate) data: Vec<u8>,
}

impl TensorFile {
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (length, rest) = bytes.split_first_chunk::<8>()?;
        let (head, data) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        let head = serde_json::from_slice(head).ok()?;
        Some(Self { head, data: data.to_vec() })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        // Maps of JSON values always serialize.
        let mut head = serde_json::to_vec(&self.head).unwrap_or_default();
        head.resize(head.len().next_multiple_of(8), b' ');
        [&(head.len() as u64).to_le_bytes()[..], &head, &self.data].concat()
    }

    /// The names of its tensors.
    pub(crate) fn names(&self) -> Vec<String> {
        self.head.keys().filter(|name| *name != "__metadata__").cloned().collect()
    }

    /// Adds a tensor of ones behind the others.
    pub(crate) fn add(&mut self, name: String, shape: &[usize]) {
        let begin = self.data.len();
        self.data.extend(std::iter::repeat_n(1f32.to_le_bytes(), shape.iter().product()).flatten());
        let offsets = [begin, self.data.len()];
        self.head.insert(name, json!({ "dtype": "F32", "shape": shape, "data_offsets": offsets }));
    }

    /// Where the bytes of a tensor lie.
    pub(crate) fn place(&self, name: &str) -> Option<(usize, usize)> {
        let offsets = &self.head.get(name)?["data_offsets"];
        let (begin, end) = (offsets[0].as_u64()? as usize, offsets[1].as_u64()? as usize);
        (begin <= end && end <= self.data.len()).then_some((begin, end))
    }

    /// Takes a tensor out, with its bytes: the others move up.
    pub(crate) fn remove(&mut self, name: &str) {
        let Some((begin, end)) = self.place(name) else { return };
        self.head.remove(name);
        self.data.drain(begin..end);
        for entry in self.head.values_mut() {
            for side in 0..2 {
                if let Some(offset) = entry["data_offsets"][side].as_u64().filter(|it| *it as usize >= end) {
                    entry["data_offsets"][side] = json!(offset - (end - begin) as u64);
                }
            }
        }
    }

    /// Gives a tensor another shape, with as many bytes of ones as it needs.
    pub(crate) fn reshape(&mut self, name: &str, shape: &[usize]) {
        self.remove(name);
        self.add(name.to_owned(), shape);
    }
}
