use std::collections::{BTreeMap, HashMap};

use super::stored::Stored;

/// The tensors and notes of a file.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) tensors: BTreeMap<String, Stored>,
    /// The metadata of a safetensors file.
    pub(super) notes: HashMap<String, String>,
}

impl From<BTreeMap<String, Stored>> for Contents {
    fn from(tensors: BTreeMap<String, Stored>) -> Self {
        Self { tensors, notes: HashMap::new() }
    }
}
