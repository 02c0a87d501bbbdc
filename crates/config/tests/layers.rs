//! Accepted values, the precedence of layers, and the report of the result.

use std::{path::Path, time::Duration};

use oomph_config::{
    Anneal, Balance, Change, Clip, Config, ConfigFile, Cut, Ddp, DeviceName, Drops, Interval, MicroBatch,
    Moments, OptimizerKind, OptimizerName, Origin, PipelineSchedule, Precision, Recompute, ScheduleKind,
    Sharing, Sources, Strategy, Value, Warmup,
    sections::averaging::{Averaging, Ema, Swa},
    sections::eval_metric::EvalMetric,
    sections::sharing::Shard,
    sections::train::Length,
};
use oomph_core::Bytes;

fn load(toml: &str, sets: &[&str]) -> Config {
    let mut sources = Sources::new(ConfigFile::from_text("configs/x.toml", toml));
    for set in sets {
        sources = sources.set(set).unwrap();
    }
    Config::load(&sources).unwrap()
}

#[test]
fn without_any_source_everything_has_its_default() {
    let config = Config::load(&Sources::default()).unwrap();
    assert_eq!(config.train.length, Length { epochs: Some(10), steps: None });
    assert_eq!(config.train.batch, 32);
    assert_eq!(config.train.eval_every, Interval::Epochs(1));
    assert_eq!(config.optimizer.kind, OptimizerKind::Sgd { momentum: 0.0, dampening: 0.0, nesterov: false });
    assert_eq!(config.optimizer.lr, 0.1);
    assert_eq!(config.schedule.kind, ScheduleKind::Constant);
    assert_eq!(config.schedule.warmup, None);
    assert_eq!(config.memory.precision, Precision::Fp32);
    assert_eq!(config.memory.recompute, Recompute::None);
    assert_eq!(config.device.devices, [DeviceName::Cpu]);
    assert_eq!(config.device.strategy, Strategy::Auto);
    assert_eq!(config.run.directory, None);
    assert!(config.resolved().iter().all(|entry| entry.origin == Origin::Default));
    config.check_all_read().unwrap();
}

#[test]
fn every_key_of_the_typed_sections_is_read() {
    let config = load(
        "[train]\nepochs = 3\nsteps = 100\nbatch = 64\neval_batch = 128\nseed = 18446744073709551615\n\
         eval_every = '200 steps'\ntask = 'mine'\nlabel_smoothing = 0.1\npatience = 5\nmin_delta = 1e-3\n\
         best = 'macro f1'\nema = 0.9\nema_warmup = false\n\
         [optimizer]\nlr = 1\nmomentum = 0.9\nnesterov = true\nweight_decay = 5e-4\nclip_global_norm = 2\n\
         [schedule]\nname = 'step'\nmilestones_epochs = [1, 2]\ngamma = 0.5\nwarmup_steps = 10\nwarmup_start = 0.1\n\
         [memory]\nmicro_batch = 48\n\
         [device]\ndevices = ['cuda']\nthreads = 2\n\
         [run]\ndirectory = 'runs/x'\nsave_every = '10 minutes'\nkeep_last = 1\nlog_every = 1\n",
        &[],
    );
    assert_eq!(config.train.length, Length { epochs: Some(3), steps: Some(100) });
    assert_eq!((config.train.batch, config.train.eval_batch, config.train.seed), (64, Some(128), u64::MAX));
    assert_eq!(config.train.eval_every, Interval::Steps(200));
    assert_eq!(config.train.task.as_deref(), Some("mine"));
    assert_eq!((config.train.patience, config.train.min_delta), (Some(5), 1e-3));
    assert_eq!(config.train.best, EvalMetric::MacroF1);
    assert_eq!(config.train.average, Some(Averaging::Ema(Ema { decay: 0.9, warmup: false })));
    assert_eq!(config.optimizer.lr, 1.0);
    assert_eq!(config.optimizer.clip, Some(Clip::GlobalNorm(2.0)));
    assert_eq!(config.optimizer.kind, OptimizerKind::Sgd { momentum: 0.9, dampening: 0.0, nesterov: true });
    assert_eq!(config.schedule.kind, ScheduleKind::Step { at: Drops::AfterEpochs(vec![1, 2]), gamma: 0.5 });
    assert_eq!(
        config.schedule.warmup,
        Some(Warmup { length: oomph_config::sections::schedule::WarmupLength::Steps(10), start: 0.1 })
    );
    // 48 need not divide 64.
    assert_eq!(config.memory.micro_batch, Some(MicroBatch::Samples(48)));
    assert_eq!(config.device.devices, [DeviceName::Cuda(0)]);
    assert_eq!(config.device.threads, Some(2));
    assert_eq!(config.run.directory.as_deref(), Some(Path::new("runs/x")));
    assert_eq!(config.run.save_every, Interval::Minutes(10.0));
    assert_eq!(config.name(), "x");
}

