//! The strategies of `[device]` with their settings.

use oomph_core::Bytes;

use crate::{
    error::ConfigError,
    interval::{Interval, IntervalUnits},
    precedence::{Owners, Rule, clash},
    range::INSIDE_UNIT,
    section::{Refused, Section, as_items, name_of},
    sections::{
        optimizer::{Optimizer, OptimizerKind},
        run::Run,
    },
};

/// How several devices share the work, as `device.strategy` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// `auto`: none for one device, `ddp` for several.
    Auto,
    /// `dp`: replicas under one coordinator.
    Dp,
    /// `ddp`: equal replicas that all-reduce their gradients.
    Ddp,
    /// `model`: consecutive stages on consecutive devices.
    Model,
    /// `pipeline`: as `model`, with several micro-batches in flight.
    Pipeline,
}

const STRATEGIES: [(&str, Strategy); 5] = [
    ("auto", Strategy::Auto),
    ("dp", Strategy::Dp),
    ("ddp", Strategy::Ddp),
    ("model", Strategy::Model),
    ("pipeline", Strategy::Pipeline),
];

impl Strategy {
    /// The name, as `device.strategy` has it.
    pub fn name(self) -> &'static str {
        name_of(&STRATEGIES, &self)
    }

    fn read(section: &Section) -> Result<Self, ConfigError> {
        section.choice("strategy", "auto", &STRATEGIES)
    }
}

/// How the devices share the work: the strategy in force with its own settings.
#[derive(Clone, Debug, PartialEq)]
pub enum Sharing {
    /// One device, no sharing.
    Alone,
    /// `dp`: replicas under one coordinator, the first device.
    Dp {
        /// `coordinator_share`: the coordinator's share of the batch, since it needs more memory than the others; greater
        /// than 0 and less than 1, by default an equal share.
        coordinator_share: Option<f64>,
    },
    /// `ddp`: equal replicas that all-reduce their gradients. One device is one replica.
    Ddp(Ddp),
    /// `model`: consecutive stages on consecutive devices, one micro-batch after the other.
    Model {
        /// `split_points` or `balance`: the stages of each device.
        cut: Cut,
    },
    /// `pipeline`: as `model`, with several micro-batches in flight.
    Pipeline {
        /// `split_points` or `balance`: the stages of each device.
        cut: Cut,
        /// `schedule`: `1f1b` or `gpipe`; default `1f1b`.
        schedule: PipelineSchedule,
    },
}

/// The settings of `ddp`.
#[derive(Clone, Debug, PartialEq)]
pub struct Ddp {
    /// `sync_batch_norm`: whether batch normalisation takes its statistics over the micro-batches of all replicas;
    /// default `false`: each replica over its own.
    pub sync_batch_norm: bool,
    /// `bucket`: bytes of gradients that are reduced together while backward still runs; at least 1, default 25 MiB as
    /// in PyTorch.
    pub bucket: Bytes,
    /// `check_every`: the interval at which the parameters of replicas are compared, in epochs or steps, or `never`;
    /// default `100 steps`. Sharded parameters are not compared: no two ranks have the same.
    pub check_every: Interval,
    /// `shard`: what is sharded over the replicas; default `none`.
    pub shard: Shard,
}

/// What is sharded over replicas: each rank holds a part of it (ZeRO, Rajbhandari et al. 2020,
/// <https://arxiv.org/abs/1910.02054>). Each value has all that the ones before it have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shard {
    /// `none`: every rank holds all.
    None,
    /// `optimizer`: the optimizer's state. Each rank steps its part of every parameter, and the ranks all-gather the parameters
    /// (ZeRO-1).
    Optimizer,
    /// `gradients`: the gradients too. A reduce-scatter leaves each rank the sums of its part (ZeRO-2).
    Gradients,
    /// `parameters`: the parameters too. Stages are gathered for their forward and backward (ZeRO-3, FSDP).
    Parameters,
}

const SHARDS: [(&str, Shard); 4] = [
    ("none", Shard::None),
    ("optimizer", Shard::Optimizer),
    ("gradients", Shard::Gradients),
    ("parameters", Shard::Parameters),
];

impl Shard {
    /// All values, from the least to the most.
    pub const ALL: [Self; 4] = [Self::None, Self::Optimizer, Self::Gradients, Self::Parameters];

    /// The name, as `device.shard` has it.
    pub fn name(self) -> &'static str {
        name_of(&SHARDS, &self)
    }
}

/// The stages of each device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// `split_points`: each device after the first begins with the stage, or the group of stages, of this name.
    At(Vec<String>),
    /// `balance`: the planner chooses the split points.
    Balanced(Balance),
}

/// The quantity that the planner balances between devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Balance {
    /// `memory`: minimise the largest planned peak.
    Memory,
    /// `time`: minimise the longest time.
    Time,
}

/// The order in which the devices of a pipeline run forwards and backwards.
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

/// The strategies that each key applies to; keys that are absent here apply to all.
const OWNERS: &Owners = &[
    ("split_points", &["model", "pipeline"]),
    ("balance", &["model", "pipeline"]),
    ("schedule", &["pipeline"]),
    ("coordinator_share", &["dp"]),
    ("sync_batch_norm", &["ddp"]),
    ("bucket", &["ddp"]),
    ("check_every", &["ddp"]),
    ("shard", &["ddp"]),
];

/// PyTorch's default.
const BUCKET: Bytes = Bytes::mib(25);

const CHECK_EVERY: Interval = Interval::Steps(100);

impl Default for Ddp {
    fn default() -> Self {
        Self { sync_batch_norm: false, bucket: BUCKET, check_every: CHECK_EVERY, shard: Shard::None }
    }
}

