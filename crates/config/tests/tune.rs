//! `[tune]`: what is accepted, the space, and the configurations of its points.

use oomph_config::{
    Change, Config, ConfigError, ConfigFile, MicroBatch, Origin, Sources, Value,
    sections::{
        space::{Domain, SpaceEntry, When},
        tune::{Checkpoints, Metric, MinLength, OnTooLarge, Parallel, Sampler, Scheduler},
    },
};

fn load(toml: &str, sets: &[&str]) -> Result<Config, ConfigError> {
    let start = Sources::new(ConfigFile::from_text("x.toml", toml));
    Config::load(&sets.iter().try_fold(start, |sources, set| sources.set(set))?)
}

fn space(toml: &str, sets: &[&str]) -> Vec<SpaceEntry> {
    load(toml, sets).and_then(|config| config.space()).unwrap_or_else(|error| panic!("{error}"))
}

/// Reads the open sections as the readers of a model and a source do.
fn read(config: &Config) -> Result<(), ConfigError> {
    match config.model.choice("name", "resnet18", &[("resnet18", 18), ("lstm", 0)])? {
        0 => config.model.integer("hidden", 128, 1..=65536)?,
        _ => config.model.integer("width", 64, 1..=4096)?,
    };
    config.data.string("source", "digits")?;
    config.data.integer("workers", 2, 0..=64)?;
    config.check_all_read()
}

/// The space of the issue, in quotes.
const QUOTED: &str = "[tune.space]
'optimizer.lr' = { low = 1e-4, high = 1e-1, log = true }
'optimizer.name' = ['sgd', 'adamw']
'optimizer.momentum' = { low = 0.0, high = 0.99, when = 'optimizer.name = sgd' }
'model.width' = { low = 8, high = 64, step = 8 }
";

#[test]
fn the_settings_of_a_study_have_defaults_and_are_read() {
    let tune = load(QUOTED, &["train.seed=7"]).unwrap().tune.unwrap();
    assert_eq!(
        (tune.metric, tune.sampler, tune.scheduler),
        (Metric::EvalLoss, Sampler::Tpe, Scheduler::Asha)
    );
    assert_eq!((tune.trials, tune.startup, tune.eta, tune.seed), (100, 10, 3, 7));
    assert_eq!((tune.min_length, tune.parallel), (MinLength::Epochs(1), Parallel::Auto));
    assert_eq!((tune.on_too_large, tune.checkpoints), (OnTooLarge::Adapt, Checkpoints::Promotable));
    assert_eq!((tune.deterministic, tune.lease.as_secs_f64()), (false, 120.0));
    let text = "[tune]\nmetric = 'eval accuracy'\nsampler = 'sobol'\nscheduler = 'hyperband'\ntrials = 20\nmin_steps = 50\n\
                eta = 4\nparallel = 3\non_too_large = 'avoid'\ndeterministic = true\nlease = 0.5\ncheckpoints = 'best'\n\
                seed = 18446744073709551615\nstartup = 5\n";
    let tune = load(text, &[]).unwrap().tune.unwrap();
    assert!(tune.metric.is_maximized() && tune.metric.name() == "eval accuracy");
    assert_eq!((tune.sampler, tune.scheduler), (Sampler::Sobol, Scheduler::Hyperband));
    assert_eq!((tune.trials, tune.startup, tune.eta, tune.seed), (20, 5, 4, u64::MAX));
    assert_eq!((tune.min_length, tune.parallel), (MinLength::Steps(50), Parallel::Trials(3)));
    assert_eq!((tune.on_too_large, tune.checkpoints), (OnTooLarge::Avoid, Checkpoints::Best));
    assert_eq!((tune.deterministic, tune.lease.as_secs_f64()), (true, 0.5));
}

#[test]
fn a_length_of_a_higher_layer_replaces_the_files() {
    let tune = load("[tune]\nmin_epochs = 2", &["tune.min_steps=50"]).unwrap().tune.unwrap();
    assert_eq!(tune.min_length, MinLength::Steps(50));
}

