//! Settings that change what a step does, each with every strategy of several devices.

/// One training over some devices of the CPU, to plan and to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DriftCase {
    pub(crate) feature: Feature,
    pub(crate) strategy: Strategy,
}

/// A model and settings that change its step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Feature {
    pub(crate) name: &'static str,
    /// The model and its data, as in `[model]` and `[data]`.
    model: [&'static str; 2],
    /// Stages that are not trained, as in `model.freeze`; empty for none.
    freeze: &'static str,
    /// As in `[optimizer]`, behind the name.
    optimizer: &'static str,
    /// As in `[memory]`, behind the micro-batch.
    memory: &'static str,
}

/// How many devices share a step, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Strategy {
    pub(crate) name: &'static str,
    devices: usize,
    /// As in `[device]`.
    settings: &'static str,
}

/// Samples of a step: each of three replicas has a whole micro-batch and a smaller one.
const BATCH: usize = 48;
const MICRO_BATCH: usize = 12;

impl DriftCase {
    /// Feature and strategy.
    pub(crate) fn label(&self) -> String {
        format!("{}, {}", self.feature.name, self.strategy.name)
    }

    /// Whether the strategy has the feature: the coordinator of `dp` releases no gradients.
    pub(crate) fn is_possible(&self) -> bool {
        !(self.feature.memory.contains(RELEASE) && self.strategy.settings.contains("'dp'"))
    }

    /// The configuration. Each device has one thread: how many threads use their workspaces at once is chance.
    pub(crate) fn config(&self) -> String {
        let Feature { model: [model, data], freeze, optimizer, memory, .. } = self.feature;
        let Strategy { devices: count, settings, .. } = self.strategy;
        // A step has several buckets, which are released one by one.
        let is_small = memory.contains(RELEASE) && settings.contains("'ddp'");
        let bucket = if is_small { ", bucket = '100KiB'" } else { "" };
        let freeze = if freeze.is_empty() { String::new() } else { format!(", freeze = {freeze}") };
        let (samples, devices) = (3 * BATCH, vec!["cpu"; count].join(","));
        format!(
            "model = {{ {model}{freeze} }}\n\
             data = {{ {data}, workers = 0, train_samples = {samples}, test_samples = {BATCH} }}\n\
             train = {{ steps = 3, batch = {BATCH} }}\n\
             optimizer = {{ name = 'adam'{optimizer} }}\n\
             memory = {{ micro_batch = {MICRO_BATCH}{memory} }}\n\
             device = {{ devices = '{devices}', threads = {count}{settings}{bucket} }}\n"
        )
    }
}

const RESNET: [&str; 2] = [
    "name = 'resnet18', stem = 'small', width = 16",
    "source = 'synthetic', kind = 'image', height = 8, width = 8",
];
const LSTM: [&str; 2] = [
    "name = 'lstm', hidden = 128, layers = 3",
    "source = 'synthetic', kind = 'sequence', steps = 24, features = 32",
];
/// Synthetic tokens continue from batch to batch.
const LANGUAGE: [&str; 2] = [
    "name = 'lstm-lm', hidden = 128, layers = 2, dropout = 0.2",
    "source = 'synthetic', kind = 'tokens', steps = 24, vocabulary = 300",
];
const GRU: [&str; 2] = [
    "name = 'gru-lm', hidden = 128, layers = 2, dropout = 0.2",
    "source = 'synthetic', kind = 'tokens', steps = 24, vocabulary = 300",
];
const DECODER: [&str; 2] = [
    "name = 'gpt', layers = 3, hidden = 64, heads = 4, dropout = 0.1, tied = false",
    "source = 'synthetic', kind = 'tokens', steps = 24, vocabulary = 300, carry = false",
];
const FP16: &str = ", precision = 'fp16'";
const RECOMPUTE_OPS: &str = ", recompute = 'ops'";
const RECOMPUTE_STAGES: &str = ", recompute = 'stages'";
const RELEASE: &str = ", gradients = 'release'";
const RELEASE_RECOMPUTE: &str = ", gradients = 'release', recompute = 'stages'";
const STATE_BF16: &str = ", state = 'bf16'";
const STATE_INT8: &str = ", state = 'int8'";
const CLIP_VALUE: &str = ", clip_value = 0.01";
const CLIP_NORM: &str = ", clip_norm = 0.1";
const CLIP_GLOBAL_NORM: &str = ", clip_global_norm = 0.5";

const fn feature(name: &'static str, model: [&'static str; 2]) -> Feature {
    Feature { name, model, freeze: "", optimizer: "", memory: "" }
}

const fn strategy(name: &'static str, devices: usize, settings: &'static str) -> Strategy {
    Strategy { name, devices, settings }
}

