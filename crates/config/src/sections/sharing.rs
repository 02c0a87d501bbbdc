use std::ops::Bound;

use oomph_core::Bytes;

use super::device::Strategy;
use crate::{
    error::ConfigError,
    interval::{Interval, Units},
    precedence::{Owners, Rule},
    section::{Refused, Section},
    value::Value,
};

/// How the devices share the work: the strategy in force with the settings of its own.
#[derive(Clone, Debug, PartialEq)]
pub enum Sharing {
    /// One device does everything.
    Alone,
    /// `dp`: replicas under one coordinator, the first device.
    Dp {
        /// `coordinator_share`: the share of the batch that the coordinator has, which holds more than the others;
        /// greater than 0 and less than 1, by default the same as they have.
        coordinator_share: Option<f64>,
    },
    /// `ddp`: equal replicas that all-reduce their gradients. One device is one replica.
    Ddp(Ddp),
    /// `model`: consecutive stages on consecutive devices, one micro-batch after the other.
    Model {
        /// `cut` or `balance`: which stages.
        cut: Cut,
    },
    /// `pipeline`: the same with several micro-batches in flight.
    Pipeline {
        /// `cut` or `balance`: which stages.
        cut: Cut,
        /// `schedule`: `1f1b` or `gpipe`; default `1f1b`.
        schedule: PipelineSchedule,
    },
}

/// The settings of `ddp`.
#[derive(Clone, Debug, PartialEq)]
pub struct Ddp {
    /// `sync_batch_norm`: whether batch normalisation takes its statistics over all replicas' micro-batches
    /// instead of each over its own; default `false`.
    pub sync_batch_norm: bool,
    /// `bucket`: bytes of gradients that are reduced together while backward still runs; at least 1, default 25 MiB, as
    /// PyTorch's.
    pub bucket: Bytes,
    /// `check_every`: how often replicas are held against each other, in epochs or steps, or `never`; default
    /// `100 steps`.
    pub check_every: Interval,
}

/// Which stages each device has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// `cut`: each device after the first begins with the stage, or the group of stages, of this name.
    At(Vec<String>),
    /// `balance`: the planner cuts.
    Balanced(Balance),
}

/// What the planner balances between devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// `memory`: the largest planned peak is as small as can be.
    Memory,
    /// `time`: the longest time is as short as can be.
    Time,
}

/// In which order the devices of a pipeline do forwards and backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PipelineSchedule {
    /// `1f1b`: one forward and one backward in turn (Narayanan et al. 2021, <https://arxiv.org/abs/2104.04473>).
    OneForwardOneBackward,
    /// `gpipe`: all forwards, then all backwards (Huang et al. 2019, <https://arxiv.org/abs/1811.06965>).
    GPipe,
}

const BALANCES: [(&str, Balance); 2] = [("memory", Balance::Memory), ("time", Balance::Time)];

const SCHEDULES: [(&str, PipelineSchedule); 2] =
    [("1f1b", PipelineSchedule::OneForwardOneBackward), ("gpipe", PipelineSchedule::GPipe)];

/// The strategies each key applies to; those that are not here apply to all.
const OWNERS: &Owners = &[
    ("cut", &["model", "pipeline"]),
    ("balance", &["model", "pipeline"]),
    ("schedule", &["pipeline"]),
    ("coordinator_share", &["dp"]),
    ("sync_batch_norm", &["ddp"]),
    ("bucket", &["ddp"]),
    ("check_every", &["ddp"]),
];

/// PyTorch's default.
const BUCKET: Bytes = Bytes::mib(25);

const CHECK_EVERY: Interval = Interval::Steps(100);

impl Default for Ddp {
    fn default() -> Self {
        Self { sync_batch_norm: false, bucket: BUCKET, check_every: CHECK_EVERY }
    }
}

