//! Small trainings of every kind: a step takes a few milliseconds.

/// A training of some kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recipe {
    pub(crate) name: &'static str,
    model: &'static str,
    /// Further lines, each with its section's name in the key.
    settings: &'static str,
    /// Whether it trains on several devices.
    pub(crate) is_shared: bool,
}

const LSTM: &str =
    "model = { name = 'lstm', hidden = 8 }\ndata = { source = 'digits', layout = 'rows', workers = 0 }\n";
const RESNET: &str =
    "model = { name = 'resnet18', stem = 'small', width = 2 }\ndata = { source = 'digits', workers = 0 }\n";
const LANGUAGE: &str = "model = { name = 'lstm-lm', hidden = 8 }\ndata = { source = 'synthetic', kind = 'tokens', steps = 8, workers = 0 }\n";

const fn alone(name: &'static str, model: &'static str, settings: &'static str) -> Recipe {
    Recipe { name, model, settings, is_shared: false }
}

const fn shared(name: &'static str, model: &'static str, settings: &'static str) -> Recipe {
    Recipe { name, model, settings, is_shared: true }
}

/// All of them.
pub(crate) const RECIPES: [Recipe; 14] = [
    alone("lstm", LSTM, ""),
    alone("resnet", RESNET, ""),
    alone("language", LANGUAGE, ""),
    alone("adamw", LSTM, "optimizer = { name = 'adamw', lr = 1e-3, clip_global_norm = 1.0 }\n"),
    alone("adafactor", LSTM, "optimizer = { name = 'adafactor' }\n"),
    alone("fp16", LSTM, "memory = { precision = 'fp16' }\noptimizer = { name = 'adam' }\n"),
    alone("bf16", RESNET, "memory = { precision = 'bf16' }\n"),
    alone("recompute", RESNET, "memory = { recompute = 'stages', micro_batch = 2 }\n"),
    alone("one-cycle", LSTM, "schedule = { name = 'one-cycle' }\n"),
    shared("ddp", LSTM, "device = { devices = ['cpu', 'cpu'], strategy = 'ddp' }\n"),
    shared("dp", LSTM, "device = { devices = ['cpu', 'cpu'], strategy = 'dp' }\n"),
    shared("model", RESNET, "device = { devices = ['cpu', 'cpu'], strategy = 'model' }\n"),
    shared(
        "pipeline",
        RESNET,
        "device = { devices = ['cpu', 'cpu'], strategy = 'pipeline' }\nmemory = { micro_batch = 2 }\n",
    ),
    shared(
        "ddp-adam",
        RESNET,
        "device = { devices = ['cpu', 'cpu'], strategy = 'ddp' }\noptimizer = { name = 'adam' }\n",
    ),
];

impl Recipe {
    /// The configuration, whose run directory is `run`. `train` and `run` are the lines of these sections.
    pub(crate) fn config(&self, train: &str, run: &str) -> String {
        let Self { model, settings, .. } = self;
        format!("{model}{settings}train = {{ batch = 8, {train} }}\nrun = {{ directory = 'run', {run} }}\n")
    }
}