#[test]
fn several_devices_share_the_work_by_ddp_unless_told_otherwise() {
    let sharing = |toml: &str, sets: &[&str]| load(toml, sets).device.sharing;
    let balanced = Cut::Balanced(Balance::Memory);
    assert_eq!(sharing("", &[]), Sharing::Alone);
    assert_eq!(sharing("", &["device.devices=cpu,cpu"]), Sharing::Ddp(Ddp::default()));
    assert_eq!(Ddp::default(), Ddp::default());
    // One device is one replica, perhaps among those of other processes.
    assert_eq!(sharing("device.strategy = 'ddp'", &[]), Sharing::Ddp(Ddp::default()));
    let two = &["device.devices=cuda:0,cuda:1"];
    assert_eq!(sharing("device.strategy = 'dp'", two), Sharing::Dp { coordinator_share: None });
    assert_eq!(sharing("device.strategy = 'model'", two), Sharing::Model { cut: balanced.clone() });
    let schedule = PipelineSchedule::OneForwardOneBackward;
    assert_eq!(sharing("device.strategy = 'pipeline'", two), Sharing::Pipeline { cut: balanced, schedule });
}

#[test]
fn every_key_of_a_strategy_is_read() {
    let device = |lines: &str| load(&format!("[device]\ndevices = 'cpu,cpu,cpu'\n{lines}"), &[]).device;
    let sharing = |lines: &str| device(lines).sharing;
    let ddp =
        Ddp { sync_batch_norm: true, bucket: Bytes::mib(1), check_every: Interval::Never, ..Ddp::default() };
    assert_eq!(
        sharing("strategy = 'ddp'\nsync_batch_norm = true\nbucket = '1MiB'\ncheck_every = 'never'"),
        Sharing::Ddp(ddp)
    );
    assert_eq!(
        sharing("strategy = 'dp'\ncoordinator_share = 0.25"),
        Sharing::Dp { coordinator_share: Some(0.25) }
    );
    let cut = Cut::At(vec!["layer2".to_owned(), "layer3.1".to_owned()]);
    assert_eq!(
        sharing("strategy = 'model'\nsplit_points = ['layer2', 'layer3.1']"),
        Sharing::Model { cut: cut.clone() }
    );
    let schedule = PipelineSchedule::GPipe;
    assert_eq!(
        sharing("strategy = 'pipeline'\nschedule = 'gpipe'\nsplit_points = 'layer2, layer3.1'"),
        Sharing::Pipeline { cut, schedule }
    );
    assert_eq!(
        sharing("strategy = 'model'\nbalance = 'time'"),
        Sharing::Model { cut: Cut::Balanced(Balance::Time) }
    );
    assert_eq!(device("").timeout, Duration::from_secs(600));
    assert_eq!(device("timeout = 5").timeout, Duration::from_secs(5));
}