impl Sharing {
    /// The name of the strategy, as `device.strategy` has it; nothing for one device without any.
    pub fn name(&self) -> Option<&'static str> {
        match self {
            Self::Alone => None,
            Self::Dp { .. } => Some("dp"),
            Self::Ddp(_) => Some("ddp"),
            Self::Model { .. } => Some("model"),
            Self::Pipeline { .. } => Some("pipeline"),
        }
    }

    /// Whether each device has a replica of the model and a share of the batch.
    pub fn is_of_replicas(&self) -> bool {
        matches!(self, Self::Dp { .. } | Self::Ddp(_))
    }

    /// Where the model is cut, if it is.
    pub fn cut(&self) -> Option<&Cut> {
        match self {
            Self::Model { cut } | Self::Pipeline { cut, .. } => Some(cut),
            _ => None,
        }
    }

    /// Reads `strategy` and what belongs to it for so many devices; the first of the two is as it is set.
    pub(super) fn read(section: &Section, devices: usize) -> Result<(Strategy, Self), ConfigError> {
        let given = Strategy::read(section)?;
        if devices < 2 && matches!(given, Strategy::Dp | Strategy::Model | Strategy::Pipeline) {
            section.yield_to("strategy", "devices", &SEVERAL_DEVICES)?;
        }
        // What a higher layer's one device set aside is `auto` from here on.
        let strategy = Strategy::read(section)?;
        let in_force = match strategy {
            Strategy::Auto if devices > 1 => Strategy::Ddp,
            other => other,
        };
        refuse_others(section, in_force, strategy != given)?;
        let sharing = match in_force {
            Strategy::Auto => Self::Alone,
            Strategy::Dp => {
                Self::Dp { coordinator_share: section.optional_number("coordinator_share", INSIDE)? }
            }
            Strategy::Ddp => Self::Ddp(Ddp::read(section)?),
            Strategy::Model => Self::Model { cut: Cut::read(section, devices)? },
            Strategy::Pipeline => Self::Pipeline {
                cut: Cut::read(section, devices)?,
                schedule: section.choice("schedule", "1f1b", &SCHEDULES)?,
            },
        };
        Ok((strategy, sharing))
    }
}

const SEVERAL_DEVICES: Rule = Rule {
    says: "it shares the work of several devices",
    fix: "name several, as in `--devices cpu,cpu`, or remove `device.strategy`",
};

/// Every number between 0 and 1.
const INSIDE: (Bound<f64>, Bound<f64>) = (Bound::Excluded(0.0), Bound::Excluded(1.0));

/// Refuses, or sets aside, the keys of other strategies than the one in force.
fn refuse_others(section: &Section, in_force: Strategy, is_set_aside: bool) -> Result<(), ConfigError> {
    let (Some(strategy), Some(devices)) = (section.setting("strategy"), section.setting("devices")) else {
        return Ok(());
    };
    for (key, owners) in OWNERS.iter().filter(|(_, owners)| !owners.contains(&in_force.name())) {
        // Under `auto` the number of devices decides, where that would have chosen an owner of the key.
        let is_by_devices = is_set_aside
            || strategy.value.shown() == "auto"
                && owners.contains(&"ddp")
                && devices.origin.layer() > strategy.origin.layer();
        section.refuse_for(key, owners, if is_by_devices { &devices } else { &strategy })?;
    }
    Ok(())
}

impl Ddp {
    fn read(section: &Section) -> Result<Self, ConfigError> {
        let ddp = Self {
            sync_batch_norm: section.boolean("sync_batch_norm", false)?,
            bucket: section.bytes_or("bucket", BUCKET)?,
            check_every: section.interval("check_every", CHECK_EVERY, Units::Progress)?,
        };
        if ddp.bucket == Bytes::new(0) {
            return Err(section.invalid("bucket", "a size of at least one byte"));
        }
        Ok(ddp)
    }
}

impl Cut {
    fn read(section: &Section, devices: usize) -> Result<Self, ConfigError> {
        section.keep_one(&["cut", "balance"], &ONE_CUT)?;
        if Self::read_names(section)?.is_some_and(|names| names.len() + 1 != devices) {
            section.yield_to("cut", "devices", &A_CUT_A_DEVICE)?;
        }
        // What a higher layer's devices set aside is read as absent.
        match Self::read_names(section)? {
            Some(names) => Ok(Self::At(names)),
            None => Ok(Self::Balanced(section.choice("balance", "memory", &BALANCES)?)),
        }
    }

    fn read_names(section: &Section) -> Result<Option<Vec<String>>, ConfigError> {
        let name = |text: &str| match text.trim() {
            "" => Err(Refused::Value),
            name => Ok(name.to_owned()),
        };
        section.read("cut", "names of stages such as `layer3`, at least one", |value| match value {
            Value::String(text) => text.split(',').map(name).collect(),
            Value::List(names) if names.is_empty() => Err(Refused::Value),
            Value::List(names) => {
                let item = |value: &Value| match value {
                    Value::String(text) => name(text),
                    _ => Err(Refused::Kind),
                };
                names.iter().map(item).collect()
            }
            _ => Err(Refused::Kind),
        })
    }
}

const ONE_CUT: Rule = Rule {
    says: "the planner balances a model only where the cuts are not named",
    fix: "keep one of the two",
};

const A_CUT_A_DEVICE: Rule = Rule {
    says: "it names the stage that each device after the first begins with",
    fix: "name one stage fewer than there are devices, or remove `device.cut` to have the planner cut",
};
