use std::path::PathBuf;

use oomph_core::Bytes;
use toml::de::DeValue;

use crate::{
    config::Config,
    error::ConfigError,
    origin::Origin,
    section::Section,
    section_names::OPEN_SECTIONS,
    sections::{
        fit::Fit,
        memory::{Gradients, MicroBatch, Precision, Recompute},
        offload::Offload,
        optimizer::{OptimizerName, StateFormat},
        sharing::{Shard, Sharing},
    },
    setting::Setting,
    value::Value,
};

/// A change of one key, such as a lever against running out of memory.
///
/// [`Config::changed`] applies it; [`setting`](Self::setting) is the `--set` that a user types for it.
///
/// ```
/// use oomph_config::{Change, Config, MicroBatch, OptimizerName};
///
/// let config = Config::from_toml("my.toml", "[optimizer]\nmomentum = 0.9\nnesterov = true")?;
/// let changes = [Change::MicroBatch(MicroBatch::Samples(8)), Change::Optimizer(OptimizerName::AdamW)];
/// let changed = config.changed(&changes)?;
/// // The keys of another optimizer are set aside, and the new one has its own defaults.
/// assert_eq!((changed.optimizer.kind.name(), changed.optimizer.lr), ("adamw", 1e-3));
/// assert_eq!(changes[0].setting(), ("memory.micro_batch".to_owned(), "8".to_owned()));
/// # Ok::<(), oomph_config::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// `train.batch`: samples of one optimizer step.
    Batch(usize),
    /// `train.seed`: the seed of all randomness in a run.
    Seed(u64),
    /// `train.eval_batch`: samples of one forward pass of evaluation.
    EvalBatch(usize),
    /// `memory.micro_batch`: samples of one forward and backward pass on one device.
    MicroBatch(MicroBatch),
    /// `memory.lean`.
    Lean(bool),
    /// `memory.recompute`.
    Recompute(Recompute),
    /// `memory.gradients`.
    Gradients(Gradients),
    /// `memory.offload`.
    Offload(Offload),
    /// `memory.loss_chunk`.
    LossChunk(usize),
    /// `device.shard`.
    Shard(Shard),
    /// `memory.fit`.
    Fit(Fit),
    /// `memory.precision`.
    Precision(Precision),
    /// `memory.limit`.
    Limit(Bytes),
    /// `optimizer.name`. Keys that both optimizers have stay as they are given, the new one's others get its defaults.
    Optimizer(OptimizerName),
    /// `optimizer.momentum`.
    Momentum(f64),
    /// `optimizer.nesterov`.
    Nesterov(bool),
    /// `optimizer.state`.
    State(StateFormat),
    /// `run.directory`.
    RunDirectory(PathBuf),
}

impl Change {
    /// The full key, such as `train.batch`.
    pub fn key(&self) -> &'static str {
        self.key_and_value().0
    }

    /// The value that the key gets.
    pub fn value(&self) -> Value {
        self.key_and_value().1
    }

    fn key_and_value(&self) -> (&'static str, Value) {
        match self {
            Self::Batch(samples) => ("train.batch", (*samples).into()),
            Self::Seed(seed) => ("train.seed", (*seed).into()),
            Self::EvalBatch(samples) => ("train.eval_batch", (*samples).into()),
            Self::MicroBatch(micro_batch) => ("memory.micro_batch", (*micro_batch).into()),
            Self::Lean(on) => ("memory.lean", (*on).into()),
            Self::Recompute(recompute) => ("memory.recompute", recompute.clone().into()),
            Self::Gradients(gradients) => ("memory.gradients", gradients.name().into()),
            Self::Offload(offload) => ("memory.offload", offload.name().into()),
            Self::LossChunk(tokens) => ("memory.loss_chunk", (*tokens).into()),
            Self::Shard(shard) => ("device.shard", shard.name().into()),
            Self::Fit(fit) => ("memory.fit", fit.name().into()),
            Self::Precision(precision) => ("memory.precision", precision.name().into()),
            Self::Limit(bytes) => ("memory.limit", (*bytes).into()),
            Self::Optimizer(name) => ("optimizer.name", name.as_str().into()),
            Self::Momentum(momentum) => ("optimizer.momentum", (*momentum).into()),
            Self::Nesterov(on) => ("optimizer.nesterov", (*on).into()),
            Self::State(format) => ("optimizer.state", format.name().into()),
            Self::RunDirectory(path) => ("run.directory", path.to_string_lossy().into_owned().into()),
        }
    }

    /// The key and the value as text, for `--set key=value`. A string has quotes only where it needs them.
    pub fn setting(&self) -> (String, String) {
        let (key, value) = self.key_and_value();
        let text = match value {
            Value::String(text) if is_typed_plainly(&text) => text,
            value => value.to_string(),
        };
        (key.to_owned(), text)
    }
}

/// Whether `--set` reads this text as the string that it is.
fn is_typed_plainly(text: &str) -> bool {
    !text.is_empty()
        && text.trim() == text
        && !text.starts_with(['[', '{', '"', '\''])
        && DeValue::parse(text).is_err()
}

impl Config {
    /// The configuration with some values changed, as if the last `--set` had given them: choices set keys of the same
    /// or lower layers aside, and all checks of [`load`](Self::load) hold. Of two changes of one key the later one
    /// counts.
    ///
    /// `[model]` and `[data]` are shared with this configuration. `device` is a copy of its field, but for a change of
    /// `device.shard`; other fields come from the settings, even if a caller assigned to them.
    ///
    /// # Errors
    /// A value is out of range, or contradicts another.
    pub fn changed(&self, changes: &[Change]) -> Result<Self, ConfigError> {
        let sections = self.sections.each_ref().map(|section| {
            if OPEN_SECTIONS.contains(&section.name()) {
                return section.clone();
            }
            let mut given = section.ledger.all_given().clone();
            for (full, value) in changes.iter().map(Change::key_and_value) {
                if let Some((name, key)) = full.split_once('.')
                    && name == section.name()
                {
                    Setting::new(full, value, Origin::Change).stack_on(&mut given, key);
                }
            }
            Section::new(section.name(), given, section.ledger.assumed.is_stored)
        });
        let mut changed = Self::of_sections(self.name().to_owned(), sections)?;
        changed.device = self.device.clone();
        if let Sharing::Ddp(ddp) = &mut changed.device.sharing {
            let mut shards = changes.iter().filter_map(|change| match change {
                Change::Shard(shard) => Some(*shard),
                _ => None,
            });
            ddp.shard = shards.next_back().unwrap_or(ddp.shard);
        }
        Ok(changed)
    }
}
