//! The trainings that are planned and measured.

/// One training to plan and to measure.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The model with its settings, as in `[model]`.
    pub(crate) model: &'static str,
    /// The data's shape, as in `[data]`.
    pub(crate) data: &'static str,
    /// Samples of an optimizer step.
    pub(crate) batch: usize,
    /// As in `[memory]`.
    pub(crate) memory: &'static str,
    /// As in `[optimizer]`.
    pub(crate) optimizer: &'static str,
}

impl Case {
    /// The first cells of its row.
    pub(crate) fn label(&self) -> [String; 5] {
        let batch = self.batch.to_string();
        [short(self.model), short(self.data), batch, short(self.optimizer), short(self.memory)]
    }

    /// The configuration.
    pub(crate) fn config(&self) -> String {
        let Self { model, data, batch, optimizer, memory } = self;
        let samples = 3 * batch;
        format!(
            "model = {{ {model} }}\n\
             data = {{ source = 'synthetic', {data}, workers = 0, train_samples = {samples}, test_samples = {batch} }}\n\
             train = {{ steps = 3, batch = {batch} }}\n\
             optimizer = {{ {optimizer} }}\n\
             memory = {{ {memory} }}\n"
        )
    }
}

fn short(settings: &str) -> String {
    let values = settings.split(", ").map(|setting| match setting.split_once(" = ") {
        Some(("name" | "kind", value)) => value.trim_matches('\'').to_owned(),
        Some((key, value)) => format!("{key} {}", value.trim_matches('\'')),
        None => setting.to_owned(),
    });
    values.collect::<Vec<_>>().join(" ")
}

const RESNET18: &str = "name = 'resnet18', stem = 'small'";
const RESNET18_WIDE: &str = "name = 'resnet18'";
const RESNET50: &str = "name = 'resnet50', stem = 'small'";
const RESNET50_WIDE: &str = "name = 'resnet50'";
const LSTM_128: &str = "name = 'lstm', hidden = 128";
const LSTM_256: &str = "name = 'lstm', hidden = 256";
const LSTM_2: &str = "name = 'lstm', hidden = 128, layers = 2, dropout = 0.2";
const OWN: &str = "name = 'own', hidden = 512";
const LANGUAGE: &str = "name = 'lstm-lm', hidden = 256";
const TIED: &str = "name = 'lstm-lm', hidden = 128, layers = 2, dropout = 0.2, tied = true";
const GRU_2: &str = "name = 'gru', hidden = 128, layers = 2, dropout = 0.2";
const GRU_TIED: &str = "name = 'gru-lm', hidden = 128, layers = 2, dropout = 0.2, tied = true";
const DECODER: &str = "name = 'gpt', layers = 2, hidden = 128, heads = 4";
const LLAMA: &str =
    "name = 'gpt', preset = 'llama', layers = 2, hidden = 128, heads = 4, key_heads = 2, dropout = 0.1";
const VISION: &str = "name = 'vit', layers = 2, patch = 8";
const PHOTO: &str = "kind = 'image', height = 32, width = 32";
const PHOTO_64: &str = "kind = 'image', height = 64, width = 64";
const PHOTO_160: &str = "kind = 'image', height = 160, width = 160";
const SERIES_16: &str = "kind = 'sequence', steps = 16, features = 32";
const SERIES_64: &str = "kind = 'sequence', steps = 64, features = 128";
const SERIES_160: &str = "kind = 'sequence', steps = 160, features = 64";
const TOKENS_64: &str = "kind = 'tokens', steps = 64, vocabulary = 70";
const WORDS_35: &str = "kind = 'tokens', steps = 35, vocabulary = 8000";
const SGD: &str = "name = 'sgd'";
const MOMENTUM: &str = "name = 'sgd', momentum = 0.9";
const ADAM: &str = "name = 'adam'";
const ADAMW: &str = "name = 'adamw', clip_global_norm = 1.0";
const RMSPROP: &str = "name = 'rmsprop'";
const CENTRED: &str = "name = 'rmsprop', centered = true, momentum = 0.9";
const ADAGRAD: &str = "name = 'adagrad'";
const AMSGRAD: &str = "name = 'adam', amsgrad = true";
const ADAN: &str = "name = 'adan'";
const LION: &str = "name = 'lion', weight_decay = 0.1";
const ADAFACTOR: &str = "name = 'adafactor'";

