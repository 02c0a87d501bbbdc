use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use oomph_config::{Config, ConfigError, MicroBatch, Recompute, Sharing};
use oomph_core::{Bytes, is_within};
use oomph_plan::Backend;

use super::Session;

/// How a step is split: its micro-batch, and the stages that recompute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StepSplit {
    /// Samples of one forward and backward on one device.
    pub micro_batch: usize,
    /// For each stage: whether it recomputes its activations in backward.
    pub recompute: Vec<bool>,
}

/// The facts that determine the choice of `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SplitKey {
    /// Samples of a step on all devices together.
    pub batch: usize,
    /// The backend whose allocator is planned.
    pub backend: Backend,
    /// The limit, if it is known.
    pub limit_bytes: Option<Bytes>,
}

/// What `auto` chose so far. Clones share one cache.
#[derive(Debug)]
pub struct ChoiceCache<T>(Arc<Mutex<HashMap<SplitKey, T>>>);

impl<T: Clone> ChoiceCache<T> {
    /// What `auto` chose for `key`, if it chose before.
    pub fn get(&self, key: &SplitKey) -> Option<T> {
        // A panic in another thread leaves valid entries.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    /// Stores what `auto` chose for `key`.
    pub fn insert(&self, key: SplitKey, chosen: T) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, chosen);
    }
}

impl<T> Default for ChoiceCache<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Clone for ChoiceCache<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// The split of a step of `batch` samples per device, as configured. `auto` counts as without a limit: the largest
/// micro-batch, and no recompute. This is the only place that resolves `memory.micro_batch`.
pub fn fixed_split(session: &Session, batch: usize) -> StepSplit {
    let memory = &session.config.memory;
    let micro_batch = match memory.micro_batch {
        Some(MicroBatch::Samples(samples)) => samples.min(batch),
        Some(MicroBatch::Auto) | None => whole_micro_batch(session, batch),
    };
    StepSplit { micro_batch, recompute: recomputed(&memory.recompute, &session.stages) }
}

/// For each stage: whether the setting selects it for recompute.
pub fn recomputed(setting: &Recompute, stages: &[String]) -> Vec<bool> {
    match setting {
        Recompute::None | Recompute::Ops | Recompute::Auto => vec![false; stages.len()],
        Recompute::Stages => vec![true; stages.len()],
        Recompute::Named(named) => {
            stages.iter().map(|stage| named.iter().any(|name| is_within(stage, name))).collect()
        }
    }
}

/// Checks that the model has all `named` stages and groups of stages.
///
/// # Errors
/// An error for `key` that lists the allowed names.
pub fn check_names(config: &Config, key: &str, named: &[String], stages: &[&str]) -> Result<(), ConfigError> {
    if named.iter().all(|name| stages.iter().any(|stage| is_within(stage, name))) {
        return Ok(());
    }
    // A group such as `layer1` comes before its stages, such as `layer1.0`.
    let mut allowed: Vec<&str> = Vec::new();
    for stage in stages {
        let group = stage.split('.').next().unwrap_or(stage);
        allowed.extend([group, stage].into_iter().filter(|name| !allowed.contains(name)).collect::<Vec<_>>());
    }
    allowed.dedup();
    Err(config.not_allowed(key, allowed))
}

/// The largest micro-batch: the whole share of a device. In a pipeline: a quarter of the batch divided by the number of
/// devices. With four micro-batches per device the bubble is less than a fifth of the time (Huang et al. 2019, section
/// 2.3).
fn whole_micro_batch(session: &Session, batch: usize) -> usize {
    const MICRO_BATCHES_A_DEVICE: usize = 4;
    match session.config.device.sharing {
        Sharing::Pipeline { .. } => {
            batch.div_ceil(MICRO_BATCHES_A_DEVICE * session.config.device.devices.len())
        }
        _ => batch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_selects_only_its_own_stages() {
        let stages = ["stem", "layer1.0", "layer1.1", "layer10.0"].map(str::to_owned);
        let named = |name: &str| recomputed(&Recompute::Named(vec![name.to_owned()]), &stages);
        assert_eq!(named("layer1"), [false, true, true, false]);
        assert_eq!(named("layer1.1"), [false, false, true, false]);
    }
}