#[test]
fn the_space_is_the_same_in_quotes_and_in_tables() {
    let nested = "[tune.space]\nmodel.width = { low = 8, high = 64, step = 8 }
[tune.space.optimizer]
name = { choices = ['sgd', 'adamw'] }
momentum = { low = 0, high = 0.99, when = 'optimizer.name in [sgd]' }
[tune.space.optimizer.lr]
low = 1e-4
high = 1e-1
log = true
";
    let typed = [
        "tune.space.optimizer.lr={low=1e-4,high=1e-1,log=true}",
        "tune.space.'optimizer.name'=[\"sgd\", \"adamw\"]",
        "tune.space={optimizer={momentum={low=0.0,high=0.99,when=\"optimizer.name=sgd\"}}}",
        "tune.space={\"model.width\"={low=8,high=64,step=8}}",
    ];
    let bare = |space: Vec<SpaceEntry>| -> Vec<_> {
        space.into_iter().map(|entry| SpaceEntry { origin: Origin::Default, ..entry }).collect()
    };
    let quoted = space(QUOTED, &[]);
    assert_eq!(quoted[0].origin.to_string(), "x.toml:5");
    let keys: Vec<_> = quoted.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["model.width", "optimizer.lr", "optimizer.momentum", "optimizer.name"]);
    assert_eq!(quoted[0].domain, Domain::Integer { low: 8, high: 64, step: 8, log: false });
    assert_eq!(quoted[1].domain, Domain::Float { low: 1e-4, high: 0.1, step: None, log: true });
    assert_eq!(quoted[2].when, Some(When { key: "optimizer.name".to_owned(), choices: vec![0] }));
    assert_eq!(quoted[3].domain, Domain::Choice(vec!["sgd".into(), "adamw".into()]));
    let quoted = bare(quoted);
    assert_eq!(bare(space(nested, &[])), quoted);
    assert_eq!(bare(space("", &typed)), quoted);
}

#[test]
fn keys_of_tables_within_a_section_are_searched_too() {
    let nested = "[tune.space.model.block]\ndepth = { low = 1, high = 4 }\nkind = ['a', 'b']\n";
    let quoted =
        "[tune.space]\n'model.block.depth' = { low = 1, high = 4 }\n'model.block.kind' = ['a', 'b']\n";
    for toml in [nested, quoted] {
        let keys: Vec<_> = space(toml, &[]).into_iter().map(|entry| entry.key).collect();
        assert_eq!(keys, ["model.block.depth", "model.block.kind"], "{toml}");
    }
    let point = load(nested, &[]).unwrap().at_point(&[("model.block.depth", 2usize.into())]).unwrap();
    assert_eq!(point.model.integer("block.depth", 1, 1..).unwrap(), 2);
    // A key that is called as an end of a range is in quotes.
    assert_eq!(space("[tune.space]\n'model.block.low' = [1, 2]", &[])[0].key, "model.block.low");
}

#[test]
fn a_space_has_a_bounded_size() {
    let choices = |count: usize| (0..count).map(|choice| choice.to_string()).collect::<Vec<_>>().join(", ");
    let of = |count| load(&format!("[tune.space]\n'train.seed' = [{}]", choices(count)), &[]);
    assert!(of(1000).is_ok());
    assert!(of(1001).unwrap_err().to_string().ends_with("expected at most 1000 choices"));
    let line = |key: usize| format!("'model.k{key}' = [1]\n");
    let of = |count| load(&format!("[tune.space]\n{}", (0..count).map(line).collect::<String>()), &[]);
    assert!(of(1000).is_ok());
    assert!(of(1001).unwrap_err().to_string().ends_with("expected at most 1000 keys to search"));
}