/// Settings of `[memory]`: each precision with each recomputation, lean and not.
const POLICIES: [&str; 17] = [
    "lean = false",
    "recompute = 'ops'",
    "lean = false, recompute = 'ops'",
    "recompute = 'stages'",
    "lean = false, recompute = 'stages'",
    "precision = 'bf16'",
    "precision = 'bf16', lean = false",
    "precision = 'bf16', recompute = 'ops'",
    "precision = 'bf16', lean = false, recompute = 'ops'",
    "precision = 'bf16', recompute = 'stages'",
    "precision = 'bf16', lean = false, recompute = 'stages'",
    "precision = 'fp16'",
    "precision = 'fp16', lean = false",
    "precision = 'fp16', recompute = 'ops'",
    "precision = 'fp16', recompute = 'stages'",
    "precision = 'fp16', lean = false, recompute = 'stages'",
    "precision = 'bf16', recompute = 'stages', micro_batch = 3",
];

/// Released gradients, alone and with each other lever.
const RELEASES: [&str; 11] = [
    "gradients = 'release'",
    "gradients = 'release', lean = false",
    "gradients = 'release', recompute = 'ops'",
    "gradients = 'release', recompute = 'stages'",
    "gradients = 'release', lean = false, recompute = 'stages'",
    "gradients = 'release', precision = 'bf16'",
    "gradients = 'release', precision = 'bf16', lean = false",
    "gradients = 'release', precision = 'bf16', recompute = 'ops'",
    "gradients = 'release', precision = 'bf16', recompute = 'stages'",
    "gradients = 'release', micro_batch = 3",
    "gradients = 'release', recompute = 'stages', micro_batch = 3",
];

/// The loss by chunks, alone and with each other lever.
const CHUNKS: [&str; 10] = [
    "loss_chunk = 128",
    "loss_chunk = 50, lean = false",
    "loss_chunk = 128, recompute = 'ops'",
    "loss_chunk = 128, recompute = 'stages'",
    "loss_chunk = 128, precision = 'bf16'",
    "loss_chunk = 128, precision = 'fp16'",
    "loss_chunk = 128, precision = 'bf16', recompute = 'stages'",
    "loss_chunk = 50, micro_batch = 3",
    "loss_chunk = 128, recompute = 'stages', offload = 'optimizer,activations'",
    "loss_chunk = 10000",
];

/// Packed optimizer state, with these settings of `[memory]`: alone, and with each other lever.
const BESIDE_STATE: [&str; 10] = [
    "",
    "lean = false",
    "recompute = 'ops'",
    "recompute = 'stages'",
    "precision = 'bf16'",
    "precision = 'bf16', recompute = 'stages'",
    "precision = 'fp16'",
    "micro_batch = 3",
    "gradients = 'release'",
    "gradients = 'release', recompute = 'stages'",
];
const ADAMW_BF16: &str = "name = 'adamw', state = 'bf16'";
const ADAMW_INT8: &str = "name = 'adamw', state = 'int8'";
const MOMENTUM_INT8: &str = "name = 'sgd', momentum = 0.9, state = 'int8'";
const LION_INT8: &str = "name = 'lion', state = 'int8'";
const MOMENTUM_BF16: &str = "name = 'sgd', momentum = 0.9, state = 'bf16'";
const LION_BF16: &str = "name = 'lion', state = 'bf16'";

