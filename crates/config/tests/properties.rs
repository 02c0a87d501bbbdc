//! What holds for any configuration at all.

use oomph_config::{Config, ConfigError, ConfigFile, Sources, Value};
use proptest::prelude::*;

/// Assignments that are right by themselves; together some of them clash.
const ASSIGNMENTS: [&str; 61] = [
    "train.epochs=3",
    "train.steps=50",
    "train.batch=64",
    "train.eval_batch=7",
    "train.seed=18446744073709551615",
    "train.eval_every=200 steps",
    "train.eval_every=never",
    "train.task=mine",
    "train.label_smoothing=0.1",
    "train.patience=4",
    "train.min_delta=1e-9",
    "optimizer.name=adam",
    "optimizer.name=adamw",
    "optimizer.name=rmsprop",
    "optimizer.name=adagrad",
    "optimizer.name=adan",
    "optimizer.name=lion",
    "optimizer.name=adafactor",
    "optimizer.lr=1",
    "optimizer.momentum=0.9",
    "optimizer.dampening=0.5",
    "optimizer.nesterov=true",
    "optimizer.epsilon=1e-300",
    "optimizer.beta1=0.5",
    "optimizer.beta2_decay=-1",
    "optimizer.d=2",
    "optimizer.clip_value=1",
    "optimizer.clip_norm=2.5",
    "optimizer.clip_global_norm=3",
    "schedule.name=cosine",
    "schedule.name=step",
    "schedule.name=one-cycle",
    "schedule.final_lr=0",
    "schedule.every_steps=10",
    "schedule.every_epochs=2",
    "schedule.milestones_epochs=[1, 2]",
    "schedule.warmup_steps=100",
    "schedule.warmup_start=0.25",
    "schedule.div=10",
    "schedule.anneal=linear",
    "memory.micro_batch=20",
    "device.devices=cuda:1",
    "device.devices=cpu,cpu",
    "device.devices=cuda:0,cuda:1,cpu",
    "device.strategy=dp",
    "device.strategy=ddp",
    "device.strategy=model",
    "device.strategy=pipeline",
    "device.cut=layer3",
    "device.balance=time",
    "device.schedule=gpipe",
    "device.coordinator_share=0.25",
    "device.bucket=1MiB",
    "device.check_every=never",
    "device.timeout=30",
    "device.threads=2",
    "run.directory=runs/a b",
    "run.save_every=0.1 minutes",
    "model.name=resnet18",
    "model.layers=[1, [2.5, 'x'], true]",
    "model.block.depth=3",
];

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<String>().prop_map(Value::String),
        any::<i64>().prop_map(|integer| Value::Integer(i128::from(integer))),
        any::<u64>().prop_map(|integer| Value::Integer(i128::from(integer))),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::Number),
        any::<bool>().prop_map(Value::Boolean),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| prop::collection::vec(inner, 0..4).prop_map(Value::List))
}

/// Some assignments in the file, some after `--set`.
fn any_sources() -> impl Strategy<Value = Result<Sources, ConfigError>> {
    let some = || prop::sample::subsequence(ASSIGNMENTS.as_slice(), 0..8);
    (some(), some()).prop_map(|(file, sets)| {
        // The file is written by the crate itself, so that it is right where the assignments are.
        let text = match sets_only(&file).and_then(|sources| Config::load(&sources)) {
            Ok(config) => config.to_toml(),
            Err(_) => String::new(),
        };
        let start = Sources::new(ConfigFile::from_text("x.toml", text));
        sets.iter().try_fold(start, |sources, set| sources.set(set))
    })
}

fn sets_only(sets: &[&str]) -> Result<Sources, ConfigError> {
    sets.iter().try_fold(Sources::default(), |sources, set| sources.set(set))
}

fn values(config: &Config) -> Vec<(String, Option<Value>)> {
    config.resolved().into_iter().map(|entry| (entry.key, entry.value)).collect()
}

/// Reads every part of an error, which must not panic either.
fn one_line(error: &ConfigError) -> bool {
    let hint = error.hint().unwrap_or_default();
    !error.to_string().contains(['\n', '\r']) && !hint.contains(['\n', '\r'])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_loaded_or_refused_in_one_line(text in any::<String>()) {
        if let Err(error) = Config::from_toml("x.toml", &text) {
            prop_assert!(one_line(&error), "{error}");
        }
    }

    #[test]
    fn any_text_that_looks_like_a_config_is_loaded_or_refused(
        lines in prop::collection::vec(
            ("(\\[[a-z.]{0,6}\\]|\\[train\\]|batch|lr|name|model\\.x|\"[^\"]*\")", "( ?= ?)?", "[\\[\\]{}'\"0-9a-z.,=_ -]{0,12}"),
            0..8,
        ),
    ) {
        let text: String = lines.into_iter().map(|(key, equals, value)| format!("{key}{equals}{value}\n")).collect();
        if let Err(error) = Config::from_toml("x.toml", &text) {
            prop_assert!(one_line(&error), "{error}");
        }
    }

    #[test]
    fn anything_after_set_is_loaded_or_refused(key in "[a-z_.]{0,12}|train\\.batch|model\\.x|.*", value in any::<String>()) {
        let loaded = Sources::default().set(&format!("{key}={value}")).and_then(|sources| Config::load(&sources));
        if let Err(error) = loaded {
            prop_assert!(one_line(&error), "{error}");
        }
    }

    #[test]
    fn any_value_survives_writing_and_reading(value in any_value()) {
        let config = Config::from_toml("x.toml", &format!("[model]\nx = {value}")).unwrap();
        prop_assert_eq!(&config.resolved()[0].value, &Some(value.clone()));
        let again = Config::from_toml("x.toml", &config.to_annotated_toml()).unwrap();
        prop_assert_eq!(&again.resolved()[0].value, &Some(value));
    }

    #[test]
    fn the_written_config_loads_to_the_same_values(sources in any_sources()) {
        let Ok(config) = sources.and_then(|sources| Config::load(&sources)) else { return Ok(()) };
        for written in [config.to_toml(), config.to_annotated_toml()] {
            let again = Config::from_toml("again.toml", &written).unwrap();
            prop_assert_eq!(values(&config), values(&again));
            prop_assert_eq!(&config.train, &again.train);
            prop_assert_eq!(&config.optimizer, &again.optimizer);
            prop_assert_eq!(&config.schedule, &again.schedule);
            prop_assert_eq!(&config.memory, &again.memory);
            prop_assert_eq!(&config.device, &again.device);
            prop_assert_eq!(&config.run, &again.run);
            prop_assert_eq!(config.differences(&written).unwrap(), vec![]);
            prop_assert_eq!(again.set_aside(), vec![]);
        }
    }
}