#[test]
fn devices_of_a_higher_layer_set_aside_what_is_not_for_as_many() {
    let file =
        "[device]\nstrategy = 'pipeline'\ndevices = 'cpu,cpu'\nsplit_points = 'layer3'\nschedule = 'gpipe'";
    let aside = |sets: &[&str]| {
        let config = load(file, sets);
        let keys = config.set_aside().into_iter().map(|it| it.setting.key).collect::<Vec<_>>();
        (config.device.sharing.name(), keys)
    };
    assert_eq!(aside(&[]), (Some("pipeline"), vec![]));
    assert_eq!(
        aside(&["device.devices=cpu,cpu,cpu"]),
        (Some("pipeline"), vec!["device.split_points".to_owned()])
    );
    let all = ["device.schedule", "device.split_points", "device.strategy"].map(str::to_owned).to_vec();
    assert_eq!(aside(&["device.devices=cpu"]), (None, all));
    let keys = ["device.schedule", "device.split_points"].map(str::to_owned).to_vec();
    assert_eq!(aside(&["device.strategy=ddp"]), (Some("ddp"), keys));
    let ddp = load("[device]\ndevices = 'cpu,cpu'\nbucket = '1MiB'", &["device.devices=cpu"]);
    assert_eq!(ddp.device.sharing, Sharing::Alone);
}

#[test]
fn each_optimizer_has_its_own_defaults() {
    let moments = Moments { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, amsgrad: false };
    let rmsprop = OptimizerKind::RmsProp { alpha: 0.99, epsilon: 1e-8, momentum: 0.0, centered: false };
    let adan = OptimizerKind::Adan { beta1: 0.98, beta2: 0.92, beta3: 0.99, epsilon: 1e-8 };
    let adafactor =
        OptimizerKind::Adafactor { beta2_decay: -0.8, epsilon1: 1.1920929e-7, epsilon2: 1e-3, d: 1.0 };
    for (name, kind, lr, weight_decay) in [
        ("adam", OptimizerKind::Adam(moments), 1e-3, 0.0),
        ("adamw", OptimizerKind::AdamW(moments), 1e-3, 0.01),
        ("rmsprop", rmsprop, 0.01, 0.0),
        ("adagrad", OptimizerKind::AdaGrad { lr_decay: 0.0, epsilon: 1e-10 }, 0.01, 0.0),
        ("adan", adan, 1e-3, 0.0),
        ("lion", OptimizerKind::Lion { beta1: 0.9, beta2: 0.99 }, 1e-4, 0.0),
        ("adafactor", adafactor, 0.01, 0.0),
    ] {
        let optimizer = load("", &[&format!("optimizer.name={name}")]).optimizer;
        assert_eq!((optimizer.kind, optimizer.lr, optimizer.weight_decay), (kind, lr, weight_decay));
        assert_eq!(optimizer.kind.name(), name);
    }
}

#[test]
fn each_schedule_is_read() {
    let one_cycle =
        |anneal| ScheduleKind::OneCycle { warmup_fraction: 0.3, div: 25.0, final_div: 1e4, anneal };
    for (lines, kind) in [
        ("name = 'cosine'\nfinal_lr = 1e-4", ScheduleKind::Cosine { final_lr: 1e-4 }),
        ("name = 'step'\nevery_epochs = 30", ScheduleKind::Step { at: Drops::EveryEpochs(30), gamma: 0.1 }),
        ("name = 'step'\nevery_steps = 30", ScheduleKind::Step { at: Drops::EverySteps(30), gamma: 0.1 }),
        ("name = 'one-cycle'", one_cycle(Anneal::Cosine)),
        ("name = 'one-cycle'\nanneal = 'linear'", one_cycle(Anneal::Linear)),
    ] {
        assert_eq!(load(&format!("[schedule]\n{lines}"), &[]).schedule.kind, kind);
    }
}

