//! Gradients that are released in backward: every bit is that of a training which keeps them.

use crate::support::{LANGUAGE, LSTM, RESNET, Runs, State};

const RELEASE: &str = "memory.gradients = 'release'\n";

fn on(strategy: &str, devices: usize) -> String {
    format!("device.devices = '{}'\ndevice.strategy = '{strategy}'\n", vec!["cpu"; devices].join(","))
}

/// Trains with the gradients kept and released.
#[track_caller]
fn check(runs: &Runs, name: &str, more: &str) -> State {
    let kept = runs.trained(&format!("{name}-kept"), 10, more);
    let released = runs.trained(&format!("{name}-released"), 10, &(RELEASE.to_owned() + more));
    released.check(&kept, 0.0, &format!("{name}: {more}"));
    kept
}

#[test]
fn every_optimizer_takes_the_same_steps() {
    let runs = Runs::new(RESNET);
    let optimizers = ["adam", "adamw", "rmsprop", "adagrad", "adan", "lion", "adafactor"];
    let plain = check(&runs, "sgd", "");
    for optimizer in optimizers {
        let chosen = format!("optimizer = {{ name = '{optimizer}', lr = 1e-3 }}\n");
        let recipe = "model = { name = 'resnet18', stem = 'small', width = 8 }
            data = { source = 'digits', workers = 0, last_batch = 'drop' }
            train.eval_every = '10 steps'\ntrain.seed = 7\n";
        let own = Runs::new(recipe);
        let other = check(&own, optimizer, &chosen);
        assert_ne!(other.tensors, plain.tensors, "{optimizer}");
    }
    for clip in ["clip_norm = 0.01", "clip_value = 0.001"] {
        let clipped = check(&runs, clip, &format!("optimizer.{clip}\n"));
        assert_ne!(clipped.tensors, plain.tensors, "{clip}");
    }
}

#[test]
fn each_policy_goes_together_with_it() {
    let runs = Runs::new(RESNET);
    for (name, policy) in [
        ("micro", "memory.micro_batch = 6\n"),
        ("recompute", "memory.recompute = 'stages'\n"),
        ("some", "memory.recompute = ['layer2', 'layer4']\nmemory.micro_batch = 6\n"),
        ("ops", "memory.recompute = 'ops'\n"),
        ("frozen", "model.freeze = ['stem', 'layer1', 'layer3']\n"),
        ("burn", "memory.lean = false\n"),
        ("bf16", "memory.precision = 'bf16'\n"),
        ("average", "train.ema = 0.9\n"),
    ] {
        check(&runs, name, policy);
    }
    let runs = Runs::new(LANGUAGE);
    // The embedding gets gradients of two stages.
    let tied = "model.tied = true\n";
    check(&runs, "tied", tied);
    check(&runs, "tied-recompute", &format!("{tied}memory.recompute = 'stages'\nmemory.micro_batch = 5\n"));
}

#[test]
fn each_strategy_but_dp_goes_together_with_it() {
    let recipe = LSTM.replace(", clip_global_norm = 1.0", ", clip_norm = 1.0");
    let runs = Runs::new(recipe.leak());
    for (strategy, devices) in [("ddp", 3), ("model", 2), ("pipeline", 3)] {
        let more = on(strategy, devices);
        check(&runs, strategy, &more);
        let micro = format!("{more}memory.micro_batch = 3\nmemory.recompute = 'stages'\n");
        check(&runs, &format!("{strategy}-micro"), &micro);
    }
    // Many buckets; and ranks that have no sample of the last batch: 1,438 samples are 71 batches and 18 samples.
    check(&runs, "buckets", &(on("ddp", 3) + "device.bucket = 1000\n"));
    check(&runs, "empty", &(on("ddp", 4) + "device.bucket = 1000\ntrain.batch = 479\n"));
}

#[test]
fn a_training_resumes_with_the_gradients_kept_or_released() {
    let runs = Runs::new(RESNET);
    let whole = runs.trained("whole", 12, "");
    runs.trained("changing", 5, RELEASE);
    runs.resumed("changing", 9, "");
    runs.resumed("changing", 12, RELEASE).check(&whole, 0.0, "resumed");
}
