use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use oomph_core::Bytes;
use oomph_plan::Backend;

/// How a step is split: its micro-batch, and the stages that recompute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepSplit {
    /// Samples of one forward and backward on one device.
    pub micro_batch: usize,
    /// For each stage: whether it recomputes its activations in backward.
    pub recompute: Vec<bool>,
}

/// The facts that determine the choice of `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SplitKey {
    /// Samples of a step on one device.
    pub batch: usize,
    /// The backend whose allocator is planned.
    pub backend: Backend,
    /// The limit, if it is known.
    pub limit_bytes: Option<Bytes>,
}

/// The splits that `auto` chose. Clones share one cache.
#[derive(Clone, Debug, Default)]
pub struct SplitCache(Arc<Mutex<HashMap<SplitKey, StepSplit>>>);

impl SplitCache {
    /// The split that `auto` chose for `key`, if it was chosen before.
    pub fn get(&self, key: &SplitKey) -> Option<StepSplit> {
        // A panic in another thread leaves valid entries.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Stores the split that `auto` chose for `key`.
    pub fn insert(&self, key: SplitKey, split: StepSplit) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, split);
    }
}
