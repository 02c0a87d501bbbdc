//! Averages of the weights, with every strategy.

use crate::support::{LSTM, RESNET, Runs};

/// Sums over samples are made in another order; 20 steps carry that on.
const TOLERANCE: f64 = 1e-5;

const AVERAGED: &str = "train.ema = 0.9\n";

fn on(strategy: &str, devices: usize) -> String {
    format!(
        "{AVERAGED}device.devices = '{}'\ndevice.strategy = '{strategy}'\n",
        vec!["cpu"; devices].join(",")
    )
}

#[test]
fn every_strategy_averages_and_evaluates_the_same_weights() {
    let runs = Runs::new(LSTM);
    let alone = runs.trained("alone", 20, AVERAGED);
    let average = "average head.fc.weight";
    assert!(alone.tensors.contains_key(average), "{:?}", alone.tensors.keys());
    assert_ne!(alone.tensors[average], alone.tensors["head.fc.weight"]);
    for strategy in ["ddp", "dp", "model", "pipeline"] {
        runs.trained(strategy, 20, &on(strategy, 2)).check(&alone, TOLERANCE, strategy);
    }
    let more = format!("{}memory.micro_batch = 4\nmemory.recompute = 'stages'\n", on("pipeline", 3));
    runs.trained("pieces", 20, &more).check(&alone, TOLERANCE, "pipeline in micro-batches, recomputed");
}

#[test]
fn every_strategy_makes_the_mean_of_swa() {
    const SWA: &str = "train.swa = 0.4\ntrain.swa_every = '4 steps'\ntrain.swa_lr = 0.001\n";
    let with = |strategy: &str| format!("{SWA}device.devices = 'cpu,cpu'\ndevice.strategy = '{strategy}'\n");
    let runs = Runs::new(LSTM);
    let alone = runs.trained("alone", 20, SWA);
    assert_ne!(alone.tensors["average head.fc.weight"], alone.tensors["head.fc.weight"]);
    for strategy in ["ddp", "dp", "model", "pipeline"] {
        runs.trained(strategy, 20, &with(strategy)).check(&alone, TOLERANCE, strategy);
    }
    // Batch normalisation sees the whole batch with these. Behind more steps, and from some seeds, rounding decides about a rectifier.
    let runs = Runs::new(&RESNET.replace("train.seed = 7", "train.seed = 5"));
    let alone = runs.trained("alone", 12, SWA);
    runs.trained("model", 12, &with("model")).check(&alone, TOLERANCE, "model");
    let ddp = with("ddp") + "device.sync_batch_norm = true\n";
    runs.trained("ddp", 12, &ddp).check(&alone, TOLERANCE, "ddp");
}

#[test]
fn running_statistics_are_averaged_on_each_devices_own_stages() {
    let runs = Runs::new(RESNET);
    let alone = runs.trained("alone", 20, AVERAGED);
    let average = "average layer4.1.bn2.running_mean";
    assert_ne!(alone.tensors[average], alone.tensors["layer4.1.bn2.running_mean"]);
    runs.trained("model", 20, &on("model", 3)).check(&alone, TOLERANCE, "model");
    let replicas = on("ddp", 2) + "device.sync_batch_norm = true\n";
    runs.trained("ddp", 20, &replicas).check(&alone, TOLERANCE, "ddp");
}

#[test]
fn a_run_with_an_average_continues_on_other_devices() {
    let runs = Runs::new(LSTM);
    let alone = runs.trained("alone", 20, AVERAGED);
    runs.trained("changing", 7, &on("ddp", 2));
    runs.resumed("changing", 12, &on("pipeline", 3));
    runs.resumed("changing", 15, &on("dp", 2));
    runs.resumed("changing", 20, AVERAGED).check(&alone, TOLERANCE, "resumed with other strategies");
}

#[test]
fn an_average_changes_no_weight_of_the_training() {
    let runs = Runs::new(RESNET);
    let (with, without) = (runs.trained("with", 20, AVERAGED), runs.trained("without", 20, ""));
    for (name, values) in &without.tensors {
        assert_eq!(&with.tensors[name], values, "{name}");
    }
    assert_ne!(with.eval_loss.to_bits(), without.eval_loss.to_bits(), "the average is evaluated");
}
