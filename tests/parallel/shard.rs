//! What is sharded over ranks: the training is that of `ddp`.

use oomph::runs::state::Checkpoint;

use crate::support::{LANGUAGE, LSTM, RESNET, Runs, State};

const LEVELS: [&str; 3] = ["optimizer", "gradients", "parameters"];

fn on(ranks: usize) -> String {
    format!("device.devices = '{}'\ndevice.strategy = 'ddp'\n", vec!["cpu"; ranks].join(","))
}

fn shard(level: &str) -> String {
    format!("device.shard = '{level}'\n")
}

/// Trains 20 steps with everything on every rank, and with each level of shards.
#[track_caller]
fn check(runs: &Runs, name: &str, ranks: usize, more: &str, tolerance: f64) -> State {
    let more = on(ranks) + more;
    let plain = runs.trained(&format!("{name}-ddp"), 20, &more);
    for level in LEVELS {
        let name = format!("{name}-{level}");
        let tolerance = if level == "optimizer" { 0.0 } else { tolerance };
        runs.trained(&name, 20, &(shard(level) + &more)).check(&plain, tolerance, &name);
    }
    plain
}

#[test]
fn sums_in_the_same_order_give_the_same_bits() {
    let runs = Runs::new(RESNET);
    for ranks in [2, 3, 4] {
        check(&runs, &format!("{ranks}"), ranks, "", 0.0);
    }
    check(&runs, "buckets", 3, "device.bucket = 1000\n", 0.0);
}

#[test]
fn each_optimizer_steps_its_shards() {
    let recipe = "model = { name = 'resnet18', stem = 'small', width = 8 }
        data = { source = 'digits', workers = 0, last_batch = 'drop' }
        train.eval_every = '10 steps'\ntrain.seed = 7\n";
    let runs = Runs::new(recipe);
    for optimizer in
        ["adam', amsgrad = true", "adamw'", "rmsprop', centered = true", "adagrad'", "adan'", "lion'"]
    {
        let chosen = format!("optimizer = {{ name = '{optimizer}, lr = 1e-3 }}\n");
        check(&runs, optimizer.split('\'').next().unwrap_or(optimizer), 2, &chosen, 0.0);
    }
    let decay = "weight_decay = 0.5, weight_decay_on = 'matrices'";
    check(&runs, "decay", 2, &format!("optimizer = {{ name = 'adamw', lr = 1e-3, {decay} }}\n"), 0.0);
    // Blocks of 8-bit state do not depend on the number of ranks.
    check(&runs, "int8", 3, "optimizer = { name = 'adamw', lr = 1e-3, state = 'int8' }\n", 0.0);
}

#[test]
fn each_policy_goes_together_with_it() {
    let runs = Runs::new(RESNET);
    for (name, policy, tolerance) in [
        ("recompute", "memory.recompute = 'stages'\n", 0.0),
        ("some", "memory.recompute = ['layer2', 'layer4']\n", 0.0),
        ("release", "memory.gradients = 'release'\ndevice.bucket = 1000\n", 0.0),
        ("frozen", "model.freeze = ['stem', 'layer1', 'layer3']\n", 0.0),
        ("bf16", "memory.precision = 'bf16'\n", 0.0),
        ("fp16", "memory.precision = 'fp16'\n", 0.0),
        ("offload", "memory.offload = ['optimizer', 'activations']\nmemory.recompute = 'stages'\n", 0.0),
        ("average", "train.ema = 0.9\n", 0.0),
        ("value", "optimizer.clip_value = 0.001\n", 0.0),
        ("statistics", "device.sync_batch_norm = true\n", 0.0),
    ] {
        check(&runs, name, 2, policy, tolerance);
    }
    let runs = Runs::new(LANGUAGE);
    // The head borrows the embedding's weights.
    check(&runs, "tied", 2, "model.tied = true\n", 0.0);
    check(
        &runs,
        "tied-recompute",
        2,
        "model.tied = true\nmemory.recompute = 'stages'\nmemory.micro_batch = 5\n",
        1e-6,
    );
    // The global norm is summed over ranks. Sums of micro-batches are in another order.
    let runs = Runs::new(LSTM);
    check(&runs, "clipped", 3, "", 1e-6);
    check(&runs, "micro", 3, "memory.micro_batch = 2\n", 1e-6);
    let recipe = LSTM.replace("clip_global_norm", "clip_norm");
    let release = "memory.gradients = 'release'\nmemory.micro_batch = 3\n";
    check(&Runs::new(recipe.leak()), "release-micro", 2, release, 1e-6);
}

