//! Every key of the configuration, in a context where it has no effect: the value is refused, or a notice names it.

use std::collections::BTreeSet;

use crate::support::Folder;

/// The settings beside which a value of a key has no effect.
struct Context {
    key: &'static str,
    value: &'static str,
    beside: &'static [&'static str],
}

const fn idle(key: &'static str, value: &'static str, beside: &'static [&'static str]) -> Context {
    Context { key, value, beside }
}

const IDX: &str = "idx.toml";
const CSV: &str = "csv.toml";
const TEXT: &str = "text.toml";

const ROWS: &[&str] = &["data.layout=rows"];
const ADAM: &[&str] = &["optimizer.name=adam"];
const SGD: &[&str] = &["optimizer.name=sgd"];
const CONSTANT: &[&str] = &["schedule.name=constant"];
const ONE_DEVICE: &[&str] = &["device.devices=cpu"];
const ONE_REPLICA: &[&str] = &["device.devices=cpu", "device.strategy=ddp"];

/// Keys of the LSTM and the digits, and of all other sections.
const CONTEXTS: &[Context] = &[
    idle("model.dropout", "0.5", &["model.layers=1"]),
    idle("data.mean", "[0.5]", &["data.normalize=none"]),
    idle("data.std", "[0.5]", &["data.normalize=none"]),
    idle("data.crop_padding", "1", ROWS),
    idle("data.flip", "true", ROWS),
    idle("data.augment.resized_crop", "[0.5, 1.0]", ROWS),
    idle("data.augment.resized_crop_ratio", "[0.5, 2.0]", &[]),
    idle("data.augment.rotate", "10", ROWS),
    idle("data.augment.brightness", "0.4", ROWS),
    idle("data.augment.contrast", "0.4", ROWS),
    idle("data.augment.saturation", "0.4", ROWS),
    idle("data.augment.hue", "0.1", ROWS),
    idle("data.augment.rand_augment", "2", ROWS),
    idle("data.augment.magnitude", "5", &[]),
    idle("data.augment.erase", "0.5", ROWS),
    idle("data.augment.erase_area", "[0.1, 0.2]", &[]),
    idle("data.augment.erase_ratio", "[0.5, 2.0]", &[]),
    idle("data.augment.cutmix", "1.0", ROWS),
    idle("data.prefetch", "8", &["data.workers=0"]),
    idle("data.on_corrupt", "skip", &["data.source=digits"]),
    idle("train.eval_batch", "8", &["train.eval_every=never"]),
    idle("train.best", "eval accuracy", &["train.eval_every=never"]),
    idle("train.ema_warmup", "false", &[]),
    idle("train.swa", "0.9", &[]),
    idle("train.swa_every", "3 steps", &[]),
    idle("train.swa_lr", "0.1", &[]),
    idle("train.patience", "2", &["train.eval_every=never"]),
    idle("train.min_delta", "0.1", &[]),
    idle("memory.allow", "bf16", &["memory.fit=off"]),
    idle("optimizer.momentum", "0.5", ADAM),
    idle("optimizer.dampening", "0.5", &["optimizer.momentum=0"]),
    idle("optimizer.nesterov", "true", &["optimizer.momentum=0"]),
    idle("optimizer.beta1", "0.5", SGD),
    idle("optimizer.beta2", "0.5", SGD),
    idle("optimizer.beta3", "0.5", ADAM),
    idle("optimizer.epsilon", "1e-6", SGD),
    idle("optimizer.amsgrad", "true", SGD),
    idle("optimizer.state", "int8", &["optimizer.name=rmsprop"]),
    idle("optimizer.alpha", "0.5", SGD),
    idle("optimizer.centered", "true", SGD),
    idle("optimizer.lr_decay", "0.5", SGD),
    idle("optimizer.beta2_decay", "-0.5", SGD),
    idle("optimizer.epsilon1", "1e-6", SGD),
    idle("optimizer.epsilon2", "1e-6", SGD),
    idle("optimizer.d", "2", SGD),
    idle("schedule.warmup_steps", "2", &["schedule.name=one-cycle"]),
    idle("schedule.warmup_epochs", "1", &["schedule.name=one-cycle"]),
    idle("schedule.warmup_start", "0.5", CONSTANT),
    idle("schedule.final_lr", "0.5", CONSTANT),
    idle("schedule.every_epochs", "2", CONSTANT),
    idle("schedule.every_steps", "2", CONSTANT),
    idle("schedule.milestones_epochs", "[2]", CONSTANT),
    idle("schedule.gamma", "0.5", CONSTANT),
    idle("schedule.warmup_fraction", "0.5", CONSTANT),
    idle("schedule.div", "2", CONSTANT),
    idle("schedule.final_div", "2", CONSTANT),
    idle("schedule.anneal", "linear", CONSTANT),
    idle("memory.pool", "direct", ONE_DEVICE),
    idle("device.strategy", "dp", ONE_DEVICE),
    idle("device.timeout", "5", ONE_DEVICE),
    idle("device.split_points", "head", ONE_DEVICE),
    idle("device.balance", "time", ONE_DEVICE),
    idle("device.schedule", "gpipe", ONE_DEVICE),
    idle("device.coordinator_share", "0.5", ONE_DEVICE),
    idle("device.sync_batch_norm", "true", ONE_REPLICA),
    idle("device.bucket", "1MiB", ONE_REPLICA),
    idle("device.check_every", "3 steps", ONE_REPLICA),
    idle("device.shard", "optimizer", ONE_REPLICA),
    idle("model.lora.alpha", "4", &[]),
    idle("model.lora.targets", "lstm", &[]),
    idle("model.lora.train", "head", &[]),
    idle("run.keep_last", "7", &["run.save_every=never"]),
    idle("run.histograms", "1 epoch", &["run.tensorboard=false"]),
];

