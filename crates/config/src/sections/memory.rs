//! `[memory]`.

use oomph_core::Bytes;

use crate::{
    device_name::DeviceName,
    error::ConfigError,
    precedence::{Rule, clash},
    section::{Refused, Section, as_integer, as_list, as_string, name_of},
    sections::{
        batch::batch_setting,
        fit::{Allow, Fit},
        offload::Offload,
        sharing::Sharing,
    },
    value::Value,
};

/// `[memory]`: the policy that bounds the memory of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// `precision`: `fp32`, `bf16` or `fp16`; default `fp32`.
    pub precision: Precision,
    /// `recompute`: `none`, `ops`, `stages`, `auto` or a list of names of stages; default `none`.
    pub recompute: Recompute,
    /// `lean`: whether layers use backward passes that keep less memory than those of Burn's operations; default `true`.
    pub lean: bool,
    /// `gradients`: `keep` (until the optimizer step of the whole model) or `release` (each stage takes its step in backward);
    /// default `keep`.
    pub gradients: Gradients,
    /// `offload`: what lies in host memory while its device does without it: `none`, or a list of `optimizer` and `activations`;
    /// default `none`.
    pub offload: Offload,
    /// `loss_chunk`: the most tokens whose logits exist at the same time, at least 1, or `none` for all of a micro-batch: the last
    /// stage and the loss of a language model are computed by chunks of so many tokens. Default `none`.
    pub loss_chunk: Option<usize>,
    /// `micro_batch`: samples of one forward and backward pass on one device, from 1 to `train.batch`, or `auto`; by
    /// default the device's whole share of the batch. It need not divide the batch: the last one is smaller.
    pub micro_batch: Option<MicroBatch>,
    /// `limit`: bytes that one device may use; by default all that it has.
    pub limit: Option<Bytes>,
    /// `fit`: `off`, or `auto`: `micro_batch`, `recompute`, `gradients` and `offload` are chosen for the least time within the limit,
    /// where they have their defaults; default `off`.
    pub fit: Fit,
    /// `allow`: what `fit = "auto"` may also choose: `none`, or a list of `bf16`, `bf16_state` and `int8_state`; default `none`.
    pub allow: Allow,
    /// `record`: the number of recent allocations that are recorded for reports, from 0 to 10,000,000; default
    /// 100,000.
    pub record: usize,
    /// `pool`: how a GPU's allocator divides reserved memory: `default`, `sub-slices`, `exclusive-pages` or `direct`;
    /// default `default`.
    pub pool: Pool,
    /// `on_oom`: what a training does when it runs out of memory: `stop` or `adapt`; default `stop`.
    pub on_oom: OnOom,
    /// `cleanup`: when unused cached memory goes back to the device: `auto` (after the model is built, around
    /// evaluations, and near the limit), `never` or `each-epoch`; default `auto`.
    pub cleanup: Cleanup,
    /// `leak_check`: whether steps are compared to find memory that is never freed; default `true`.
    pub leak_check: bool,
}

/// The number format of forward and backward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// `fp32`: 32-bit floats throughout.
    Fp32,
    /// `bf16`: 16 bits with the exponent of 32 (Kalamkar et al. 2019, <https://arxiv.org/abs/1905.12322>).
    Bf16,
    /// `fp16`: 16-bit half precision with loss scaling (Micikevicius et al. 2018, <https://arxiv.org/abs/1710.03740>).
    Fp16,
}

impl Precision {
    /// As `memory.precision` has it.
    pub fn name(self) -> &'static str {
        name_of(&PRECISIONS, &self)
    }
}

/// Which activations backward recomputes instead of keeping (Chen et al. 2016,
/// <https://arxiv.org/abs/1604.06174>).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recompute {
    /// `none`: all activations are kept.
    None,
    /// `ops`: activations of cheap, memory-bound operations are recomputed.
    Ops,
    /// `stages`: only the input of every stage is kept.
    Stages,
    /// `auto`: as few stages as the limit allows, chosen for the least time.
    Auto,
    /// A list: the activations of the named stages are recomputed.
    Named(Vec<String>),
}

/// How long gradients stay in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gradients {
    /// `keep`: until backward has ended and the optimizer has taken its step for the whole model.
    Keep,
    /// `release`: the optimizer takes its step for a stage as soon as the gradients of this stage are complete, and they are freed
    /// (Lv et al. 2023, <https://arxiv.org/abs/2306.09782>). Of several micro-batches only the last releases.
    Release,
}

impl Gradients {
    /// As `memory.gradients` has it.
    pub fn name(self) -> &'static str {
        name_of(&GRADIENTS, &self)
    }
}

/// How a GPU's allocator divides reserved memory (cubecl's memory pools).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// `default`: the same as `direct`.
    Default,
    /// `sub-slices`: a ladder of pools by size that cut large pages into slices.
    SubSlices,
    /// `exclusive-pages`: one page per allocation, in exponentially spaced sizes.
    ExclusivePages,
    /// `direct`: one reservation per allocation, reused for the exact size.
    Direct,
}

