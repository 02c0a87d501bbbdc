//! The settings that `compare` can vary. A new one is an entry of [`AXES`] and a flag.

use oomph_arguments::Flag;
use oomph_config::{Config, MicroBatch, Recompute, Value as Setting, sections::sharing::Shard};
use oomph_trainer::Registry;
use serde_json::Value;

use super::{arguments::CompareArguments, optimizer::Chosen};
use crate::{error::CliError, numbers::grouped};

/// A setting that varies over the rows.
pub(super) struct Axis {
    /// The flag with its values.
    flag: &'static str,
    /// Its key in JSON.
    pub(super) key: &'static str,
    /// The heading of its column, and the noun of its values.
    pub(super) heading: &'static str,
    /// Whether a value needs no noun: `adam` needs none, `32` does.
    is_self_explanatory: bool,
    /// The values of the flag, as typed.
    typed: fn(&CompareArguments) -> Vec<String>,
    /// The keys and values that a typed value sets in a configuration, from the configuration without it.
    settings: fn(&str, &Config) -> Vec<(String, String)>,
    /// The value in a configuration.
    of: fn(&Config) -> Value,
}

pub(super) const AXES: [Axis; 12] = [
    Axis {
        flag: "--optimizers",
        key: "optimizer",
        heading: "optimizer",
        is_self_explanatory: true,
        typed: |arguments| arguments.optimizers.iter().map(ToString::to_string).collect(),
        // The text is that of a parsed optimizer.
        settings: |typed, base| typed.parse().map(|chosen: Chosen| chosen.settings(base)).unwrap_or_default(),
        of: |config| config.optimizer.kind.name().into(),
    },
    Axis {
        flag: "--batches",
        key: "batch",
        heading: "batch",
        is_self_explanatory: false,
        typed: |arguments| arguments.batches.iter().map(ToString::to_string).collect(),
        settings: |typed, _| vec![("train.batch".into(), typed.into())],
        of: |config| config.train.batch.into(),
    },
    Axis {
        flag: "--micro-batches",
        key: "micro_batch",
        heading: "micro-batch",
        is_self_explanatory: false,
        typed: |arguments| arguments.micro_batches.iter().map(ToString::to_string).collect(),
        settings: |typed, _| vec![("memory.micro_batch".into(), typed.into())],
        of: |config| match config.memory.micro_batch {
            Some(MicroBatch::Samples(samples)) => samples.into(),
            Some(MicroBatch::Auto) => "auto".into(),
            None => config.train.batch.into(),
        },
    },
    Axis {
        flag: "--precisions",
        key: "precision",
        heading: "precision",
        is_self_explanatory: true,
        typed: |arguments| arguments.levers.precisions.clone(),
        settings: |typed, _| set("memory.precision", typed),
        of: |config| config.memory.precision.name().into(),
    },
    Axis {
        flag: "--recompute",
        key: "recompute",
        heading: "recompute",
        is_self_explanatory: false,
        typed: |arguments| arguments.levers.recompute.clone(),
        settings: |typed, _| recompute(typed),
        of: |config| match &config.memory.recompute {
            Recompute::Named(names) => names.join("+").into(),
            named => named.name().into(),
        },
    },
    Axis {
        flag: "--lean",
        key: "lean",
        heading: "lean",
        is_self_explanatory: false,
        typed: |arguments| arguments.levers.lean.iter().map(ToString::to_string).collect(),
        settings: |typed, _| vec![("memory.lean".into(), typed.into())],
        of: |config| config.memory.lean.to_string().into(),
    },
    Axis {
        flag: "--gradients",
        key: "gradients",
        heading: "gradients",
        is_self_explanatory: false,
        typed: |arguments| arguments.levers.gradients.clone(),
        settings: |typed, _| set("memory.gradients", typed),
        of: |config| config.memory.gradients.name().into(),
    },
    Axis {
        flag: "--loss-chunks",
        key: "loss_chunk",
        heading: "loss chunk",
        is_self_explanatory: false,
        typed: |arguments| arguments.levers.loss_chunks.clone(),
        settings: |typed, _| vec![("memory.loss_chunk".into(), typed.into())],
        of: |config| config.memory.loss_chunk.map_or("none".into(), Value::from),
    },
    Axis {
        flag: "--states",
        key: "state",
        heading: "state",
        is_self_explanatory: false,
        typed: |arguments| arguments.levers.states.clone(),
        settings: |typed, _| set("optimizer.state", typed),
        of: |config| config.optimizer.state.name().into(),
    },
    Axis {
        flag: "--offload",
        key: "offload",
        heading: "offload",
        is_self_explanatory: false,
        typed: |arguments| arguments.levers.offload.clone(),
        settings: |typed, _| set("memory.offload", &typed.replace('+', ",")),
        of: |config| config.memory.offload.name().replace(',', "+").into(),
    },
    Axis {
        flag: "--strategies",
        key: "strategy",
        heading: "strategy",
        is_self_explanatory: true,
        typed: |arguments| arguments.levers.strategies.clone(),
        settings: |typed, _| set("device.strategy", typed),
        of: |config| config.device.sharing.name().into(),
    },
    Axis {
        flag: "--shard",
        key: "shard",
        heading: "shard",
        is_self_explanatory: false,
        typed: |arguments| arguments.levers.shard.clone(),
        settings: |typed, _| set("device.shard", typed),
        of: |config| config.device.sharing.ddp().map_or(Shard::None, |ddp| ddp.shard).name().into(),
    },
];

