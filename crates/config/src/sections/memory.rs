use oomph_core::Bytes;

use crate::{
    device_name::DeviceName,
    error::ConfigError,
    precedence::{Rule, clash},
    section::{Refused, Section},
    value::Value,
};

/// `[memory]`: the policy, which is what a step may keep and how large it may get.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// `precision`: `fp32`, `bf16` or `fp16`; default `fp32`.
    pub precision: Precision,
    /// `recompute`: `none`, `ops`, `stages`, `auto` or a list of names of stages; default `none`.
    pub recompute: Recompute,
    /// `lean`: whether layers have backward passes that keep less than those of Burn's operations; default `true`.
    pub lean: bool,
    /// `micro_batch`: samples that one forward and backward pass on one device sees, from 1 to `train.batch`, or
    /// `auto`; by default the whole share of the device. It need not divide the batch: the last one is smaller.
    pub micro_batch: Option<MicroBatch>,
    /// `limit`: bytes that one device may use; by default what it has.
    pub limit: Option<Bytes>,
    /// `record`: allocations that are kept to be looked at when memory runs out or on request, from 0 to
    /// 10,000,000; default 100,000.
    pub record: usize,
    /// `pool`: how a GPU's allocator cuts up what it reserves: `default`, `sub-slices`, `exclusive-pages` or `direct`;
    /// default `default`.
    pub pool: Pool,
    /// `on_oom`: what comes of a training that runs out of memory: `stop` or `adapt`; default `stop`.
    pub on_oom: OnOom,
    /// `cleanup`: when cached memory that nobody uses is given back: `auto` (after the model is made, around
    /// evaluations, and where the limit is near), `never` or `each-epoch`; default `auto`.
    pub cleanup: Cleanup,
    /// `leak_check`: whether steps are compared to find memory that is never given back; default `true`.
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
        match self {
            Self::Fp32 => "fp32",
            Self::Bf16 => "bf16",
            Self::Fp16 => "fp16",
        }
    }
}

/// Which activations are computed again in backward instead of being kept (Chen et al. 2016,
/// <https://arxiv.org/abs/1604.06174>).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recompute {
    /// `none`: all are kept.
    None,
    /// `ops`: those of cheap, memory-bound operations are not.
    Ops,
    /// `stages`: only the input of every stage is kept.
    Stages,
    /// `auto`: as many stages as the limit asks for, at the least time.
    Auto,
    /// A list: those of the stages named.
    Named(Vec<String>),
}

/// How a GPU's allocator cuts up what it reserves (cubecl's memory pools).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// `default`: what the pinned Burn starts with.
    Default,
    /// `sub-slices`: a ladder of pools by size that cut large pages into slices.
    SubSlices,
    /// `exclusive-pages`: a page an allocation, in exponentially spaced sizes.
    ExclusivePages,
    /// `direct`: every allocation is its own, reused by exact size.
    Direct,
}

/// What comes of a training that runs out of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnOom {
    /// `stop`: it ends, with a report of what would fit.
    Stop,
    /// `adapt`: it goes on from its last state with a smaller micro-batch, in a fresh process. The batch stays.
    Adapt,
}

/// When memory that the allocator caches is given back to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cleanup {
    /// `auto`: where it pays.
    Auto,
    /// `never`: it is kept for the next step.
    Never,
    /// `each-epoch`: after every epoch.
    EachEpoch,
}

/// The size of a micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MicroBatch {
    /// So many samples, at least 1.
    Samples(usize),
    /// `auto`: the largest that fits.
    Auto,
}

const PRECISIONS: [(&str, Precision); 3] =
    [("fp32", Precision::Fp32), ("bf16", Precision::Bf16), ("fp16", Precision::Fp16)];

const CLEANUPS: [(&str, Cleanup); 3] =
    [("auto", Cleanup::Auto), ("never", Cleanup::Never), ("each-epoch", Cleanup::EachEpoch)];