/// The reaction of a training that runs out of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnOom {
    /// `stop`: it ends with a report of the changes that would fit.
    Stop,
    /// `adapt`: it resumes from its last state in a fresh process, with changes that keep the batch, such as a smaller
    /// micro-batch.
    Adapt,
}

/// When the allocator returns cached memory to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleanup {
    /// `auto`: after the model is built, around evaluations, and near the limit.
    Auto,
    /// `never`: cached memory stays for the next step.
    Never,
    /// `each-epoch`: after every epoch.
    EachEpoch,
}

/// The size of a micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MicroBatch {
    /// A number of samples, at least 1.
    Samples(usize),
    /// `auto`: the largest micro-batch that fits.
    Auto,
}

const PRECISIONS: [(&str, Precision); 3] =
    [("fp32", Precision::Fp32), ("bf16", Precision::Bf16), ("fp16", Precision::Fp16)];

const GRADIENTS: [(&str, Gradients); 2] = [("keep", Gradients::Keep), ("release", Gradients::Release)];

const CLEANUPS: [(&str, Cleanup); 3] =
    [("auto", Cleanup::Auto), ("never", Cleanup::Never), ("each-epoch", Cleanup::EachEpoch)];

const ON_OOM: [(&str, OnOom); 2] = [("stop", OnOom::Stop), ("adapt", OnOom::Adapt)];

const POOLS: [(&str, Pool); 4] = [
    ("default", Pool::Default),
    ("sub-slices", Pool::SubSlices),
    ("exclusive-pages", Pool::ExclusivePages),
    ("direct", Pool::Direct),
];

/// A number without a unit is a number of bytes. Below this one, something else was meant: `8` stands for 8 GiB.
const LEAST_BARE: Bytes = Bytes::mib(1);

impl Memory {
    /// Reads the section. `batch` is `train.batch`; `train` has its setting.
    pub(crate) fn read(section: &Section, train: &Section, batch: usize) -> Result<Self, ConfigError> {
        let memory = Self {
            precision: section.choice("precision", "fp32", &PRECISIONS)?,
            recompute: Recompute::read(section)?,
            lean: section.boolean("lean", true)?,
            gradients: section.choice("gradients", "keep", &GRADIENTS)?,
            offload: Offload::read(section)?,
            loss_chunk: LossChunk::read(section)?,
            micro_batch: MicroBatch::read(section)?,
            limit: section.bytes("limit")?,
            fit: Fit::read(section)?,
            allow: Allow::read(section)?,
            record: section.integer("record", 100_000, 0..=10_000_000)?,
            pool: section.choice("pool", "default", &POOLS)?,
            on_oom: section.choice("on_oom", "stop", &ON_OOM)?,
            cleanup: section.choice("cleanup", "auto", &CLEANUPS)?,
            leak_check: section.boolean("leak_check", true)?,
        };
        let is_bare = || matches!(section.ledger.setting("limit"), Some(limit) if limit.value.is_integer());
        if memory.limit.is_some_and(|limit| limit < LEAST_BARE && is_bare()) {
            return Err(section.invalid("limit", "a size with its unit, such as `8GiB`"));
        }
        if memory.limit == Some(Bytes::new(0)) {
            return Err(section.invalid("limit", "a size of at least one byte"));
        }
        if let Some(MicroBatch::Samples(samples)) = memory.micro_batch
            && samples > batch
            && let (Some(micro_batch), Some(batch)) =
                (section.ledger.given("micro_batch"), batch_setting(train, batch))
        {
            return Err(clash(micro_batch, batch, &WITHIN_THE_BATCH));
        }
        Ok(memory)
    }

    /// Notes settings that the devices have no use for.
    pub(crate) fn note_idle(&self, section: &Section, devices: &[DeviceName]) {
        if !devices.contains(&DeviceName::Cpu) {
            section.has_no_effect("record", "a GPU's allocations are not recorded");
        }
        if self.fit == Fit::Off {
            section.has_no_effect("allow", "`memory.fit` is `off`");
        }
    }

    /// Refuses to release gradients that are needed after backward: by a norm over all of them, by a step that is skipped
    /// where one overflows, or by a coordinator that sums those of its replicas.
    pub(crate) fn check_release(
        &self,
        section: &Section,
        optimizer: &Section,
        device: &Section,
        sharing: &Sharing,
    ) -> Result<(), ConfigError> {
        if self.gradients != Gradients::Release {
            return Ok(());
        }
        let Some(release) = section.ledger.setting("gradients") else { return Ok(()) };
        if let Some(clip) = optimizer.ledger.given("clip_global_norm") {
            return Err(clash(release, clip, &NO_GLOBAL_NORM));
        }
        if let (Precision::Fp16, Some(precision)) = (self.precision, section.ledger.setting("precision")) {
            return Err(clash(release, precision, &NO_LOSS_SCALE));
        }
        if let (Sharing::Dp { .. }, Some(strategy)) = (sharing, device.ledger.setting("strategy")) {
            return Err(clash(release, strategy, &NO_COORDINATOR));
        }
        Ok(())
    }

