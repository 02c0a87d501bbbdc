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
    check_levers(DECODER);
}

#[test]
fn gated_units_train_the_same_bits_with_levers_that_change_no_sum() {
    check_levers(GRU);
}

fn check_levers(config: &'static str) {
    let runs = Runs::new(config);
    for (name, dropout) in [("plain", ""), ("dropout", "model.dropout = 0.2\n")] {
        let plain = runs.trained(name, STEPS, dropout);
        let levers = [
            ("recompute", "memory.recompute = 'stages'"),
            ("release", "memory.gradients = 'release'\nmemory.recompute = 'stages'"),
            ("offload", "memory.offload = ['optimizer']"),
            ("model", "device = { devices = ['cpu', 'cpu'], strategy = 'model' }"),
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
        ("ddp", "device.devices = ['cpu', 'cpu']"),
        // 20 samples are 6, 7 and 7 for each rank, in micro-batches of 3, 3 and 0 or 1: the loss is the mean over all tokens.
        ("uneven", "memory.micro_batch = 3\ndevice.devices = ['cpu', 'cpu', 'cpu']"),
        ("shard", "device = { devices = ['cpu', 'cpu', 'cpu'], shard = 'parameters' }"),
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