/// Keys that always have an effect, whatever the others are.
const ALWAYS: &[&str] = &[
    "model.name",
    "model.weights",
    "model.freeze",
    "model.lora.rank",
    "model.hidden",
    "model.layers",
    "data.source",
    "data.layout",
    "data.normalize",
    "data.workers",
    // It only says how fast the CPU is.
    "device.calibration",
    "data.last_batch",
    // Only classes can be mixed: see the test below.
    "data.augment.mixup",
    "train.epochs",
    "train.steps",
    "train.batch",
    "train.seed",
    "train.eval_every",
    "train.task",
    "train.ema",
    // Regression alone has no use for it: see the test below.
    "train.label_smoothing",
    // Errors where targets are no classes: see the test below.
    "train.class_weights",
    "data.sampling",
    "optimizer.name",
    "optimizer.lr",
    "optimizer.weight_decay",
    "optimizer.weight_decay_on",
    "optimizer.clip_value",
    "optimizer.clip_norm",
    "optimizer.clip_global_norm",
    "schedule.name",
    "memory.precision",
    "memory.recompute",
    "memory.lean",
    "memory.gradients",
    "memory.offload",
    // Only language models have such a loss: see the test below.
    "memory.loss_chunk",
    "memory.micro_batch",
    "memory.limit",
    "memory.fit",
    // Idle on GPUs: see the test below.
    "memory.record",
    "memory.on_oom",
    "memory.cleanup",
    "memory.leak_check",
    "device.devices",
    "device.threads",
    "run.directory",
    "run.save_every",
    "run.log_every",
    "run.tensorboard",
    "run.mlflow",
];

/// What a training says, and its exit code.
fn train(folder: &Folder, config: &str, settings: &[&str]) -> (Option<i32>, String) {
    let _ = std::fs::remove_dir_all(folder.at("run"));
    let steps = ["train", "--config", config, "--quiet", "--set", "train.steps=1"];
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    let answer = folder.oomph(&steps.into_iter().chain(settings).collect::<Vec<_>>());
    (answer.code, answer.stderr)
}

#[track_caller]
fn check(folder: &Folder, config: &str, context: &Context) {
    let Context { key, value, beside } = context;
    let (code, without) = train(folder, config, beside);
    assert_eq!((code, without.contains(key)), (Some(0), false), "{key}: {without}");
    let setting = format!("{key}={value}");
    let (code, with) = train(folder, config, &[beside, &[setting.as_str()][..]].concat());
    // An error may name the other key of the two.
    let is_reported = code != Some(0) || with.contains(key);
    assert!(is_reported, "`{setting}` has no effect beside {beside:?}, and nothing says so: {with:?}");
}

/// All keys that these configurations have.
fn keys(folder: &Folder, variants: &[&[&str]]) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for variant in variants {
        let settings = variant.iter().flat_map(|setting| ["--set", setting]);
        let config = ["config", "--config", "tiny.toml", "--json"].into_iter().chain(settings);
        let config = folder.oomph(&config.collect::<Vec<_>>()).success().last_json();
        keys.extend(config.as_object().expect("an object").keys().cloned());
    }
    keys
}

#[test]
fn a_value_without_effect_is_reported_whatever_the_key() {
    let folder = Folder::new();
    for context in CONTEXTS {
        check(&folder, "tiny.toml", context);
    }
}