/// The rows of the table.
pub(crate) const FEATURES: [Feature; 35] = [
    Feature { memory: FP16, ..feature("resnet18 fp16", RESNET) },
    Feature {
        memory: FP16,
        optimizer: CLIP_GLOBAL_NORM,
        ..feature("resnet18 fp16, clip_global_norm", RESNET)
    },
    Feature { optimizer: CLIP_VALUE, ..feature("resnet18 clip_value", RESNET) },
    Feature { optimizer: CLIP_NORM, ..feature("resnet18 clip_norm", RESNET) },
    Feature { optimizer: CLIP_GLOBAL_NORM, ..feature("resnet18 clip_global_norm", RESNET) },
    Feature { freeze: "['stem', 'layer1']", ..feature("resnet18 first stages frozen", RESNET) },
    Feature { freeze: "['layer2', 'layer3.0']", ..feature("resnet18 middle stages frozen", RESNET) },
    Feature { memory: RECOMPUTE_OPS, ..feature("resnet18 recompute ops", RESNET) },
    Feature { memory: RECOMPUTE_STAGES, ..feature("resnet18 recompute stages", RESNET) },
    Feature { memory: ", recompute = ['layer1', 'layer3.0']", ..feature("resnet18 recompute two", RESNET) },
    Feature {
        freeze: "['stem', 'layer2']",
        optimizer: CLIP_NORM,
        memory: ", precision = 'fp16', recompute = 'stages'",
        ..feature("resnet18 fp16, clip_norm, frozen, recompute stages", RESNET)
    },
    Feature { memory: FP16, ..feature("lstm fp16", LSTM) },
    Feature { freeze: "['lstm.1']", ..feature("lstm middle layer frozen", LSTM) },
    Feature { memory: RECOMPUTE_STAGES, ..feature("lstm recompute stages", LSTM) },
    feature("lstm-lm carried", LANGUAGE),
    Feature { memory: FP16, ..feature("lstm-lm carried, fp16", LANGUAGE) },
    Feature { optimizer: CLIP_VALUE, ..feature("lstm-lm carried, clip_value", LANGUAGE) },
    Feature { optimizer: CLIP_GLOBAL_NORM, ..feature("lstm-lm carried, clip_global_norm", LANGUAGE) },
    Feature { freeze: "['embedding']", ..feature("lstm-lm carried, embedding frozen", LANGUAGE) },
    Feature { memory: RECOMPUTE_OPS, ..feature("lstm-lm carried, recompute ops", LANGUAGE) },
    Feature { memory: RECOMPUTE_STAGES, ..feature("lstm-lm carried, recompute stages", LANGUAGE) },
    Feature { memory: RELEASE, ..feature("resnet18 gradients released", RESNET) },
    Feature { memory: RELEASE_RECOMPUTE, ..feature("lstm gradients released, recompute stages", LSTM) },
    Feature {
        memory: RELEASE,
        optimizer: CLIP_NORM,
        ..feature("lstm-lm carried, gradients released, clip_norm", LANGUAGE)
    },
    feature("resnet18", RESNET),
    Feature { memory: ", precision = 'bf16'", ..feature("resnet18 bf16", RESNET) },
    Feature { memory: ", lean = false", ..feature("resnet18 Burn's layers", RESNET) },
    Feature { optimizer: STATE_BF16, ..feature("lstm state bf16", LSTM) },
    Feature { optimizer: STATE_INT8, ..feature("lstm-lm carried, state int8", LANGUAGE) },
    Feature {
        memory: ", recompute = 'stages', offload = ['activations']",
        ..feature("resnet18 recompute stages, activations offloaded", RESNET)
    },
    Feature { memory: ", offload = ['optimizer']", ..feature("lstm state offloaded", LSTM) },
    feature("gpt", DECODER),
    Feature { memory: RECOMPUTE_STAGES, ..feature("gpt recompute stages", DECODER) },
    feature("gru-lm carried", GRU),
    Feature { memory: RECOMPUTE_STAGES, ..feature("gru-lm carried, recompute stages", GRU) },
];

/// The columns of the table.
pub(crate) const STRATEGIES: [Strategy; 14] = [
    strategy("one device", 1, ""),
    strategy("ddp × 2", 2, ", strategy = 'ddp'"),
    strategy("ddp × 3", 3, ", strategy = 'ddp'"),
    strategy("ddp × 3, optimizer sharded", 3, ", strategy = 'ddp', shard = 'optimizer'"),
    strategy("ddp × 3, gradients sharded", 3, ", strategy = 'ddp', shard = 'gradients'"),
    strategy("ddp × 3, parameters sharded", 3, ", strategy = 'ddp', shard = 'parameters'"),
    strategy("dp × 2", 2, ", strategy = 'dp'"),
    strategy("dp × 3", 3, ", strategy = 'dp'"),
    strategy("model × 2", 2, ", strategy = 'model'"),
    strategy("model × 3", 3, ", strategy = 'model'"),
    strategy("1f1b × 2", 2, ", strategy = 'pipeline', schedule = '1f1b'"),
    strategy("1f1b × 3", 3, ", strategy = 'pipeline', schedule = '1f1b'"),
    strategy("gpipe × 2", 2, ", strategy = 'pipeline', schedule = 'gpipe'"),
    strategy("gpipe × 3", 3, ", strategy = 'pipeline', schedule = 'gpipe'"),
];

/// One case for each feature, with the strategies in turn: all of both occur. Every test run checks them.
#[allow(dead_code)] // The tool runs all, the test these.
pub(crate) fn sample() -> Vec<DriftCase> {
    let mut strategies = STRATEGIES.into_iter().cycle();
    let case = |feature| {
        let mut cases = strategies.by_ref().map(|strategy| DriftCase { feature, strategy });
        // Each feature is possible with most strategies.
        cases.find(DriftCase::is_possible).expect("a strategy that has the feature")
    };
    FEATURES.into_iter().map(case).collect()
}