#[test]
fn tables_are_written_in_any_way_toml_has() {
    for toml in [
        "[train]\nbatch = 7",
        "train.batch = 7",
        "train = { batch = 7 }",
        "[train]\r\nbatch = 7\r\n",
        "\u{feff}[train]\nbatch = 0x7 # seven",
    ] {
        assert_eq!(load(toml, &[]).train.batch, 7, "{toml:?}");
    }
    let model = load("[model.block]\ndepth = 2\n[model.block.norm]\nkind = 'batch'", &[]).model;
    assert_eq!(model.integer("block.depth", 1, ..).unwrap(), 2);
    assert_eq!(model.string("block.norm.kind", "").unwrap(), "batch");
}

#[test]
fn a_value_after_set_is_toml_or_else_a_string() {
    for (text, value) in [
        ("8", Value::Integer(8)),
        ("+1_000", Value::Integer(1000)),
        ("-0.5", Value::Number(-0.5)),
        ("1_0.5", Value::Number(10.5)),
        ("0xff", Value::Integer(255)),
        ("1e-3", Value::Number(1e-3)),
        ("true", Value::Boolean(true)),
        ("[1, 2]", Value::from(vec![1usize, 2])),
        ("'8'", Value::from("8")),
        ("adam", Value::from("adam")),
        ("../data/a b", Value::from("../data/a b")),
        ("24GiB", Value::from("24GiB")),
        ("a=b", Value::from("a=b")),
        ("C:\\data", Value::from("C:\\data")),
        ("2026-01-31", Value::from("2026-01-31")),
    ] {
        let config = load("", &[&format!("model.x={text}")]);
        let entry = config.resolved().into_iter().find(|entry| entry.key == "model.x").unwrap();
        assert_eq!((entry.value, entry.origin), (Some(value), Origin::Set), "{text}");
    }
}

#[test]
fn a_later_layer_overrides_an_earlier_one() {
    let sources =
        Sources::new(ConfigFile::from_text("x.toml", "[device]\nthreads = 1\n[train]\nbatch = 1\nseed = 1"));
    let sources = sources.flag("--threads", "device.threads", "4").unwrap();
    let sources = sources.set("train.batch=2").unwrap().set("train.batch=3").unwrap();
    let config = Config::load(&sources.set("device.threads=2").unwrap()).unwrap();
    assert_eq!((config.device.threads, config.train.batch, config.train.seed), (Some(4), 3, 1));
    let origin =
        |key: &str| config.resolved().into_iter().find(|entry| entry.key == key).unwrap().origin.to_string();
    assert_eq!(origin("device.threads"), "--threads");
    assert_eq!(origin("train.batch"), "--set");
    assert_eq!(origin("train.seed"), "x.toml:5");
    assert_eq!(origin("train.epochs"), "default");
}

#[test]
fn steps_of_a_higher_layer_replace_the_epochs_of_a_lower_one() {
    let length = |toml: &str, sets: &[&str]| {
        let length = load(toml, sets).train.length;
        (length.epochs, length.steps)
    };
    assert_eq!(length("train.epochs = 5", &["train.steps=50"]), (None, Some(50)));
    assert_eq!(length("train.steps = 50", &["train.epochs=5"]), (Some(5), None));
    assert_eq!(length("", &["train.epochs=5", "train.steps=50"]), (Some(5), Some(50)));
    assert_eq!(length("train.steps = 50", &[]), (None, Some(50)));
}

