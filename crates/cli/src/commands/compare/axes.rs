//! The settings that `compare` can vary. A new one is an entry of [`AXES`] and a flag.

use oomph_config::{Config, MicroBatch, Recompute, Value as Setting};
use oomph_trainer::Registry;
use serde_json::Value;

use super::arguments::CompareArguments;
use crate::{configuration::Flag, error::CliError, numbers::grouped};

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
    /// The keys and values that the typed value of this index sets in a configuration.
    settings: fn(&CompareArguments, usize, &Config) -> Vec<(String, String)>,
    /// The value in a configuration.
    of: fn(&Config) -> Value,
}

pub(super) const AXES: [Axis; 6] = [
    Axis {
        flag: "--optimizers",
        key: "optimizer",
        heading: "optimizer",
        is_self_explanatory: true,
        typed: |arguments| arguments.optimizers.iter().map(ToString::to_string).collect(),
        settings: |arguments, index, base| arguments.optimizers[index].settings(base),
        of: |config| config.optimizer.kind.name().into(),
    },
    Axis {
        flag: "--batches",
        key: "batch",
        heading: "batch",
        is_self_explanatory: false,
        typed: |arguments| arguments.batches.iter().map(ToString::to_string).collect(),
        settings: |arguments, index, _| vec![("train.batch".into(), arguments.batches[index].to_string())],
        of: |config| config.train.batch.into(),
    },
    Axis {
        flag: "--micro-batches",
        key: "micro_batch",
        heading: "micro-batch",
        is_self_explanatory: false,
        typed: |arguments| arguments.micro_batches.iter().map(ToString::to_string).collect(),
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
        is_self_explanatory: true,
        typed: |arguments| arguments.precisions.clone(),
        settings: |arguments, index, _| set("memory.precision", &arguments.precisions[index]),
        of: |config| config.memory.precision.name().into(),
    },
    Axis {
        flag: "--recompute",
        key: "recompute",
        heading: "recompute",
        is_self_explanatory: false,
        typed: |arguments| arguments.recompute.clone(),
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
        is_self_explanatory: false,
        typed: |arguments| arguments.lean.iter().map(ToString::to_string).collect(),
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
    let mut all: Vec<[Option<usize>; AXES.len()]> = vec![[None; AXES.len()]];
    for (axis, number) in AXES.iter().zip(0..) {
        let count = (axis.typed)(arguments).len();
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
    let settings = AXES.each_ref().map(|axis| axis.settings);
    let settings: [Vec<(String, String)>; AXES.len()] = std::array::from_fn(|number| {
        chosen[number].map(|index| settings[number](arguments, index, base)).unwrap_or_default()
    });
    let mut flags = Vec::new();
    for (axis, settings) in AXES.iter().zip(&settings) {
        let name = axis.flag;
        flags.extend(settings.iter().map(|(key, value)| Flag { name, key, value: Some(value) }));
    }
    let read = |config: Config| -> Result<Config, CliError> {
        registry.read(&config)?;
        Ok(config)
    };
    let config = arguments.load(&flags).and_then(read);
    let values = std::array::from_fn(|number| {
        let axis = &AXES[number];
        match chosen[number].and_then(|index| (axis.typed)(arguments).into_iter().nth(index)) {
            Some(typed) => typed.parse::<u64>().map_or_else(|_| Value::from(typed), Value::from),
            None => (axis.of)(config.as_ref().unwrap_or(base)),
        }
    });
    Combination { values, config }
}