/// State, and inputs of recomputed stages, in host memory: alone, and with each other lever.
const OFFLOADS: [&str; 12] = [
    "offload = 'optimizer'",
    "offload = 'optimizer', lean = false",
    "offload = 'optimizer', recompute = 'ops'",
    "offload = 'optimizer', recompute = 'stages'",
    "offload = 'optimizer', precision = 'bf16'",
    "offload = 'optimizer', gradients = 'release'",
    "offload = 'optimizer', micro_batch = 3",
    "offload = 'activations', recompute = 'stages'",
    "offload = 'activations', recompute = 'stages', precision = 'bf16'",
    "offload = 'activations', recompute = 'stages', micro_batch = 3",
    "offload = 'optimizer,activations', recompute = 'stages', gradients = 'release'",
    "offload = 'optimizer,activations', recompute = 'stages', lean = false, precision = 'fp16'",
];

/// All cases; the quick ones come first in each group.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |model, data, batches: &[usize], optimizers: &[&'static str]| {
        for &optimizer in optimizers {
            for &batch in batches {
                cases.push(Case { model, data, batch, optimizer, memory: "" });
            }
        }
    };
    add(RESNET18, PHOTO, &[1, 8, 32], &[SGD, MOMENTUM, ADAM]);
    add(RESNET18, PHOTO, &[128], &[MOMENTUM]);
    add(RESNET18, PHOTO, &[16], &[ADAMW, RMSPROP, CENTRED, ADAGRAD, ADAN, AMSGRAD, LION, ADAFACTOR]);
    add(RESNET18_WIDE, PHOTO_64, &[1, 16, 64], &[MOMENTUM, ADAMW]);
    add(RESNET50, PHOTO, &[1, 8, 16], &[SGD, ADAMW]);
    add(RESNET50_WIDE, PHOTO_160, &[1, 4], &[MOMENTUM]);
    add(RESNET50_WIDE, PHOTO_160, &[8], &[ADAM]);
    add(LSTM_128, SERIES_16, &[1, 16, 128], &[SGD, ADAM]);
    add(LSTM_256, SERIES_64, &[1, 8, 32, 128], &[MOMENTUM, ADAMW]);
    add(LSTM_2, SERIES_64, &[8, 64], &[ADAM, RMSPROP]);
    add("name = 'lstm', hidden = 128, layers = 3", SERIES_16, &[32], &[ADAGRAD, LION, ADAFACTOR]);
    add(LSTM_128, SERIES_160, &[1, 16, 64], &[ADAM]);
    add(LANGUAGE, TOKENS_64, &[1, 16, 64], &[SGD, ADAMW]);
    add(TIED, WORDS_35, &[4, 20], &[MOMENTUM, ADAM]);
    add(OWN, PHOTO, &[1, 16, 128], &[SGD, ADAM, ADAN]);
    add(OWN, PHOTO, &[1, 16], &[LION, ADAFACTOR]);
    let with = |model, data, batch, optimizer, memory| Case { model, data, batch, optimizer, memory };
    cases.extend([
        with(RESNET18, PHOTO, 32, MOMENTUM, "micro_batch = 8"),
        with(RESNET18, PHOTO, 30, ADAM, "micro_batch = 8"),
        with(RESNET50, PHOTO, 16, SGD, "micro_batch = 4"),
        with(LSTM_256, SERIES_64, 64, ADAMW, "micro_batch = 16"),
        with(LSTM_256, SERIES_64, 50, MOMENTUM, "micro_batch = 16"),
        with(OWN, PHOTO, 64, ADAM, "micro_batch = 16"),
    ]);
    cases.push(with(RESNET18, PHOTO, 32, MOMENTUM, "recompute = ['layer1', 'layer3.0']"));
    cases.push(with(RESNET18, PHOTO, 32, MOMENTUM, "recompute = 'auto', limit = '230MiB'"));
    // Every precision with every recomputation, lean and not.
    for memory in POLICIES {
        for batch in [4, 32] {
            cases.push(with(RESNET18, PHOTO, batch, MOMENTUM, memory));
            cases.push(with(LSTM_2, SERIES_64, batch, ADAM, memory));
        }
        cases.push(with(RESNET50_WIDE, PHOTO_160, 4, MOMENTUM, memory));
        cases.push(with(OWN, PHOTO, 16, ADAM, memory));
        cases.push(with(TIED, WORDS_35, 10, ADAM, memory));
    }
    for memory in RELEASES {
        cases.push(with(RESNET18, PHOTO, 4, MOMENTUM, memory));
        cases.push(with(RESNET50_WIDE, PHOTO_160, 4, ADAM, memory));
        cases.push(with(LSTM_2, SERIES_64, 4, ADAM, memory));
        cases.push(with(OWN, PHOTO, 16, ADAM, memory));
        cases.push(with(TIED, WORDS_35, 10, ADAM, memory));
    }
    for optimizer in [SGD, RMSPROP, CENTRED, ADAGRAD, AMSGRAD, ADAN, LION, ADAFACTOR] {
        cases.push(with(RESNET18, PHOTO, 4, optimizer, RELEASES[0]));
        cases.push(with(LSTM_256, SERIES_64, 4, optimizer, RELEASES[0]));
    }
    cases.extend(packed_state());
    cases.extend(offloaded());
    cases.extend(transformers());
    cases.extend(gated_units());
    cases.extend(chunked_losses());
    cases
}