#[test]
fn a_choice_of_a_higher_layer_sets_aside_what_it_makes_void() {
    let toml = "[optimizer]\nmomentum = 0.9\nnesterov = true\nclip_norm = 1\n[schedule]\nname = 'cosine'\n\
                final_lr = 1e-3\nwarmup_steps = 5\nwarmup_start = 0.1";
    let config = load(toml, &["optimizer.name=adam", "optimizer.clip_value=2", "schedule.name=one-cycle"]);
    assert_eq!(config.optimizer.kind.name(), "adam");
    assert_eq!(config.optimizer.clip, Some(Clip::Value(2.0)));
    assert_eq!(config.schedule.warmup, None);
    let void: Vec<_> = config.set_aside().into_iter().map(|void| (void.setting.key, void.by.key)).collect();
    let expected = [
        ("optimizer.clip_norm", "optimizer.clip_value"),
        ("optimizer.momentum", "optimizer.name"),
        ("optimizer.nesterov", "optimizer.name"),
        ("schedule.final_lr", "schedule.name"),
        ("schedule.warmup_start", "schedule.name"),
        ("schedule.warmup_steps", "schedule.name"),
    ];
    assert_eq!(void, expected.map(|(key, by)| (key.to_owned(), by.to_owned())));

    let config = load(toml, &["optimizer.momentum=0", "schedule.warmup_steps=0"]);
    assert!(matches!(config.optimizer.kind, OptimizerKind::Sgd { nesterov: false, .. }));
    assert_eq!(config.schedule.warmup, None);
    assert_eq!(config.set_aside().len(), 2);
}

#[test]
fn an_optimizer_of_a_higher_layer_brings_its_own_learning_rate() {
    let toml = "[optimizer]\nname = 'sgd'\nlr = 0.3\nmomentum = 0.9\nweight_decay = 5e-4\nclip_norm = 1";
    let optimizer = |sets: &[&str]| load(toml, sets).optimizer;
    let lion = optimizer(&["optimizer.name=lion"]);
    assert_eq!((lion.lr, lion.weight_decay, lion.clip), (1e-4, 5e-4, Some(Clip::Norm(1.0))));
    // RMSprop has a momentum too, and the file's was chosen for SGD.
    let rmsprop = optimizer(&["optimizer.name=rmsprop"]);
    assert!(matches!(rmsprop.kind, OptimizerKind::RmsProp { momentum: 0.0, .. }) && rmsprop.lr == 0.01);
    // The same optimizer, or a rate that is typed, changes nothing.
    assert_eq!(optimizer(&["optimizer.name=sgd"]).lr, 0.3);
    assert_eq!(optimizer(&["optimizer.name=adam", "optimizer.name=sgd"]).lr, 0.3);
    assert_eq!(optimizer(&["optimizer.lr=0.02", "optimizer.name=lion"]).lr, 0.02);
    // A file that names no optimizer means SGD.
    assert_eq!(load("[optimizer]\nlr = 0.3", &["optimizer.name=adamw"]).optimizer.lr, 1e-3);
    let config = load(toml, &["optimizer.name=rmsprop", "train.steps=5"]);
    assert_eq!(
        config.ignored(),
        ["`optimizer.name` is `rmsprop` (--set), so `optimizer.lr = 0.3` (configs/x.toml:3), \
          `optimizer.momentum = 0.9` (configs/x.toml:4) are ignored; now `optimizer.lr = 0.01`, `optimizer.momentum = 0.0`"]
    );
    assert_eq!(load("[train]\nepochs = 3", &["train.steps=5"]).ignored(), [""; 0]);
}

#[test]
fn the_annotated_toml_shows_the_origin_of_each_value() {
    let toml = "[model]\nname = 'resnet18'\nwidth = 16\n[optimizer]\nmomentum = 0.9\nlr = 0.2\n";
    let config = load(toml, &["optimizer.name=adamw", "train.steps=50"]);
    config.model.string("name", "lstm").unwrap();
    config.model.boolean("bias", true).unwrap();
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!("annotated", config.to_annotated_toml());
    });
}

#[test]
fn json_has_value_and_origin_of_each_key() {
    let config = load("[train]\nseed = 18446744073709551615", &["device.devices=cuda:1"]);
    let json = config.to_json();
    assert_eq!(json["train.seed"]["value"], u64::MAX);
    assert_eq!(json["train.seed"]["origin"], "configs/x.toml:2");
    assert_eq!(json["device.devices"]["value"], serde_json::json!(["cuda:1"]));
    assert_eq!(json["device.devices"]["origin"], "--set");
    assert_eq!(json["optimizer.lr"]["value"], 0.1);
    assert_eq!(json["optimizer.lr"]["expected"], "a number greater than 0");
    assert!(json["train.steps"]["value"].is_null());
}