fn set(key: &str, value: &str) -> Vec<(String, String)> {
    vec![(key.to_owned(), Setting::from(value).to_string())]
}

/// `stages`, or stages by name: `layer1+layer2`.
fn recompute(typed: &str) -> Vec<(String, String)> {
    if Recompute::named(typed).is_some() {
        return set("memory.recompute", typed);
    }
    let names: Vec<String> = typed.split('+').map(str::to_owned).collect();
    vec![("memory.recompute".into(), Setting::from(names).to_string())]
}

/// The value of each axis: as typed, else as configured.
pub(super) type Values = [Value; AXES.len()];

impl Axis {
    /// Whether its flag was given.
    pub(super) fn is_varied(&self, arguments: &CompareArguments) -> bool {
        !(self.typed)(arguments).is_empty()
    }

    /// `adam`, `batch 32`.
    pub(super) fn label(&self, value: &Value) -> String {
        if self.is_self_explanatory { text(value) } else { format!("{} {}", self.heading, text(value)) }
    }
}

/// The name of a row: the values of the varied axes.
pub(super) fn label(arguments: &CompareArguments, values: &Values) -> String {
    let varied = AXES.iter().zip(values).filter(|(axis, _)| axis.is_varied(arguments));
    varied.map(|(axis, value)| axis.label(value)).collect::<Vec<_>>().join(" · ")
}

/// A value for people.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.as_u64().map_or_else(|| value.to_string(), |number| grouped(number as usize)),
    }
}

/// One of the compared trainings.
pub(super) struct Combination {
    pub(super) values: Values,
    /// Its configuration, or why the training is impossible.
    pub(super) config: Result<Config, CliError>,
}

/// All combinations of the values of all axes; the last axis varies fastest.
pub(super) fn combinations(
    arguments: &CompareArguments,
    base: &Config,
    registry: &Registry,
) -> Vec<Combination> {
    let mut all: Vec<[Option<String>; AXES.len()]> = vec![[const { None }; AXES.len()]];
    for (number, axis) in AXES.iter().enumerate().filter(|(_, axis)| axis.is_varied(arguments)) {
        let typed = (axis.typed)(arguments);
        let with = |chosen: &[Option<String>; AXES.len()]| {
            let mut all = vec![chosen.clone(); typed.len()];
            all.iter_mut().zip(&typed).for_each(|(chosen, typed)| chosen[number] = Some(typed.clone()));
            all
        };
        all = all.iter().flat_map(with).collect();
    }
    all.iter().map(|chosen| combination(arguments, base, registry, chosen)).collect()
}

fn combination(
    arguments: &CompareArguments,
    base: &Config,
    registry: &Registry,
    chosen: &[Option<String>; AXES.len()],
) -> Combination {
    let settings: Vec<_> = AXES
        .iter()
        .zip(chosen)
        .flat_map(|(axis, typed)| Some((axis.flag, (axis.settings)(typed.as_ref()?, base))))
        .collect();
    let flags = settings.iter().flat_map(|(name, settings)| {
        settings.iter().map(|(key, value)| Flag { name, key, value: Some(value) })
    });
    let read = |config: Config| -> Result<Config, CliError> {
        registry.read(&config)?;
        Ok(config)
    };
    let config = arguments.load(&flags.collect::<Vec<_>>()).and_then(read);
    let values = std::array::from_fn(|number| match &chosen[number] {
        Some(typed) => typed.parse::<u64>().map_or_else(|_| typed.as_str().into(), Value::from),
        None => (AXES[number].of)(config.as_ref().unwrap_or(base)),
    });
    Combination { values, config }
}