#[test]
fn keys_without_use_are_idle() {
    let idle = |toml: &str| -> Vec<_> {
        load(toml, &[]).unwrap().idle().iter().map(|it| it.setting.key.clone()).collect()
    };
    let none = "[tune]\nscheduler = 'none'\neta = 4\nmin_epochs = 2\nsampler = 'random'\nstartup = 5";
    assert_eq!(idle(none), ["tune.eta", "tune.min_epochs", "tune.startup"]);
    assert_eq!(idle("[tune]\nscheduler = 'median'\neta = 4\nmin_steps = 2"), ["tune.eta"]);
    assert_eq!(idle("[tune]\neta = 4\nmin_steps = 2\nstartup = 5"), Vec::<String>::new());
    // The length of a training may be searched where all trials run to their end.
    let toml = "[tune]\nscheduler = 'none'\n[tune.space]\n'train.epochs' = [1, 2]";
    assert_eq!(load(toml, &[]).unwrap().check_space(read).unwrap().len(), 1);
}

#[test]
fn a_change_applies_on_top_of_a_point() {
    let config = load(QUOTED, &["memory.micro_batch=16"]).unwrap();
    let trial =
        config.at_point(&[("train.batch", 64usize.into()), ("optimizer.momentum", 0.5.into())]).unwrap();
    let changed =
        trial.changed(&[Change::MicroBatch(MicroBatch::Samples(8)), Change::Momentum(0.0)]).unwrap();
    assert_eq!((changed.train.batch, changed.memory.micro_batch), (64, Some(MicroBatch::Samples(8))));
    assert!(changed.tune.is_none());
}

#[test]
fn a_typed_parameter_replaces_the_files_as_a_whole() {
    let entries = space(QUOTED, &["tune.space.optimizer.lr=[0.1, 0.2]"]);
    assert_eq!(entries[1].domain, Domain::Choice(vec![0.1.into(), 0.2.into()]));
    assert_eq!(entries[1].origin, Origin::Set);
}

#[test]
fn choices_may_be_of_any_kind_that_a_key_takes() {
    let toml = "[schedule]\nname = 'step'\nmilestones_epochs = [1]\n[tune.space]\n'schedule.milestones_epochs' = [[3, 6], [5]]\n\
                'memory.lean' = [true, false]\n'train.batch' = [16, 32]\n'memory.recompute' = ['none', ['layer1']]";
    let config = load(toml, &[]).unwrap();
    config.check_space(read).unwrap();
    let milestones = Value::from(vec![3usize, 6]);
    let point = config.at_point(&[("schedule.milestones_epochs", milestones)]).unwrap();
    assert!(point.to_toml().contains("milestones_epochs = [3, 6]"));
}

#[test]
fn a_condition_on_a_fixed_key_is_decided() {
    let toml = "[optimizer]\nname = 'adamw'\n[tune.space]\n'optimizer.lr' = [1e-3, 1e-2]
'optimizer.momentum' = { low = 0.1, high = 0.9, when = 'optimizer.name = sgd' }
'optimizer.amsgrad' = { choices = [true, false], when = 'optimizer.name in [adam, adamw]' }
'optimizer.beta1' = { low = 0.8, high = 0.9, when = 'optimizer.amsgrad = true' }
'optimizer.nesterov' = { choices = [true], when = 'optimizer.dampening = 0' }
'optimizer.dampening' = { choices = [0.0, 0.5], when = 'optimizer.name = sgd' }
";
    let config = load(toml, &[]).unwrap();
    let keys: Vec<_> = config.check_space(read).unwrap().into_iter().map(|it| (it.key, it.when)).collect();
    let amsgrad = When { key: "optimizer.amsgrad".to_owned(), choices: vec![0] };
    assert_eq!(
        keys,
        [
            ("optimizer.amsgrad".to_owned(), None),
            ("optimizer.beta1".to_owned(), Some(amsgrad)),
            ("optimizer.lr".to_owned(), None)
        ]
    );
    let idle: Vec<_> = config.idle().iter().map(|it| format!("{}: {}", it.setting.key, it.because)).collect();
    assert_eq!(
        idle,
        [
            "tune.space.optimizer.dampening: its condition `optimizer.name = sgd` does not hold",
            "tune.space.optimizer.momentum: its condition `optimizer.name = sgd` does not hold",
            "tune.space.optimizer.nesterov: it depends on `tune.space.optimizer.dampening`, which has no effect",
        ]
    );
    // A default of a reader counts too.
    let toml = "[tune.space]\n'model.hidden' = { choices = [8, 16], when = 'model.name = lstm' }\n'train.batch' = [8]";
    let config = load(toml, &[]).unwrap();
    read(&config).unwrap();
    assert_eq!(config.space().unwrap().len(), 1);
}