    /// Refuses to compute the loss by chunks where a coordinator needs the whole output.
    pub(crate) fn check_loss_chunk(
        &self,
        section: &Section,
        device: &Section,
        sharing: &Sharing,
    ) -> Result<(), ConfigError> {
        if let (Some(_), Sharing::Dp { .. }) = (self.loss_chunk, sharing)
            && let (Some(chunk), Some(strategy)) =
                (section.ledger.given("loss_chunk"), device.ledger.setting("strategy"))
        {
            return Err(clash(chunk, strategy, &NO_CHUNKS_OF_A_COORDINATOR));
        }
        Ok(())
    }

    /// Refuses settings that the devices do not support.
    pub(crate) fn check_devices(&self, section: &Section, devices: &[DeviceName]) -> Result<(), ConfigError> {
        if self.limit.is_some() && devices.iter().any(|device| *device != DeviceName::Cpu) {
            return Err(section.not_yet("limit", "a limit on the CPU"));
        }
        if self.pool != Pool::Default && devices.contains(&DeviceName::Cpu) {
            return Err(section.invalid("pool", "`default`: only GPUs have memory pools"));
        }
        Ok(())
    }
}

/// The tokens of a chunk of the loss; `none` for all.
#[derive(Clone)]
struct LossChunk(Option<usize>);

impl LossChunk {
    fn read(section: &Section) -> Result<Option<usize>, ConfigError> {
        let expected = "an integer of at least 1, or `none`";
        let chunk = section.or("loss_chunk", Self(None), expected, |value| match value {
            Value::String(text) if text == "none" => Ok(Self(None)),
            tokens => as_integer(tokens, &(1..)).map(|tokens| Self(Some(tokens))),
        })?;
        Ok(chunk.0)
    }
}

impl From<LossChunk> for Value {
    fn from(chunk: LossChunk) -> Self {
        chunk.0.map_or("none".into(), Self::from)
    }
}

const WITHIN_THE_BATCH: Rule = Rule {
    says: "a micro-batch cannot be larger than the batch",
    fix: "lower `memory.micro_batch`, raise `train.batch`, or remove `memory.micro_batch` to train on whole batches",
};

const NO_GLOBAL_NORM: Rule = Rule {
    says: "the global norm needs the gradients of all stages at once",
    fix: "clip with `optimizer.clip_norm` or `optimizer.clip_value`, which look at one tensor at a time, or set \
          `memory.gradients` to `keep`",
};
const NO_LOSS_SCALE: Rule = Rule {
    says: "fp16 checks all gradients for overflow before the first parameter changes",
    fix: "set `memory.precision` to `bf16`, which needs no loss scale, or `memory.gradients` to `keep`",
};
const NO_COORDINATOR: Rule = Rule {
    says: "the coordinator of `dp` sums the gradients of all replicas after their backward",
    fix: "set `device.strategy` to `ddp`, or `memory.gradients` to `keep`",
};
const NO_CHUNKS_OF_A_COORDINATOR: Rule = Rule {
    says: "the coordinator of `dp` needs the logits of all replicas for the loss",
    fix: "set `device.strategy` to `ddp`, or remove `memory.loss_chunk`",
};

impl Recompute {
    const NAMES: [(&'static str, Self); 4] =
        [("none", Self::None), ("ops", Self::Ops), ("stages", Self::Stages), ("auto", Self::Auto)];

    /// The choice with this name; `None` for any other text, such as the name of a stage.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, recompute)| recompute)
    }

    /// The name of the choice; `None` for a list of stages.
    pub fn name(&self) -> Option<&'static str> {
        Some(name_of(&Self::NAMES, self)).filter(|name| !name.is_empty())
    }

    fn read(section: &Section) -> Result<Self, ConfigError> {
        let expected = "one of `none`, `ops`, `stages` or `auto`, or a list of names of stages";
        section.or("recompute", Self::None, expected, |value| match value {
            Value::String(chosen) => Self::named(chosen).ok_or(Refused::Value),
            Value::List(names) if names.is_empty() => Err(Refused::Value),
            list => as_list(list, as_string).map(Self::Named),
        })
    }
}

impl From<Recompute> for Value {
    fn from(recompute: Recompute) -> Self {
        match (recompute.name(), recompute) {
            (_, Recompute::Named(names)) => Self::from(names),
            // Only `Named` has no name.
            (name, _) => Self::from(name.unwrap_or_default()),
        }
    }
}

impl MicroBatch {
    fn read(section: &Section) -> Result<Option<Self>, ConfigError> {
        section.read("micro_batch", "an integer of at least 1, or `auto`", |value| match value {
            Value::String(text) if text == "auto" => Ok(Self::Auto),
            samples => as_integer(samples, &(1..)).map(Self::Samples),
        })
    }
}

impl From<MicroBatch> for Value {
    fn from(micro_batch: MicroBatch) -> Self {
        match micro_batch {
            MicroBatch::Samples(samples) => Self::from(samples),
            MicroBatch::Auto => Self::from("auto"),
        }
    }
}