/// Gated recurrent units, alone and with each lever.
fn gated_units() -> Vec<Case> {
    let with = |model, data, batch, optimizer, memory| Case { model, data, batch, optimizer, memory };
    let mut cases = Vec::new();
    for batch in [1, 16, 128] {
        cases.push(with("name = 'gru', hidden = 128", SERIES_16, batch, ADAM, ""));
        cases.push(with("name = 'gru', hidden = 256", SERIES_64, batch, MOMENTUM, ""));
    }
    for batch in [4, 20] {
        cases.push(with(GRU_TIED, WORDS_35, batch, ADAMW, ""));
    }
    cases.push(with("name = 'gru', hidden = 128", SERIES_160, 16, ADAM, ""));
    cases.push(with(GRU_2, SERIES_64, 50, MOMENTUM, "micro_batch = 16"));
    for memory in POLICIES {
        cases.push(with(GRU_2, SERIES_64, 4, ADAM, memory));
        cases.push(with(GRU_2, SERIES_64, 32, ADAM, memory));
        cases.push(with(GRU_TIED, WORDS_35, 10, ADAM, memory));
    }
    for memory in RELEASES {
        cases.push(with(GRU_2, SERIES_64, 4, ADAM, memory));
        cases.push(with(GRU_TIED, WORDS_35, 10, ADAM, memory));
    }
    for memory in BESIDE_STATE {
        cases.push(with(GRU_2, SERIES_16, 4, ADAMW_INT8, memory));
    }
    for memory in OFFLOADS {
        cases.push(with(GRU_TIED, WORDS_35, 10, LION, memory));
    }
    cases
}

/// Packed optimizer state beside the settings of `[memory]`.
fn packed_state() -> Vec<Case> {
    let with = |model, data, batch, optimizer, memory| Case { model, data, batch, optimizer, memory };
    let mut cases = Vec::new();
    for optimizer in [ADAMW_BF16, ADAMW_INT8] {
        for memory in BESIDE_STATE {
            cases.push(with(RESNET18_WIDE, PHOTO, 6, optimizer, memory));
            cases.push(with(LSTM_256, SERIES_16, 4, optimizer, memory));
            cases.push(with(TIED, WORDS_35, 10, optimizer, memory));
        }
    }
    for optimizer in [MOMENTUM_BF16, MOMENTUM_INT8, LION_BF16, LION_INT8] {
        for memory in ["", RELEASES[0]] {
            cases.push(with(RESNET18, PHOTO, 4, optimizer, memory));
            cases.push(with(LSTM_256, SERIES_64, 4, optimizer, memory));
        }
    }
    cases
}