#[test]
fn differences_from_an_earlier_run_are_named() {
    let earlier = load("[model]\nwidth = 1\nold = true\n[train]\nbatch = 64", &[]).to_toml();
    let now = load("[model]\nwidth = 1.0\nnew = true\n[train]\nbatch = 32\nsteps = 9", &[]);
    let differences = now.differences(&earlier).unwrap();
    let shown: Vec<_> = differences
        .iter()
        .map(|difference| {
            let shown = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), ToString::to_string);
            format!("{}: {} → {}", difference.key, shown(&difference.before), shown(&difference.after))
        })
        .collect();
    assert_eq!(
        shown,
        [
            "model.new: - → true",
            "train.epochs: 10 → -",
            "train.steps: - → 9",
            "train.batch: 64 → 32",
            "model.old: true → -",
        ]
    );
    assert_eq!(now.differences(&now.to_toml()).unwrap(), []);
}

#[test]
fn clones_of_a_section_share_what_was_read() {
    let config = load("[model]\nwidth = 1", &[]);
    let clone = config.model.clone();
    assert!(clone.contains("width") && config.check_all_read().is_err());
    std::thread::spawn(move || clone.integer("width", 2, ..).unwrap()).join().unwrap();
    config.check_all_read().unwrap();
}

#[test]
fn another_model_in_a_higher_layer_sets_the_keys_of_the_files_model_aside() {
    let file = ConfigFile::from_text("c.toml", "[model]\nname = 'wide'\nwidth = 3");
    let read = |sources: Sources| {
        let config = Config::load(&sources).unwrap();
        config.model.string("name", "").unwrap();
        (config.check_all_read(), config.set_aside().len())
    };
    let (result, aside) = read(Sources::new(file.clone()).set("model.name=deep").unwrap());
    assert!(result.is_ok());
    assert_eq!(aside, 1);
    // Within one layer it is an error.
    let (result, _) = read(Sources::new(file));
    assert_eq!(result.unwrap_err().to_string(), "c.toml:3: `model.width` is not a known key");
}

#[test]
fn a_change_is_applied_over_all_layers_and_shows_in_the_written_config() {
    let sources = Sources::new(ConfigFile::from_text("x.toml", "[optimizer]\nlr = 0.2"));
    let sources = sources.set("optimizer.momentum=0.9").unwrap().set("optimizer.nesterov=true").unwrap();
    let sources = sources.flag("--memory-limit", "memory.limit", "1MiB").unwrap();
    let config = Config::load(&sources).unwrap();
    let changes =
        [Change::Optimizer(OptimizerName::Sgd), Change::Momentum(0.0), Change::Limit(Bytes::mib(2))];
    let changed = config.changed(&changes).unwrap();
    assert_eq!(changed.optimizer.kind, OptimizerKind::Sgd { momentum: 0.0, dampening: 0.0, nesterov: false });
    assert_eq!((changed.optimizer.lr, changed.memory.limit), (0.2, Some(Bytes::mib(2))));
    let again = Config::from_toml("again.toml", &changed.to_toml()).unwrap();
    assert_eq!((&again.optimizer, again.memory.limit), (&changed.optimizer, changed.memory.limit));
    let entry = |key: &str| changed.resolved().into_iter().find(|entry| entry.key == key).unwrap();
    assert_eq!(entry("optimizer.momentum").origin, Origin::Change);
    assert_eq!(entry("optimizer.lr").origin.to_string(), "x.toml:2");
    // The original stays.
    assert_eq!(config.memory.limit, Some(Bytes::mib(1)));
    assert_eq!(config.set_aside(), []);
}

