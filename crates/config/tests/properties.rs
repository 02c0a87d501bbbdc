//! Properties of all configurations.

use oomph_config::{
    Change, Config, ConfigError, ConfigFile, MicroBatch, OptimizerName, Precision, Recompute, Sources, Value,
};
use oomph_core::Bytes;
use proptest::prelude::*;

/// Assignments that are valid alone. Some of them conflict.
const ASSIGNMENTS: [&str; 76] = [
    "train.epochs=3",
    "train.steps=50",
    "train.batch=64",
    "train.eval_batch=7",
    "train.seed=18446744073709551615",
    "train.eval_every=200 steps",
    "train.eval_every=never",
    "train.task=mine",
    "train.label_smoothing=0.1",
    "train.class_weights=balanced",
    "train.class_weights=[1, 2.5]",
    "train.best=macro f1",
    "train.ema=0.99",
    "train.ema_warmup=false",
    "train.swa=0.5",
    "train.swa_every=20 steps",
    "train.swa_lr=0.1",
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
    "device.split_points=layer3",
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
    "tune.sampler=random",
    "tune.min_steps=7",
    "tune.parallel=auto",
    "tune.lease=0.5",
    "tune.space.optimizer.lr={ low = 1e-4, high = 1, log = true }",
    "tune.space.\"model.block.low\"=[1, true, 'x']",
    "tune.space.train.batch={ low = 8, high = 64, step = 8, when = \"optimizer.name in [sgd, adam]\" }",
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
        // The crate itself writes the file, so the file is valid if the assignments are.
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

/// A changed key with any value, allowed or not.
fn any_change() -> impl Strategy<Value = Change> {
    let recompute = [
        Recompute::None,
        Recompute::Ops,
        Recompute::Stages,
        Recompute::Auto,
        Recompute::Named(vec!["layer1".to_owned(), "layer 2".to_owned()]),
    ];
    let precision = [Precision::Fp32, Precision::Bf16, Precision::Fp16];
    let directory = ["runs/a b", "true", "'quoted", "7"];
    prop_oneof![
        (0usize..100).prop_map(Change::Batch),
        (0usize..100).prop_map(Change::EvalBatch),
        (0usize..100).prop_map(|samples| Change::MicroBatch(MicroBatch::Samples(samples))),
        Just(Change::MicroBatch(MicroBatch::Auto)),
        any::<bool>().prop_map(Change::Lean),
        prop::sample::select(recompute.to_vec()).prop_map(Change::Recompute),
        prop::sample::select(precision.to_vec()).prop_map(Change::Precision),
        (0u64..3).prop_map(|mib| Change::Limit(Bytes::mib(mib))),
        prop::sample::select(OptimizerName::ALL.map(|(_, name)| name).to_vec()).prop_map(Change::Optimizer),
        prop::sample::select(vec![0.0, 0.5, 0.9, 1.0]).prop_map(Change::Momentum),
        any::<bool>().prop_map(Change::Nesterov),
        prop::sample::select(directory.to_vec()).prop_map(|path| Change::RunDirectory(path.into())),
    ]
}

/// Assignments that both changes and files can express.
fn optimizer_assignments() -> Vec<&'static str> {
    ASSIGNMENTS.into_iter().filter(|assignment| assignment.starts_with("optimizer.")).collect()
}

fn values(config: &Config) -> Vec<(String, Option<Value>)> {
    config.resolved().into_iter().map(|entry| (entry.key, entry.value)).collect()
}

/// Reads every part of an error, which must not panic.
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
            ("(\\[[a-z.]{0,6}\\]|\\[train\\]|\\[tune.space\\]|\\[tune.space.train\\]|batch|lr|name|model\\.x|\"[^\"]*\")", "( ?= ?)?", "[\\[\\]{}'\"0-9a-z.,=_ -]{0,12}"),
            0..8,
        ),
    ) {
        let text: String = lines.into_iter().map(|(key, equals, value)| format!("{key}{equals}{value}\n")).collect();
        if let Err(error) = Config::from_toml("x.toml", &text) {
            prop_assert!(one_line(&error), "{error}");
        }
    }

    #[test]
    fn anything_after_set_is_loaded_or_refused(key in "[a-z_.]{0,12}|train\\.batch|model\\.x|tune\\.space(\\.train\\.batch)?|.*", value in any::<String>()) {
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

    #[test]
    fn a_change_is_the_set_that_a_user_types_for_it(
        file in prop::sample::subsequence(ASSIGNMENTS.as_slice(), 0..8),
        optimizer in prop::sample::subsequence(optimizer_assignments(), 0..4),
        changes in prop::collection::vec(any_change(), 0..5),
    ) {
        // Dotted keys, each once: the last assignment counts.
        let lines: std::collections::BTreeMap<_, _> =
            file.iter().chain(&optimizer).filter_map(|assignment| assignment.split_once('=')).collect();
        let line = |(key, value): (&&str, &&str)| match value.parse::<toml::Value>() {
            Ok(value) => format!("{key} = {value}\n"),
            Err(_) => format!("{key} = {value:?}\n"),
        };
        let sources = Sources::new(ConfigFile::from_text("x.toml", lines.iter().map(line).collect::<String>()));
        let Ok(config) = Config::load(&sources) else { return Ok(()) };
        let changed = config.changed(&changes);
        let set = changes.iter().map(Change::setting).try_fold(sources, |sources, (key, value)| {
            sources.set(&format!("{key}={value}"))
        });
        match (changed, Config::load(&set.unwrap())) {
            (Ok(changed), Ok(set)) => {
                prop_assert_eq!(values(&changed), values(&set));
                prop_assert_eq!(&changed.train, &set.train);
                prop_assert_eq!(&changed.optimizer, &set.optimizer);
                prop_assert_eq!(&changed.memory, &set.memory);
                prop_assert_eq!(&changed.run, &set.run);
                prop_assert_eq!(changed.to_toml(), set.to_toml());
                prop_assert_eq!(changed.to_annotated_toml(), set.to_annotated_toml());
            }
            (Err(changed), Err(set)) => prop_assert_eq!(changed.to_string(), set.to_string()),
            (changed, set) => prop_assert!(false, "{changed:?} and {set:?}"),
        }
    }
}