/// Transformers, alone and with each lever.
fn transformers() -> Vec<Case> {
    let with = |model, data, batch, optimizer, memory| Case { model, data, batch, optimizer, memory };
    let mut cases = Vec::new();
    for (model, data) in [(DECODER, TOKENS_64), (LLAMA, TOKENS_64), (VISION, PHOTO_64)] {
        for batch in [1, 16] {
            cases.extend([MOMENTUM, ADAMW].map(|optimizer| with(model, data, batch, optimizer, "")));
        }
        cases.push(with(model, data, 16, ADAM, "micro_batch = 4"));
    }
    for memory in POLICIES {
        cases.push(with(DECODER, TOKENS_64, 8, ADAM, memory));
        cases.push(with(VISION, PHOTO_64, 8, MOMENTUM, memory));
    }
    for memory in RELEASES {
        cases.push(with(LLAMA, TOKENS_64, 8, ADAM, memory));
        cases.push(with(VISION, PHOTO_64, 8, ADAM, memory));
    }
    for memory in BESIDE_STATE {
        cases.push(with(DECODER, TOKENS_64, 8, ADAMW_INT8, memory));
    }
    for memory in OFFLOADS {
        cases.push(with(LLAMA, TOKENS_64, 8, ADAM, memory));
    }
    cases
}

/// The loss by chunks of tokens, with each other lever.
fn chunked_losses() -> Vec<Case> {
    let with = |model, data, batch, optimizer, memory| Case { model, data, batch, optimizer, memory };
    let beside = CHUNKS.into_iter().map(|memory| with(DECODER, WORDS_35, 16, ADAMW, memory));
    let of_others = [(GRU_TIED, ADAM), (LANGUAGE, ADAMW_INT8), (LLAMA, LION)];
    let of_others = of_others.into_iter().flat_map(|(model, optimizer)| {
        [CHUNKS[0], CHUNKS[3], CHUNKS[8], "loss_chunk = 128, gradients = 'release'"]
            .map(|memory| with(model, WORDS_35, 10, optimizer, memory))
    });
    beside.chain(of_others).collect()
}

/// Bytes in host memory beside the other settings.
fn offloaded() -> Vec<Case> {
    let with = |model, data, batch, optimizer, memory| Case { model, data, batch, optimizer, memory };
    let mut cases = Vec::new();
    for memory in OFFLOADS {
        cases.push(with(RESNET18_WIDE, PHOTO, 6, ADAM, memory));
        cases.push(with(RESNET50_WIDE, PHOTO_160, 4, MOMENTUM, memory));
        cases.push(with(LSTM_256, SERIES_16, 4, ADAM, memory));
        cases.push(with(TIED, WORDS_35, 10, LION, memory));
    }
    for optimizer in [ADAMW_INT8, ADAMW_BF16, LION_INT8, MOMENTUM_BF16] {
        for memory in [OFFLOADS[0], OFFLOADS[10]] {
            cases.push(with(RESNET18_WIDE, PHOTO, 6, optimizer, memory));
            cases.push(with(LSTM_256, SERIES_16, 4, optimizer, memory));
        }
    }
    cases
}