#[test]
fn every_key_is_known_to_have_an_effect_or_a_context_without() {
    let folder = Folder::new();
    let optimizers = ["adam", "rmsprop", "adagrad", "adan", "lion", "adafactor"];
    let optimizers = optimizers.map(|name| format!("optimizer.name={name}"));
    let schedules = ["cosine", "one-cycle"].map(|name| format!("schedule.name={name}"));
    let strategies = ["ddp", "dp", "model", "pipeline"].map(|name| format!("device.strategy={name}"));
    let mut variants: Vec<Vec<&str>> = vec![
        Vec::new(),
        vec!["schedule.warmup_steps=2"],
        vec!["schedule.name=step", "schedule.every_epochs=1"],
    ];
    variants.extend(optimizers.iter().map(|name| vec![name.as_str()]));
    variants.extend(schedules.iter().map(|name| vec![name.as_str()]));
    variants.extend(strategies.iter().map(|name| vec!["device.devices=cpu,cpu", name.as_str()]));
    let variants: Vec<&[&str]> = variants.iter().map(Vec::as_slice).collect();
    let idle: BTreeSet<&str> = CONTEXTS.iter().map(|context| context.key).collect();
    let unknown = keys(&folder, &variants);
    let unknown: Vec<_> = unknown
        .iter()
        .filter(|key| !idle.contains(key.as_str()) && !ALWAYS.contains(&key.as_str()))
        .collect();
    assert_eq!(unknown, [""; 0], "give each a context in which it has no effect, or add it to `ALWAYS`");
}

#[test]
fn the_data_decides_whether_a_key_has_an_effect() {
    let folder = Folder::new();
    let rows: String = (0..60u32).map(|row| format!("{},{}\n", row % 7, row % 5)).collect();
    folder.write("rows.csv", format!("a,b\n{rows}"));
    let csv = "[data]\nsource = 'csv'\npath = 'rows.csv'\nsteps = 4\nworkers = 0\n[model]\nname = 'lstm'\nhidden = 4\n\
               [train]\nbatch = 4\n[run]\ndirectory = 'run'\n";
    folder.write(CSV, csv);
    check(&folder, CSV, &idle("train.label_smoothing", "0.1", &[]));
    check(&folder, CSV, &idle("train.class_weights", "balanced", &[]));
    check(&folder, CSV, &idle("memory.loss_chunk", "64", &[]));
    check(&folder, CSV, &idle("data.sampling", "balanced", &[]));
    check(&folder, CSV, &idle("data.augment.mixup", "0.2", &[]));

    let images = |count: u8| {
        [&[0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, 2, 0, 0, 0, 2], &vec![7; usize::from(count) * 4][..]].concat()
    };
    let labels = |count: u8| {
        [&[0, 0, 8, 1, 0, 0, 0, count][..], &(0..count).map(|i| i % 2).collect::<Vec<_>>()].concat()
    };
    for (name, bytes) in [
        ("train-images-idx3-ubyte", images(8)),
        ("train-labels-idx1-ubyte", labels(8)),
        ("t10k-images-idx3-ubyte", images(4)),
        ("t10k-labels-idx1-ubyte", labels(4)),
    ] {
        folder.write(&format!("idx/{name}"), bytes);
    }
    let idx = "[data]\nsource = 'idx'\npath = 'idx'\nworkers = 0\nmean = [0.5]\nstd = [0.5]\n[model]\nname = 'lstm'\n\
               hidden = 4\n[train]\nbatch = 4\n[run]\ndirectory = 'run'\n";
    folder.write(IDX, idx);
    check(&folder, IDX, &idle("data.channel_order", "first", &[]));

    let text = "[data]\nsource = 'text'\npath = 'x.txt'\nlevel = 'bpe'\n[model]\nname = 'lstm-lm'\n";
    folder.write(TEXT, text);
    for (key, value, beside) in [
        ("tokenizer", "x.json", "data.level=word"),
        ("vocabulary_file", "x.json", "data.level=bpe"),
        ("min_count", "2", "data.level=bpe"),
        ("windows", "fixed", "data.carry=true"),
    ] {
        let set = format!("data.{key}={value}");
        let shown = folder.oomph(&["config", "--config", TEXT, "--set", &set, "--set", beside]).success();
        assert!(shown.stdout.contains(&format!("# {key} has no effect: ")), "{shown}");
    }

    let gpu =
        ["config", "--config", "tiny.toml", "--set", "device.devices=cuda:0", "--set", "memory.record=5"];
    let gpu = folder.oomph(&gpu).success();
    assert!(gpu.stdout.contains("# record has no effect: "), "{gpu}");
}
