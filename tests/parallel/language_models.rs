//! Language models train the same weights with every lever and strategy: a decoder, and one of gated recurrent units.

use crate::support::Runs;

/// The gradient of the keys' bias is 0 but for rounding: a large epsilon keeps its step small.
const DECODER: &str = "
    model.name = 'gpt'
    model.layers = 3
    model.hidden = 24
    model.heads = 4
    model.key_heads = 2
    model.tied = false
    data = { source = 'synthetic', kind = 'tokens', vocabulary = 30, steps = 70, carry = false, train_samples = 200, \
      test_samples = 20, workers = 0 }
    train.eval_every = '10 steps'
    train.seed = 5
    optimizer.name = 'adamw'
    optimizer.lr = 1e-3
    optimizer.epsilon = 1e-4
    ";

/// Its state is carried from batch to batch.
const GRU: &str = "
    model.name = 'gru-lm'
    model.layers = 3
    model.hidden = 24
    data = { source = 'synthetic', kind = 'tokens', vocabulary = 30, steps = 20, train_samples = 200, test_samples = 20, \
      workers = 0 }
    train.eval_every = '10 steps'
    train.seed = 5
    optimizer.name = 'adamw'
    optimizer.lr = 1e-3
    optimizer.epsilon = 1e-4
    ";

/// A text in windows that each epoch shifts: 4 epochs of 4 batches of 20 samples and one of 13. [`with_text`] writes it.
const TEXT: &str = "
    model.name = 'gpt'
    model.layers = 2
    model.hidden = 24
    model.heads = 4
    model.tied = false
    data.source = 'text'
    data.path = 'PATH'
    data.steps = 16
    data.carry = false
    data.workers = 0
    train.eval_every = '10 steps'
    train.seed = 5
    optimizer.name = 'adamw'
    optimizer.lr = 1e-3
    optimizer.epsilon = 1e-4
    ";

const STEPS: usize = 20;

/// A folder with the text of [`TEXT`], and the configuration.
fn with_text() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("text.txt");
    let words: String = (0..600u32).map(|word| format!("{} ", word * word % 97)).collect();
    std::fs::write(&path, &words[..1_670]).expect("written");
    (folder, TEXT.replace("PATH", &path.display().to_string()))
}

#[test]
fn a_decoder_trains_the_same_bits_with_levers_that_change_no_sum() {
    check_levers(DECODER, "");
}

#[test]
fn gated_units_train_the_same_bits_with_levers_that_change_no_sum() {
    // A device with the embedding alone would look the vectors of all tokens up; with a layer behind it, it multiplies each token once.
    check_levers(GRU, ", split_points = ['gru.1']");
}

/// `split`: more of `[device]` where the model is split.
fn check_levers(config: &'static str, split: &str) {
    let runs = Runs::new(config);
    for (name, dropout) in [("plain", ""), ("dropout", "model.dropout = 0.2\n")] {
        let plain = runs.trained(name, STEPS, dropout);
        let levers = [
            ("recompute", "memory.recompute = 'stages'"),
            ("release", "memory.gradients = 'release'\nmemory.recompute = 'stages'"),
            ("offload", "memory.offload = ['optimizer']"),
            ("one chunk", "memory.loss_chunk = 10_000"),
            ("model", &*format!("device = {{ devices = ['cpu', 'cpu'], strategy = 'model'{split} }}")),
        ];
        for (lever, more) in levers {
            let state = runs.trained(&format!("{name}-{lever}"), STEPS, &format!("{dropout}{more}\n"));
            state.check(&plain, 0.0, &format!("{name} {lever}"));
        }
    }
}

#[test]
fn a_decoder_trains_the_same_weights_on_several_devices() {
    check_strategies(DECODER);
}

#[test]
fn gated_units_train_the_same_weights_on_several_devices() {
    check_strategies(GRU);
}