#[test]
fn a_change_that_contradicts_another_setting_is_refused_as_a_set_is() {
    let config = load("[train]\nbatch = 32", &[]);
    let error = config.changed(&[Change::MicroBatch(MicroBatch::Samples(64))]).unwrap_err();
    insta::assert_snapshot!(
        error,
        @"--set memory.micro_batch=64: a micro-batch cannot be larger than the batch, and `train.batch` is `32` (configs/x.toml:2)"
    );
}

#[test]
fn a_changed_config_shares_its_model_and_keeps_its_device() {
    let mut config = load("[model]\nwidth = 3\n[device]\ndevices = 'cpu,cpu'", &[]);
    config.device.devices.pop();
    let changed = config.changed(&[Change::Lean(false)]).unwrap();
    assert_eq!(changed.device, config.device);
    config.model.integer("width", 1, ..).unwrap();
    changed.check_all_read().unwrap();
}

/// As version 0.1 stored it.
const STORED: &str = "[device]\ndevices = 'cpu,cpu'\nstrategy = 'model'\ncut = ['layer3']";

#[test]
fn a_stored_config_with_a_retired_key_is_translated() {
    let file = ConfigFile::from_text("runs/x/config.toml", STORED).stored();
    let config = Config::load(&Sources::new(file)).unwrap();
    assert_eq!(config.device.sharing.cut(), Some(&Cut::At(vec!["layer3".to_owned()])));
    let entry = config.resolved().into_iter().find(|entry| entry.key == "device.split_points").unwrap();
    assert_eq!(entry.origin.to_string(), "runs/x/config.toml:4");
    // Comparison accepts the old name too.
    assert_eq!(config.differences(STORED).unwrap().iter().filter(|it| it.key.contains("cut")).count(), 0);
    assert!(config.differences(&config.to_toml()).unwrap().is_empty());
    let values = oomph_config::values("config.toml", STORED).unwrap();
    assert_eq!(values["device.split_points"], Value::from(vec!["layer3"]));
    assert!(!values.contains_key("device.cut"));
}

#[test]
fn a_retired_key_of_a_user_is_refused_with_its_new_name() {
    let refused = |sources: Sources| {
        let error = Config::load(&sources).unwrap_err();
        format!("{error}; hint: {}", error.hint().unwrap())
    };
    insta::assert_snapshot!(
        refused(Sources::new(ConfigFile::from_text("x.toml", STORED))),
        @"x.toml:4: `device.cut` is no longer a key; hint: use `device.split_points`"
    );
    let stored = Sources::new(ConfigFile::from_text("runs/x/config.toml", STORED).stored());
    insta::assert_snapshot!(
        refused(stored.set("device.cut=layer2").unwrap()),
        @"--set device.cut=layer2: `device.cut` is no longer a key; hint: use `device.split_points`"
    );
}

#[test]
fn a_training_keeps_the_average_of_the_highest_layer() {
    let config = load("[train]\nswa = 0.5\nswa_every = '200 steps'\nswa_lr = 0.05\n", &[]);
    let swa = Swa { start: 0.5, every: Interval::Steps(200), lr: Some(0.05) };
    assert_eq!(config.train.average, Some(Averaging::Swa(swa)));
    let config = load("[train]\nswa = 0.5\n", &["train.ema=0.9"]);
    assert_eq!(config.train.average, Some(Averaging::Ema(Ema { decay: 0.9, warmup: true })));
}

#[test]
fn a_change_shards_what_the_devices_hold() {
    let config = Config::from_toml("x", "device.devices = ['cpu', 'cpu']").unwrap();
    let changed = config.changed(&[Change::Shard(Shard::Gradients)]).unwrap();
    let shard = |config: &Config| config.device.sharing.ddp().unwrap().shard;
    assert_eq!([shard(&config), shard(&changed)], [Shard::None, Shard::Gradients]);
    assert_eq!(shard(&changed.changed(&[]).unwrap()), Shard::Gradients);
}
