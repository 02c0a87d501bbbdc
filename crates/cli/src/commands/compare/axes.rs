//! What can be varied. One more thing to compare is one more entry of [`AXES`], and its flag.

use oomph_config::{Config, MicroBatch, Recompute, Value as Setting};
use oomph_trainer::Registry;
use serde_json::Value;

use super::CompareArguments;
use crate::{error::CliError, numbers::grouped};

/// Something that is varied.
pub(super) struct Axis {
    /// Its flag.
    flag: &'static str,
    /// Its key in JSON.
    pub(super) key: &'static str,
    /// The head of its column, and what its values are called after.
    pub(super) heading: &'static str,
    /// Whether a value says by itself what it is, as `adam` does and `32` does not.
    speaks: bool,
    /// The values that are asked for, as they were typed.
    asked: fn(&CompareArguments) -> Vec<String>,
    /// The keys that a value stands for, with what they are set to, in a configuration that was like this before.
    settings: fn(&CompareArguments, usize, &Config) -> Vec<(String, String)>,
    /// What a configuration has.
    of: fn(&Config) -> Value,
}

pub(super) const AXES: [Axis; 6] = [
    Axis {
        flag: "--optimizers",
        key: "optimizer",
        heading: "optimizer",
        speaks: true,
        asked: |arguments| arguments.optimizers.iter().map(ToString::to_string).collect(),
        settings: |arguments, index, base| arguments.optimizers[index].settings(base),
        of: |config| config.optimizer.kind.name().into(),
    },
    Axis {
        flag: "--batches",
        key: "batch",
        heading: "batch",
        speaks: false,
        asked: |arguments| arguments.batches.iter().map(ToString::to_string).collect(),
        settings: |arguments, index, _| vec![("train.batch".into(), arguments.batches[index].to_string())],
        of: |config| config.train.batch.into(),
    },
    Axis {
        flag: "--micro-batches",
        key: "micro_batch",
        heading: "micro-batch",
        speaks: false,
        asked: |arguments| arguments.micro_batches.iter().map(ToString::to_string).collect(),
        settings: |arguments, index, _| {
            vec![("memory.micro_batch".into(), arguments.micro_batches[index].to_string())]
        },
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
        speaks: true,
        asked: |arguments| arguments.precisions.clone(),
        settings: |arguments, index, _| set("memory.precision", &arguments.precisions[index]),
        of: |config| config.memory.precision.name().into(),
    },
    Axis {
        flag: "--recompute",
        key: "recompute",
        heading: "recompute",
        speaks: false,
        asked: |arguments| arguments.recompute.clone(),
        settings: |arguments, index, _| recompute(&arguments.recompute[index]),
        of: |config| match &config.memory.recompute {
            Recompute::Named(names) => names.join("+").into(),
            named => named.name().into(),
        },
    },
    Axis {
        flag: "--lean",
        key: "lean",
        heading: "lean",
        speaks: false,
        asked: |arguments| arguments.lean.iter().map(ToString::to_string).collect(),
        settings: |arguments, index, _| vec![("memory.lean".into(), arguments.lean[index].to_string())],
        of: |config| config.memory.lean.to_string().into(),
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

/// The value of each axis: what was typed, or what the configuration has.
pub(super) type Values = [Value; AXES.len()];

impl Axis {
    /// Whether it is compared.
    pub(super) fn is_varied(&self, arguments: &CompareArguments) -> bool {
        !(self.asked)(arguments).is_empty()
    }

    /// `adam`, `batch 32`.
    pub(super) fn label(&self, value: &Value) -> String {
        if self.speaks { text(value) } else { format!("{} {}", self.heading, text(value)) }
    }
}

/// A value as people read it.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.as_u64().map_or_else(|| value.to_string(), |number| grouped(number as usize)),
    }
}

/// One of the trainings that are compared.
pub(super) struct Combination {
    pub(super) values: Values,
    /// Its configuration; or why there cannot be such a training.
    pub(super) config: Result<Config, CliError>,
}

/// Every value of every axis with every value of the others, the last axis the fastest.
pub(super) fn combinations(
    arguments: &CompareArguments,
    base: &Config,
    registry: &Registry,
) -> Vec<Combination> {
    let mut all: Vec<[Option<usize>; AXES.len()]> = vec![[None; AXES.len()]];
    for (axis, number) in AXES.iter().zip(0..) {
        let count = (axis.asked)(arguments).len();
        if count > 0 {
            let with = |chosen: [Option<usize>; AXES.len()], index| {
                let mut chosen = chosen;
                chosen[number] = Some(index);
                chosen
            };
            all =
                all.into_iter().flat_map(|chosen| (0..count).map(move |index| with(chosen, index))).collect();
        }
    }
    all.into_iter().map(|chosen| combination(arguments, base, registry, chosen)).collect()
}

fn combination(
    arguments: &CompareArguments,
    base: &Config,
    registry: &Registry,
    chosen: [Option<usize>; AXES.len()],
) -> Combination {
    let mut flags = Vec::new();
    for (axis, index) in AXES.iter().zip(chosen) {
        let settings = index.map(|index| (axis.settings)(arguments, index, base)).unwrap_or_default();
        flags.extend(settings.into_iter().map(|(key, value)| (axis.flag, key, value)));
    }
    let read = |config: Config| -> Result<Config, CliError> {
        registry.read(&config)?;
        Ok(config)
    };
    let config = arguments.load(&flags).and_then(read);
    let values = std::array::from_fn(|number| {
        let axis = &AXES[number];
        match chosen[number].and_then(|index| (axis.asked)(arguments).into_iter().nth(index)) {
            Some(typed) => typed.parse::<u64>().map_or_else(|_| Value::from(typed), Value::from),
            None => (axis.of)(config.as_ref().unwrap_or(base)),
        }
    });
    Combination { values, config }
}