#[test]
fn ranks_without_rows_take_part() {
    let recipe = LSTM.replace(", clip_global_norm = 1.0", "");
    let runs = Runs::new(recipe.leak());
    // 1,438 samples are 3 batches of 479 and one sample, which rank 3 has.
    check(&runs, "empty", 4, "train.batch = 479\ndevice.bucket = 1000\n", 0.0);
    // Ranks have 119 or 120 samples: one more micro-batch on some.
    check(
        &runs,
        "uneven",
        4,
        "train.batch = 479\nmemory.micro_batch = 119\nmemory.recompute = 'stages'\n",
        1e-6,
    );
}

#[test]
fn a_checkpoint_is_whole_and_resumes_on_any_number_of_ranks() {
    let recipe = RESNET
        .replace("optimizer.name = 'sgd'", "optimizer.name = 'adamw'")
        .replace("optimizer.momentum = 0.9", "");
    let runs = Runs::new(recipe.leak());
    let state = |name: &str| {
        let found = Checkpoint::find(&runs.path(name)).expect("a checkpoint");
        found.checkpoint.state().expect("a state").optimizer
    };
    for format in ["fp32", "int8"] {
        let settings = |ranks| format!("{}optimizer.state = '{format}'\ntrain.ema = 0.9\n", on(ranks));
        let name = |what: &str| format!("{format}-{what}");
        let whole = runs.trained(&name("whole"), 10, &settings(4));
        for level in LEVELS {
            let own = name(level);
            runs.trained(&own, 4, &(settings(4) + &shard(level)));
            runs.resumed(&own, 10, &(settings(4) + &shard(level))).check(&whole, 0.0, &own);
            assert_eq!(state(&own), state(&name("whole")), "{own}");
        }
        // Batch normalisation sees other micro-batches on other numbers of ranks: all go on with those of the same number.
        for (from, to) in [("parameters", "none"), ("none", "parameters"), ("optimizer", "gradients")] {
            let own = name(&format!("{from}-{to}"));
            runs.trained(&own, 4, &(settings(2) + &shard(from)));
            let right = name(&format!("{from}-{to}-plain"));
            runs.trained(&right, 4, &settings(2));
            let right = runs.resumed(&right, 10, &settings(3));
            runs.resumed_with(&own, 10, &(settings(3) + &shard(to))).check(&right, 0.0, &own);
        }
    }
}

#[test]
fn norms_are_those_of_whole_gradients_and_parameters() {
    let runs = Runs::new(RESNET);
    let norms = |name: &str| -> Vec<[f64; 2]> {
        let log = std::fs::read_to_string(runs.path(name).join("metrics.jsonl")).expect("a log");
        let steps = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect(line));
        let steps = steps.filter(|event| event["event"] == "step");
        steps
            .map(|step| ["gradient_norm", "parameter_norm"].map(|key| step[key].as_f64().expect(key)))
            .collect()
    };
    let more = on(3) + "run.log_every = 5\n";
    runs.trained("plain", 10, &more);
    let right = norms("plain");
    assert!(!right.is_empty());
    for level in LEVELS {
        runs.trained(level, 10, &(shard(level) + &more));
        for (own, right) in norms(level).into_iter().flatten().zip(right.iter().flatten()) {
            assert!((own / right - 1.0).abs() < 1e-6, "{level}: {own}, not {right}");
        }
    }
}