#[test]
fn a_point_is_the_set_that_a_user_types_for_it() {
    let toml = format!("[optimizer]\nmomentum = 0.9\nnesterov = true\n[model]\nwidth = 16\n{QUOTED}");
    let config = load(&toml, &[]).unwrap();
    let point = [("optimizer.name", Value::from("adamw")), ("model.width", Value::from(8usize))];
    let trial = config.at_point(&point).unwrap();
    let typed = load(&toml, &["optimizer.name=adamw", "model.width=8"]).unwrap().without_tune();
    assert_eq!(trial.to_toml(), typed.to_toml());
    assert_eq!((trial.optimizer.lr, trial.set_aside().len()), (1e-3, 2));
    assert_eq!(trial.model.integer("width", 64, 1..).unwrap(), 8);
    assert!(trial.tune.is_none() && !trial.to_toml().contains("tune"));
    let aside = trial.set_aside();
    assert_eq!(aside[0].by.origin.to_string(), "x.toml:8: tune.space");
    // The base is as before.
    assert_eq!(config.model.integer("width", 64, 1..).unwrap(), 16);
    assert!(config.at_point(&[("tune.trials", 3usize.into())]).is_err());
    assert!(config.at_point(&[("lr", 3usize.into())]).is_err());
    let error = config.at_point(&[("train.batch", 0usize.into())]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "--set train.batch=0: expected an integer from 1 to 1000000000, or tokens such as `65536 tokens`"
    );
}

#[test]
fn a_space_whose_values_fit_together_somewhere_is_accepted() {
    // Each of these is refused alone, or together with the first value of another.
    let toml = "[tune.space]
'train.batch' = [8, 64]
'memory.micro_batch' = [32, 4]
'optimizer.momentum' = [0.5, 0.9]
'optimizer.nesterov' = [true]
'schedule.name' = ['cosine', 'step']
'schedule.every_epochs' = { low = 1, high = 3, when = 'schedule.name = step' }
";
    load(toml, &[]).unwrap().check_space(read).unwrap();
    // Each choice of many, with many others.
    let many: Vec<_> = (1..200).map(|batch| batch.to_string()).collect();
    let toml = format!(
        "[tune.space]\n'optimizer.name' = ['sgd', 'adam', 'adamw', 'adan', 'lion', 'adafactor', 'adagrad', 'rmsprop']
'schedule.name' = ['constant', 'cosine', 'one-cycle']\n'model.name' = ['resnet18', 'lstm']
'model.width' = {{ low = 8, high = 64, when = 'model.name = resnet18' }}
'optimizer.momentum' = {{ low = 0.5, high = 0.9, when = 'optimizer.name in [sgd, rmsprop]' }}
'optimizer.nesterov' = {{ choices = [true, false], when = 'optimizer.name = sgd' }}
'train.batch' = [{}]",
        many.join(", ")
    );
    let mut tries = 0;
    let counted = |config: &Config| {
        tries += 1;
        read(config)
    };
    load(&toml, &[]).unwrap().check_space(counted).unwrap();
    assert!(tries > 1000 && tries < 20_000, "{tries}");
}