impl Sharing {
    /// The settings of `ddp`, if that is the strategy.
    pub fn ddp(&self) -> Option<&Ddp> {
        match self {
            Self::Ddp(ddp) => Some(ddp),
            _ => None,
        }
    }

    /// The name of the strategy, as `device.strategy` has it; `None` for one device without a strategy.
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

    /// The split of the model; `None` for strategies that do not split it.
    pub fn cut(&self) -> Option<&Cut> {
        match self {
            Self::Model { cut } | Self::Pipeline { cut, .. } => Some(cut),
            _ => None,
        }
    }

    /// Refuses to shard what is needed whole.
    pub(crate) fn check_shard(
        &self,
        section: &Section,
        settings: &Section,
        optimizer: &Optimizer,
        run_section: &Section,
        run: &Run,
    ) -> Result<(), ConfigError> {
        let Self::Ddp(Ddp { shard, .. }) = self else { return Ok(()) };
        let Some(sharded) = section.ledger.setting("shard").filter(|_| *shard > Shard::None) else {
            return Ok(());
        };
        if let (OptimizerKind::Adafactor { .. }, Some(name)) =
            (&optimizer.kind, settings.ledger.setting("name"))
        {
            return Err(clash(sharded, name, &WHOLE_MATRICES));
        }
        if let (true, true, Some(histograms)) = (
            *shard >= Shard::Gradients,
            run.histograms != Interval::Never,
            run_section.ledger.setting("histograms"),
        ) {
            return Err(clash(sharded, histograms, &WHOLE_GRADIENTS));
        }
        Ok(())
    }

    /// Reads `strategy` and its settings for this number of devices. Returns the strategy as set and the one in force.
    pub(super) fn read(section: &Section, devices: usize) -> Result<(Strategy, Self), ConfigError> {
        let given = Strategy::read(section)?;
        if devices < 2 && matches!(given, Strategy::Dp | Strategy::Model | Strategy::Pipeline) {
            section.ledger.yield_to("strategy", "devices", &SEVERAL_DEVICES)?;
        }
        // A strategy that was set aside reads as `auto`.
        let strategy = Strategy::read(section)?;
        let in_force = match strategy {
            Strategy::Auto if devices > 1 => Strategy::Ddp,
            other => other,
        };
        refuse_others(section, in_force, strategy != given)?;
        let sharing = match in_force {
            Strategy::Auto => Self::Alone,
            Strategy::Dp => {
                Self::Dp { coordinator_share: section.optional_number("coordinator_share", INSIDE_UNIT)? }
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

const WHOLE_MATRICES: Rule = Rule {
    says: "adafactor keeps sums of the rows and columns of whole matrices",
    fix: "choose another optimizer, such as `adamw`, or set `device.shard` to `none`",
};

const WHOLE_GRADIENTS: Rule = Rule {
    says: "histograms need whole gradients, and each rank has a part of them",
    fix: "set `run.histograms` to `never`, or `device.shard` to `optimizer`",
};

const SEVERAL_DEVICES: Rule = Rule {
    says: "the strategy needs several devices",
    fix: "name several, as in `--devices cpu,cpu`, or remove `device.strategy`",
};

/// Refuses, or sets aside, the keys of other strategies than the one in force.
fn refuse_others(section: &Section, in_force: Strategy, is_set_aside: bool) -> Result<(), ConfigError> {
    let (Some(strategy), Some(devices)) =
        (section.ledger.setting("strategy"), section.ledger.setting("devices"))
    else {
        return Ok(());
    };
    for (key, owners) in OWNERS.iter().filter(|(_, owners)| !owners.contains(&in_force.name())) {
        // Under `auto` the devices chose the strategy, and with more of them it would own the key.
        let is_by_devices = is_set_aside
            || strategy.value.shown() == "auto"
                && owners.contains(&"ddp")
                && devices.origin.layer() > strategy.origin.layer();
        section.ledger.refuse_for(key, owners, if is_by_devices { &devices } else { &strategy })?;
    }
    Ok(())
}

impl Ddp {
    fn read(section: &Section) -> Result<Self, ConfigError> {
        let ddp = Self {
            sync_batch_norm: section.boolean("sync_batch_norm", false)?,
            bucket: section.bytes_or("bucket", BUCKET)?,
            check_every: CHECK_EVERY.read(section, "check_every", IntervalUnits::Progress)?,
            shard: section.choice("shard", "none", &SHARDS)?,
        };
        if ddp.bucket == Bytes::new(0) {
            return Err(section.invalid("bucket", "a size of at least one byte"));
        }
        Ok(ddp)
    }
}

impl Cut {
    fn read(section: &Section, devices: usize) -> Result<Self, ConfigError> {
        section.ledger.keep_one(&["split_points", "balance"], &NAMED_OR_BALANCED)?;
        if Self::read_names(section)?.is_some_and(|names| names.len() + 1 != devices) {
            section.ledger.yield_to("split_points", "devices", &A_POINT_PER_DEVICE)?;
        }
        // Split points that were set aside read as absent.
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
        let expected = "names of stages such as `layer3`, at least one";
        section.read("split_points", expected, |value| as_items(value, name))
    }
}

const NAMED_OR_BALANCED: Rule =
    Rule { says: "the planner balances a model only without split points", fix: "keep one of the two" };

const A_POINT_PER_DEVICE: Rule = Rule {
    says: "each device after the first begins with one of these stages",
    fix: "name one stage fewer than devices, or remove `device.split_points` to let the planner choose",
};
