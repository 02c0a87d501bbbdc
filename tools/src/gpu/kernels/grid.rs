//! The trainings whose kernels are compiled: every config in each precision, and every lever and optimizer that launches
//! kernels of its own.

/// A training of one step.
#[derive(Clone, Debug)]
pub(crate) struct Training {
    /// The name of its config.
    pub(crate) config: String,
    /// Its further settings, as `--set` takes them.
    pub(crate) settings: Vec<String>,
}

/// The file that trainings read which predict a time series.
pub(crate) const SERIES: &str = "series.csv";

/// Generated data in place of files, with their shapes: the further settings of a config.
const DATA: [(&str, &str); 11] = [
    ("lstm-lm", "data.source=synthetic data.kind=tokens data.steps=64"),
    ("gpt-shakespeare", "data.source=synthetic data.kind=tokens data.steps=64"),
    ("gpt-bpe", "data.source=synthetic data.kind=tokens data.steps=64"),
    ("gpt2-finetune", "data.source=synthetic data.kind=tokens data.steps=64"),
    ("mnist", "data.source=synthetic data.channels=1 data.height=28 data.width=28"),
    ("resnet-folder", "data.source=synthetic"),
    ("resnet-photos", "data.source=synthetic"),
    ("resnet18-cifar10", "data.source=synthetic"),
    (
        "resnet50-imagenet",
        "data.source=synthetic data.height=224 data.width=224 data.classes=1000 train.batch=16",
    ),
    ("transfer", "data.source=synthetic data.height=224 data.width=224"),
    ("vit-photos", "data.source=synthetic"),
];

/// What every training is given: one step and an evaluation.
const ALWAYS: [&str; 5] = [
    "train.steps=1",
    "train.eval_every=1 steps",
    "train.eval_batch=180",
    "run.save_every=never",
    "run.tensorboard=false",
];
const FEW_SAMPLES: &str = "data.train_samples=256 data.test_samples=24";

/// Configs of two devices.
const TWO_DEVICES: [&str; 4] = ["ddp", "dp", "model", "pipeline"];

const PRECISIONS: [&str; 3] = ["fp32", "bf16", "fp16"];

/// The configs whose levers are tried: one of each kind of model.
const KINDS: [&str; 3] = ["resnet", "lstm", "lstm-lm"];

/// Levers with kernels of their own.
const LEVERS: [&str; 4] = [
    "memory.lean=false",
    "memory.recompute=ops",
    "memory.recompute=stages",
    "memory.lean=false memory.recompute=ops",
];

/// Optimizers and clipping. Their state has 32 bits whatever the precision.
const OPTIMIZERS: [&str; 12] = [
    "sgd",
    "sgd optimizer.momentum=0.9 optimizer.dampening=0.1 optimizer.weight_decay=0.01",
    "sgd optimizer.clip_value=1.0",
    "adam optimizer.amsgrad=true optimizer.clip_norm=1.0",
    "adam optimizer.weight_decay=0.01",
    "adamw optimizer.weight_decay=0.01",
    "rmsprop optimizer.momentum=0.9",
    "rmsprop optimizer.centered=true optimizer.weight_decay=0.01",
    "adagrad optimizer.lr_decay=0.1",
    "adan optimizer.weight_decay=0.01",
    "lion optimizer.weight_decay=0.01",
    "adafactor optimizer.weight_decay=0.01",
];

/// Further settings that change what is launched: config, settings.
const OTHERS: [(&str, &str); 5] = [
    ("resnet", "memory.micro_batch=8 train.label_smoothing=0.1"),
    ("resnet", "data.augment.mixup=0.2 data.augment.cutmix=1.0"),
    ("lstm-lm", "model.tied=true model.dropout=0.2"),
    ("lstm", "data.source=csv data.path=series.csv data.steps=16"),
    ("resnet", "model.name=resnet50 model.stem=small"),
];

impl Training {
    fn new(config: &str, settings: &str) -> Self {
        let data = DATA.iter().find(|(name, _)| *name == config).map_or("", |(_, data)| data);
        let samples = if data.is_empty() { "" } else { FEW_SAMPLES };
        let all = [data, samples, settings].join(" ");
        let settings = ALWAYS.into_iter().chain(all.split_whitespace()).map(str::to_owned).collect();
        Self { config: config.to_owned(), settings }
    }

    /// Its config, and the settings that it does not share with all others.
    pub(crate) fn label(&self) -> String {
        format!("{} {}", self.config, self.settings[ALWAYS.len()..].join(" "))
    }

    /// Whether it computes in bf16.
    pub(crate) fn needs_bf16(&self) -> bool {
        self.settings.iter().any(|setting| setting == "memory.precision=bf16")
    }

    /// The cards that it needs.
    pub(crate) fn cards(&self) -> usize {
        if TWO_DEVICES.contains(&self.config.as_str()) { 2 } else { 1 }
    }

    /// The devices that it needs, as `--devices` takes them.
    pub(crate) fn devices(&self) -> String {
        let devices: Vec<_> = (0..self.cards()).map(|card| format!("cuda:{card}")).collect();
        devices.join(",")
    }
}

/// All trainings. `configs` are the names of the files in `configs/`.
pub(crate) fn all(configs: &[String]) -> Vec<Training> {
    // A search trains what other configs train.
    let configs: Vec<_> = configs.iter().filter(|config| !config.starts_with("tune-")).collect();
    let mut trainings = Vec::new();
    for precision in PRECISIONS {
        let precision = format!("memory.precision={precision}");
        trainings.extend(configs.iter().map(|config| Training::new(config, &precision)));
        for config in KINDS {
            trainings
                .extend(LEVERS.iter().map(|lever| Training::new(config, &format!("{precision} {lever}"))));
        }
    }
    let optimizers = OPTIMIZERS.iter().map(|name| format!("optimizer.name={name}"));
    trainings.extend(optimizers.map(|optimizer| Training::new("lstm", &optimizer)));
    trainings.extend(OTHERS.iter().map(|(config, settings)| Training::new(config, settings)));
    trainings
}