#[test]
fn values_of_the_search_are_values_of_the_configuration() {
    let [width, lr, momentum, name] = &space(QUOTED, &[])[..] else { panic!() };
    assert_eq!(width.value(16.0), Some(16usize.into()));
    assert_eq!((width.value(16.5), width.value(72.0), width.value(f64::NAN)), (None, None, None));
    assert_eq!((lr.value(0.01), lr.value(1.0)), (Some(0.01.into()), None));
    assert_eq!((name.value(1.0), name.value(2.0), name.value(-1.0)), (Some("adamw".into()), None, None));
    for (entry, searched) in [(width, 24.0), (lr, 1e-3), (momentum, 0.99), (name, 1.0)] {
        assert_eq!(entry.searched(&entry.value(searched).unwrap()), Some(searched));
    }
    assert_eq!((name.searched(&"lion".into()), momentum.searched(&true.into())), (None, None));
}

#[test]
fn the_section_is_written_and_read_again() {
    let config = load(QUOTED, &["tune.trials=20"]).unwrap();
    insta::assert_snapshot!(config.to_toml().split("[tune]").nth(1).unwrap(), @r#"

    metric = "eval loss"
    sampler = "tpe"
    scheduler = "asha"
    startup = 10
    trials = 20
    min_epochs = 1
    eta = 3
    parallel = "auto"
    on_too_large = "adapt"
    deterministic = false
    lease = 120.0
    checkpoints = "promotable"
    space."model.width" = { low = 8, high = 64, step = 8 }
    space."optimizer.lr" = { low = 0.0001, high = 0.1, log = true }
    space."optimizer.momentum" = { low = 0.0, high = 0.99, when = "optimizer.name = sgd" }
    space."optimizer.name" = ["sgd", "adamw"]
    "#);
    for written in [config.to_toml(), config.to_annotated_toml(), config.to_given_toml()] {
        let again = load(&written, &[]).unwrap();
        assert_eq!(again.to_toml(), config.to_toml());
    }
    let json = config.to_json();
    assert_eq!(
        json["tune.space.optimizer.lr"]["value"],
        serde_json::json!({"low": 1e-4, "high": 0.1, "log": true})
    );
    assert_eq!(json["tune.space.optimizer.lr"]["origin"], "x.toml:2");
}

#[test]
fn only_given_values_are_stored_for_a_study() {
    let toml = format!("[optimizer]\nmomentum = 0.9\n[model]\nx = 1\n{QUOTED}");
    let stored = load(&toml, &["train.steps=50", "train.epochs=3"]).unwrap().to_given_toml();
    insta::assert_snapshot!(stored, @r#"
    [model]
    x = 1

    [train]
    epochs = 3
    steps = 50

    [optimizer]
    momentum = 0.9

    [tune]
    space."model.width" = { low = 8, high = 64, step = 8 }
    space."optimizer.lr" = { low = 0.0001, high = 0.1, log = true }
    space."optimizer.momentum" = { low = 0.0, high = 0.99, when = "optimizer.name = sgd" }
    space."optimizer.name" = ["sgd", "adamw"]
    "#);
    // The learning rate stays that of the optimizer which a trial chooses.
    let trial = load(&stored, &[]).unwrap().at_point(&[("optimizer.name", "adamw".into())]).unwrap();
    assert_eq!(trial.optimizer.lr, 1e-3);
}

#[test]
fn a_config_without_the_section_does_not_have_it() {
    for toml in ["", "[tune]", "[tune.space]", "[tune.space.optimizer]"] {
        let config = load(toml, &[]).unwrap();
        assert!(config.tune.is_none() && !config.to_annotated_toml().contains("tune"), "{toml}");
        assert!(config.space().is_err());
    }
    let (with, without) = (load(QUOTED, &[]).unwrap(), load("", &[]).unwrap());
    assert_eq!(with.without_tune().to_toml(), without.to_toml());
    assert_eq!(with.without_tune().resolved().len(), without.resolved().len());
    // A training is the same with it.
    assert_eq!(with.differences(&without.to_toml()).unwrap(), []);
    assert_eq!(without.differences(&with.to_toml()).unwrap(), []);
}
