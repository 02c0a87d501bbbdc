use oomph_kernels::attention::KeysAndValues;

use crate::Named;

/// Keys and values of the positions that a decoder has read, by layer. A pass with a cache reads the positions that follow, so each
/// position of a text is computed once.
///
/// Only [architectures that say so](crate::Architecture::with_key_value_cache) compute the same with it.
#[derive(Clone, Debug)]
pub struct KeyValueCache {
    layers: Named<KeysAndValues>,
    capacity: usize,
}

impl KeyValueCache {
    /// A cache without positions, which soon has memory for `capacity` of them. It grows where there are more.
    pub fn new(capacity: usize) -> Self {
        Self { layers: Named::new(), capacity }
    }

    /// The number of positions that all layers have read.
    pub fn positions(&self) -> usize {
        self.layers.values().map(KeysAndValues::positions).min().unwrap_or(0)
    }

    /// Positions that a layer has memory for.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Takes what the layer `name` has read.
    pub(crate) fn take(&mut self, name: &str) -> Option<KeysAndValues> {
        self.layers.remove(name)
    }

    pub(crate) fn put(&mut self, name: String, read: KeysAndValues) {
        self.layers.insert(name, read);
    }
}
