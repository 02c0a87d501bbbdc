//! What is planned and measured.

/// One training to plan and to measure.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The model with its settings, as in `[model]`.
    pub(crate) model: &'static str,
    /// The data's shape, as in `[data]`.
    pub(crate) data: &'static str,
    /// Samples of an optimizer step.
    pub(crate) batch: usize,
    /// Samples of a forward-backward, where that is less.
    pub(crate) micro_batch: Option<usize>,
    /// As in `[optimizer]`.
    pub(crate) optimizer: &'static str,
    /// As in `[memory]`, beside the micro-batch.
    pub(crate) memory: &'static str,
}

impl Case {
    /// For a row of a table.
    pub(crate) fn label(&self) -> [String; 4] {
        let batch = match self.micro_batch {
            Some(micro_batch) => format!("{} by {micro_batch}", self.batch),
            None => self.batch.to_string(),
        };
        let memory = if self.memory.is_empty() { String::new() } else { format!(", {}", short(self.memory)) };
        [short(self.model) + &memory, short(self.data), batch, short(self.optimizer)]
    }

    /// The configuration.
    pub(crate) fn config(&self) -> String {
        let Self { model, data, batch, optimizer, memory, .. } = self;
        let micro_batch = self.micro_batch.map(|size| format!("micro_batch = {size}, ")).unwrap_or_default();
        let samples = 3 * batch;
        format!(
            "model = {{ {model} }}\n\
             data = {{ source = 'synthetic', {data}, workers = 0, train_samples = {samples}, test_samples = {batch} }}\n\
             train = {{ steps = 3, batch = {batch} }}\n\
             optimizer = {{ {optimizer} }}\n\
             memory = {{ {micro_batch}{memory} }}\n"
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
const OWN: &str = "name = 'own', hidden = 512";
const PHOTO: &str = "kind = 'image', height = 32, width = 32";
const PHOTO_64: &str = "kind = 'image', height = 64, width = 64";
const PHOTO_160: &str = "kind = 'image', height = 160, width = 160";
const SERIES_16: &str = "kind = 'sequence', steps = 16, features = 32";
const SERIES_64: &str = "kind = 'sequence', steps = 64, features = 128";
const SERIES_160: &str = "kind = 'sequence', steps = 160, features = 64";
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
const LSTM_DROPPING: &str = "name = 'lstm', hidden = 128, layers = 2, dropout = 0.2";
const NOT_LEAN: &str = "lean = false";
const STAGES: &str = "recompute = 'stages'";
const BF16: &str = "precision = 'bf16'";
const BF16_STAGES: &str = "precision = 'bf16', recompute = 'stages'";
const BF16_NOT_LEAN: &str = "precision = 'bf16', lean = false";

/// All cases, the quick ones first in each group.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |model, data, batches: &[usize], optimizers: &[&'static str]| {
        for &optimizer in optimizers {
            for &batch in batches {
                cases.push(Case { model, data, batch, micro_batch: None, optimizer, memory: "" });
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
    add("name = 'lstm', hidden = 128", SERIES_16, &[1, 16, 128], &[SGD, ADAM]);
    add("name = 'lstm', hidden = 256", SERIES_64, &[1, 8, 32, 128], &[MOMENTUM, ADAMW]);
    add(LSTM_DROPPING, SERIES_64, &[8, 64], &[ADAM, RMSPROP]);
    add("name = 'lstm', hidden = 128, layers = 3", SERIES_16, &[32], &[ADAGRAD, LION, ADAFACTOR]);
    add("name = 'lstm', hidden = 128", SERIES_160, &[1, 16, 64], &[ADAM]);
    add(OWN, PHOTO, &[1, 16, 128], &[SGD, ADAM, ADAN]);
    add(OWN, PHOTO, &[1, 16], &[LION, ADAFACTOR]);
    let parts = |model, data, batch, micro_batch, optimizer| Case {
        model,
        data,
        batch,
        micro_batch: Some(micro_batch),
        optimizer,
        memory: "",
    };
    cases.extend([
        parts(RESNET18, PHOTO, 32, 8, MOMENTUM),
        parts(RESNET18, PHOTO, 30, 8, ADAM),
        parts(RESNET50, PHOTO, 16, 4, SGD),
        parts("name = 'lstm', hidden = 256", SERIES_64, 64, 16, ADAMW),
        parts("name = 'lstm', hidden = 256", SERIES_64, 50, 16, MOMENTUM),
        parts(OWN, PHOTO, 64, 16, ADAM),
    ]);
    for memory in [NOT_LEAN, STAGES, "lean = false, recompute = 'stages'", BF16, BF16_STAGES, BF16_NOT_LEAN] {
        let with =
            |model, data, batch, optimizer| Case { model, data, batch, micro_batch: None, optimizer, memory };
        cases.extend([
            with("name = 'lstm', hidden = 256", SERIES_64, 1, MOMENTUM),
            with("name = 'lstm', hidden = 128", SERIES_160, 16, ADAM),
            with(LSTM_DROPPING, SERIES_64, 8, ADAM),
            with(LSTM_DROPPING, SERIES_64, 64, RMSPROP),
        ]);
    }
    cases
}

/// A few that are quick and unlike each other: what every test run checks.
#[allow(dead_code)] // The tool runs all, the test these.
pub(crate) fn sample() -> Vec<Case> {
    let quick = |model, data, batch, micro_batch, optimizer| Case {
        model,
        data,
        batch,
        micro_batch,
        optimizer,
        memory: "",
    };
    let lstm = |memory| Case { memory, ..quick(LSTM_DROPPING, SERIES_64, 16, None, ADAM) };
    vec![
        quick(RESNET18, PHOTO, 8, None, MOMENTUM),
        quick(RESNET18, PHOTO, 10, Some(4), ADAM),
        quick(RESNET18_WIDE, PHOTO_64, 4, None, SGD),
        quick(RESNET50, PHOTO, 4, None, ADAMW),
        lstm(""),
        lstm(NOT_LEAN),
        lstm(STAGES),
        lstm(BF16_STAGES),
        quick("name = 'lstm', hidden = 256", SERIES_16, 32, Some(12), RMSPROP),
        quick(OWN, PHOTO, 16, None, ADAN),
        quick(RESNET18, PHOTO, 4, None, CENTRED),
        quick("name = 'lstm', hidden = 4", SERIES_64, 64, None, AMSGRAD),
        quick(RESNET18, PHOTO, 4, None, LION),
        quick(RESNET18, PHOTO, 4, None, ADAFACTOR),
        quick("name = 'lstm', hidden = 256", SERIES_16, 1, None, LION),
        quick("name = 'lstm', hidden = 256", SERIES_16, 1, None, ADAFACTOR),
    ]
}