fn check_strategies(config: &str) {
    let runs = Runs::new(config);
    let plain = runs.trained("plain", STEPS, "");
    let strategies = [
        ("micro-batches", "memory.micro_batch = 5"),
        ("chunks", "memory.loss_chunk = 37"),
        ("chunks of composed layers", "memory = { loss_chunk = 150, lean = false }"),
        (
            "released chunks",
            "memory = { loss_chunk = 64, micro_batch = 7, gradients = 'release', recompute = 'stages' }",
        ),
        ("ddp", "device.devices = ['cpu', 'cpu']"),
        // 20 samples are 6, 7 and 7 for each rank, in micro-batches of 3, 3 and 0 or 1: the loss is the mean over all tokens.
        ("uneven", "memory.micro_batch = 3\ndevice.devices = ['cpu', 'cpu', 'cpu']"),
        ("shard", "device = { devices = ['cpu', 'cpu', 'cpu'], shard = 'parameters' }"),
        ("chunks of replicas", "device.devices = ['cpu', 'cpu']\nmemory.loss_chunk = 37"),
        (
            "chunks of shards",
            "device = { devices = ['cpu', 'cpu', 'cpu'], shard = 'parameters' }\nmemory.loss_chunk = 37",
        ),
        (
            "chunks of a pipeline",
            "memory = { micro_batch = 4, loss_chunk = 37 }\n\
             device = { devices = ['cpu', 'cpu'], strategy = 'pipeline' }",
        ),
        ("pipeline", "memory.micro_batch = 4\ndevice = { devices = ['cpu', 'cpu'], strategy = 'pipeline' }"),
    ];
    for (name, more) in strategies {
        runs.trained(name, STEPS, &format!("{more}\n")).check(&plain, 1e-5, name);
    }
}

#[test]
fn shifted_windows_are_the_same_on_several_devices() {
    let (_folder, config) = with_text();
    check_strategies(&config);
    let runs = Runs::new(&config);
    let [shifted, fixed] = ["shifted", "fixed"]
        .map(|windows| runs.trained(windows, STEPS, &format!("data.windows = '{windows}'\n")));
    assert_ne!(shifted.tensors, fixed.tensors);
}

#[test]
fn a_resumed_training_ends_with_the_same_bytes() {
    let (_folder, text) = with_text();
    for config in [DECODER, GRU, &text] {
        let runs = Runs::new(config);
        let more = "model.dropout = 0.2\noptimizer.state = 'int8'\n";
        let plain = runs.trained("plain", STEPS, more);
        runs.trained("resumed", STEPS / 2, more);
        runs.resumed("resumed", STEPS, more).check(&plain, 0.0, "resumed");
    }
}

/// The losses of evaluations and steps, and what counts as correct, are those of all chunks.
#[test]
fn chunks_have_the_losses_of_the_whole() {
    for config in [DECODER, GRU] {
        let runs = Runs::new(config);
        let logged = |name: &str, more: &str| {
            runs.trained(name, STEPS, &format!("run.log_every = 1\n{more}"));
            numbers(&runs, name)
        };
        let whole = logged("whole", "");
        assert!(whole.len() > 2 * STEPS, "steps and evaluations have losses and accuracies: {whole:?}");
        let chunks = logged("chunks", "memory.loss_chunk = 37\n");
        assert_eq!(whole.len(), chunks.len());
        for (whole, chunks) in whole.iter().zip(&chunks) {
            assert!((whole - chunks).abs() < 1e-5 * whole.abs().max(1e-2), "{whole} became {chunks}");
        }
    }
}

/// The losses and accuracies in the log of a run.
fn numbers(runs: &Runs, name: &str) -> Vec<f64> {
    let log = std::fs::read_to_string(runs.path(name).join("metrics.jsonl")).expect("a log");
    let events = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect(line));
    let of = |event: serde_json::Value| {
        ["loss", "accuracy", "eval_loss", "eval_accuracy"].map(|key| event[key].as_f64())
    };
    events
        .filter(|event| event["event"] == "step" || event["event"] == "eval")
        .flat_map(of)
        .flatten()
        .collect()
}

#[test]
fn half_precision_scales_the_loss_of_each_chunk() {
    let runs = Runs::new(DECODER);
    let half =
        |name: &str, more: &str| runs.trained(name, STEPS, &format!("memory.precision = 'fp16'\n{more}"));
    let whole = half("half", "");
    // Sums are rounded to 11 bits in another order.
    half("half-chunks", "memory.loss_chunk = 37\n").check(&whole, 1e-3, "fp16");
}