const ON_OOM: [(&str, OnOom); 2] = [("stop", OnOom::Stop), ("adapt", OnOom::Adapt)];

const POOLS: [(&str, Pool); 4] = [
    ("default", Pool::Default),
    ("sub-slices", Pool::SubSlices),
    ("exclusive-pages", Pool::ExclusivePages),
    ("direct", Pool::Direct),
];

impl Memory {
    /// Reads the section; `batch` is `train.batch` with its setting in `train`.
    pub(crate) fn read(section: &Section, train: &Section, batch: usize) -> Result<Self, ConfigError> {
        let memory = Self {
            precision: section.choice("precision", "fp32", &PRECISIONS)?,
            recompute: Recompute::read(section)?,
            lean: section.boolean("lean", true)?,
            micro_batch: MicroBatch::read(section)?,
            limit: section.bytes("limit")?,
            record: section.integer("record", 100_000, 0..=10_000_000)?,
            pool: section.choice("pool", "default", &POOLS)?,
            on_oom: section.choice("on_oom", "stop", &ON_OOM)?,
            cleanup: section.choice("cleanup", "auto", &CLEANUPS)?,
            leak_check: section.boolean("leak_check", true)?,
        };
        if memory.limit == Some(Bytes::new(0)) {
            return Err(section.invalid("limit", "a size of at least one byte"));
        }
        if let Some(MicroBatch::Samples(samples)) = memory.micro_batch
            && samples > batch
            && let (Some(micro_batch), Some(batch)) = (section.given("micro_batch"), train.setting("batch"))
        {
            return Err(clash(micro_batch, batch, &WITHIN_THE_BATCH));
        }
        Ok(memory)
    }

    /// Refuses what the devices do not have.
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

const WITHIN_THE_BATCH: Rule = Rule {
    says: "a micro-batch is a part of the batch",
    fix: "lower `memory.micro_batch` or raise `train.batch`; without a micro-batch the whole batch is one",
};

impl Recompute {
    const NAMES: [(&'static str, Self); 4] =
        [("none", Self::None), ("ops", Self::Ops), ("stages", Self::Stages), ("auto", Self::Auto)];

    /// The choice of that name; `None` where it is none, as names of stages are not.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, recompute)| recompute)
    }

    /// Its name, where it is not a list of stages.
    pub fn name(&self) -> Option<&'static str> {
        Self::NAMES.into_iter().find(|(_, known)| known == self).map(|(name, _)| name)
    }

    fn read(section: &Section) -> Result<Self, ConfigError> {
        let expected = "one of `none`, `ops`, `stages` or `auto`, or a list of names of stages";
        let name_of = |value: &Value| match value {
            Value::String(name) => Ok(name.clone()),
            _ => Err(Refused::Kind),
        };
        section.or("recompute", Self::None, expected, |value| match value {
            Value::String(chosen) => Self::named(chosen).ok_or(Refused::Value),
            Value::List(names) if names.is_empty() => Err(Refused::Value),
            Value::List(names) => names.iter().map(name_of).collect::<Result<_, _>>().map(Self::Named),
            _ => Err(Refused::Kind),
        })
    }
}

impl From<Recompute> for Value {
    fn from(recompute: Recompute) -> Self {
        match (recompute.name(), recompute) {
            (_, Recompute::Named(names)) => Self::from(names),
            // Every other one has a name.
            (name, _) => Self::from(name.unwrap_or_default()),
        }
    }
}

impl MicroBatch {
    fn read(section: &Section) -> Result<Option<Self>, ConfigError> {
        section.read("micro_batch", "an integer of at least 1, or `auto`", |value| match value {
            Value::String(text) if text == "auto" => Ok(Self::Auto),
            Value::Integer(samples) => {
                let samples = usize::try_from(*samples).ok().filter(|samples| *samples >= 1);
                samples.map(Self::Samples).ok_or(Refused::Value)
            }
            _ => Err(Refused::Kind),
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