/// A few quick cases that differ from each other. Every test run checks them.
#[allow(dead_code)] // The tool runs all, the test these.
pub(crate) fn sample() -> Vec<Case> {
    let quick = |model, data, batch, memory, optimizer| Case { model, data, batch, optimizer, memory };
    vec![
        quick(RESNET18, PHOTO, 8, "", MOMENTUM),
        quick(RESNET18, PHOTO, 10, "micro_batch = 4", ADAM),
        quick(RESNET18_WIDE, PHOTO_64, 4, "", SGD),
        quick(RESNET50, PHOTO, 4, "", ADAMW),
        quick(LSTM_2, SERIES_64, 16, "", ADAM),
        quick(LSTM_256, SERIES_16, 32, "micro_batch = 12", RMSPROP),
        quick(OWN, PHOTO, 16, "", ADAN),
        quick(RESNET18, PHOTO, 4, "", CENTRED),
        quick("name = 'lstm', hidden = 4", SERIES_64, 64, "", AMSGRAD),
        quick(RESNET18, PHOTO, 4, "", LION),
        quick(RESNET18, PHOTO, 4, "", ADAFACTOR),
        quick(LSTM_256, SERIES_16, 1, "", LION),
        quick(LSTM_256, SERIES_16, 1, "", ADAFACTOR),
        quick(LANGUAGE, TOKENS_64, 16, "", ADAMW),
        quick(TIED, WORDS_35, 8, "micro_batch = 3", ADAM),
        quick(TIED, WORDS_35, 8, "precision = 'bf16', recompute = 'stages'", MOMENTUM),
        quick(TIED, WORDS_35, 8, "lean = false, recompute = 'ops'", ADAM),
        quick(TIED, WORDS_35, 8, "precision = 'fp16', recompute = 'ops'", MOMENTUM),
        quick(RESNET18, PHOTO, 8, "lean = false", MOMENTUM),
        quick(RESNET18, PHOTO, 8, "recompute = 'stages'", MOMENTUM),
        quick(RESNET18, PHOTO, 8, "lean = false, recompute = 'ops'", SGD),
        quick(
            RESNET50_WIDE,
            PHOTO_64,
            6,
            "precision = 'bf16', recompute = 'stages', micro_batch = 4",
            MOMENTUM,
        ),
        quick(RESNET18, PHOTO, 8, "precision = 'fp16', lean = false", SGD),
        quick(LSTM_2, SERIES_64, 16, "recompute = 'stages'", ADAM),
        quick(LSTM_2, SERIES_64, 16, "precision = 'bf16'", ADAM),
        quick(LSTM_128, SERIES_64, 16, "lean = false, precision = 'bf16'", ADAM),
        quick(OWN, PHOTO, 16, "precision = 'bf16', recompute = 'stages'", ADAM),
        quick(RESNET18, PHOTO, 4, RELEASES[0], ADAM),
        quick(RESNET18, PHOTO, 4, RELEASES[3], LION),
        quick(LSTM_256, SERIES_16, 1, RELEASES[0], MOMENTUM),
        quick(TIED, WORDS_35, 8, RELEASES[10], ADAM),
        quick(OWN, PHOTO, 16, RELEASES[5], SGD),
        quick(GRU_2, SERIES_64, 16, "", ADAM),
        quick(GRU_2, SERIES_64, 16, "precision = 'bf16', recompute = 'stages'", MOMENTUM),
        quick(GRU_2, SERIES_64, 16, "lean = false, precision = 'fp16'", ADAM),
        quick(GRU_TIED, WORDS_35, 8, "micro_batch = 3", ADAM),
        quick(GRU_TIED, WORDS_35, 8, RELEASES[10], ADAM),
        quick(DECODER, TOKENS_64, 8, "", ADAM),
        quick(LLAMA, TOKENS_64, 8, "micro_batch = 3, recompute = 'stages'", ADAMW),
        quick(VISION, PHOTO_64, 8, "lean = false", MOMENTUM),
        quick(RESNET18, PHOTO, 4, RELEASES[0], ADAMW_INT8),
        quick(LSTM_256, SERIES_16, 4, "", ADAMW_BF16),
        quick(RESNET18, PHOTO, 4, OFFLOADS[0], ADAM),
        quick(LSTM_256, SERIES_16, 4, OFFLOADS[10], ADAMW_INT8),
    ]
}
