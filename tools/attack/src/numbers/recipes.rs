//! Trainings of the program `poisoned`, of every kind.

/// A training that can be poisoned.
#[derive(Debug)]
pub(super) struct PoisonRecipe {
    pub(super) name: &'static str,
    /// Further lines, each with its section's name in the key.
    settings: &'static str,
    /// Whether targets are classes.
    pub(super) has_classes: bool,
    /// Whether it trains on several replicas.
    pub(super) has_replicas: bool,
    /// Whether it carries state from batch to batch.
    pub(super) carries: bool,
    /// Whether steps whose gradients are not finite are skipped.
    pub(super) skips: bool,
    /// The stages that are frozen.
    pub(super) frozen: &'static [&'static str],
}

/// Steps of each training: two epochs.
pub(super) const STEPS: u64 = 12;
/// Samples of an epoch.
pub(super) const SAMPLES: usize = 48;
const BATCH: usize = 8;

const fn recipe(name: &'static str, settings: &'static str) -> PoisonRecipe {
    PoisonRecipe {
        name,
        settings,
        has_classes: false,
        has_replicas: false,
        carries: false,
        skips: false,
        frozen: &[],
    }
}

const SGD: &str = "optimizer = { name = 'sgd', lr = 0.01, momentum = 0.9 }\n";
const DDP: &str = "device = { devices = ['cpu', 'cpu'], strategy = 'ddp' }\n";

/// All of them.
pub(super) const POISON_RECIPES: [PoisonRecipe; 26] = [
    recipe("sgd", SGD),
    PoisonRecipe { has_classes: true, ..recipe("classes", SGD) },
    recipe("adam", "optimizer = { name = 'adam' }\n"),
    recipe("amsgrad", "optimizer = { name = 'adamw', amsgrad = true, clip_global_norm = 1.0 }\n"),
    recipe("adafactor", "optimizer = { name = 'adafactor' }\n"),
    recipe("rmsprop", "optimizer = { name = 'rmsprop', centered = true, momentum = 0.9 }\n"),
    recipe("adagrad", "optimizer = { name = 'adagrad' }\n"),
    recipe("adan", "optimizer = { name = 'adan' }\n"),
    recipe("lion", "optimizer = { name = 'lion' }\n"),
    recipe("clip-value", "optimizer = { name = 'sgd', lr = 0.01, momentum = 0.9, clip_value = 1.0 }\n"),
    recipe("clip-norm", "optimizer = { name = 'adam', clip_norm = 1.0 }\n"),
    recipe("one-cycle", "optimizer = { name = 'adam' }\nschedule = { name = 'one-cycle' }\n"),
    PoisonRecipe {
        skips: true,
        ..recipe("fp16", "memory = { precision = 'fp16' }\noptimizer = { name = 'adam' }\n")
    },
    PoisonRecipe {
        skips: true,
        has_classes: true,
        ..recipe(
            "fp16-classes",
            "memory = { precision = 'fp16', micro_batch = 4 }\noptimizer = { lr = 0.01 }\n",
        )
    },
    recipe("bf16", "memory = { precision = 'bf16' }\noptimizer = { name = 'adamw' }\n"),
    recipe("recompute", "memory = { recompute = 'stages', micro_batch = 2 }\noptimizer = { lr = 0.01 }\n"),
    recipe("micro-batches", "memory = { micro_batch = 3 }\noptimizer = { name = 'adam' }\n"),
    PoisonRecipe { frozen: &["norm", "hidden"], ..recipe("frozen", SGD) },
    PoisonRecipe { frozen: &["deep"], ..recipe("frozen-later", "optimizer = { name = 'adam' }\n") },
    PoisonRecipe { carries: true, ..recipe("carried", SGD) },
    PoisonRecipe {
        carries: true,
        has_replicas: true,
        ..recipe(
            "carried-ddp",
            "device = { devices = ['cpu', 'cpu'], strategy = 'ddp' }\noptimizer = { name = 'adam' }\n",
        )
    },
    PoisonRecipe { has_replicas: true, ..recipe("ddp", DDP) },
    PoisonRecipe {
        has_replicas: true,
        skips: true,
        ..recipe(
            "ddp-fp16",
            "device = { devices = ['cpu', 'cpu'], strategy = 'ddp', sync_batch_norm = true }\n\
             memory = { precision = 'fp16' }\noptimizer = { name = 'adam' }\n",
        )
    },
    PoisonRecipe {
        has_replicas: true,
        ..recipe("dp", "device = { devices = ['cpu', 'cpu'], strategy = 'dp' }\noptimizer = { lr = 0.01 }\n")
    },
    recipe("model", "device = { devices = ['cpu', 'cpu'], strategy = 'model' }\noptimizer = { lr = 0.01 }\n"),
    recipe(
        "pipeline",
        "device = { devices = ['cpu', 'cpu'], strategy = 'pipeline' }\n\
         memory = { micro_batch = 2 }\noptimizer = { name = 'adam' }\n",
    ),
];

impl PoisonRecipe {
    /// The configuration. `train` and `run` are lines of these sections.
    pub(super) fn config(&self, train: &str, run: &str) -> String {
        let Self { settings, has_classes, carries, frozen, .. } = self;
        let target = if *has_classes { "class" } else { "values" };
        format!(
            "model = {{ name = 'poisoned', carry = {carries}, freeze = {frozen:?} }}\n\
             data = {{ source = 'poisoned', workers = 0, target = '{target}', carry = {carries}, train_samples = \
             {SAMPLES} }}\n{settings}train = {{ task = 'poisoned', batch = {BATCH}, steps = {STEPS}, {train} }}\n\
             run = {{ directory = 'run', keep_last = 100, {run} }}\n"
        )
    }
}
