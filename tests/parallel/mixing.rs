//! Samples that are mixed in pairs, on several devices.

use crate::support::{LSTM, RESNET, Runs};

/// Sums over samples are made in another order; 20 steps carry that on.
const TOLERANCE: f64 = 1e-5;

fn on(strategy: &str, devices: usize) -> String {
    format!("device.devices = '{}'\ndevice.strategy = '{strategy}'\n", vec!["cpu"; devices].join(","))
}

#[test]
fn every_strategy_mixes_the_samples_that_one_device_mixes() {
    let mixup = "data.augment.mixup = 0.4\ntrain.label_smoothing = 0.1\n";
    let runs = Runs::new(LSTM);
    let alone = runs.trained("alone", 20, mixup);
    // Batches of 20 give 3 replicas 6, 7 and 7 samples, whose first ones are mixed with samples of other replicas.
    for (strategy, devices) in [("ddp", 2), ("ddp", 3), ("dp", 3), ("model", 3), ("pipeline", 3)] {
        for micro_batch in ["", "memory.micro_batch = 3\n"] {
            let name = format!("{strategy}-{devices}-{}", micro_batch.len());
            let shared = runs.trained(&name, 20, &(on(strategy, devices) + micro_batch + mixup));
            shared.check(&alone, TOLERANCE, &name);
        }
    }
    assert_ne!(runs.trained("plain", 20, "train.label_smoothing = 0.1\n").tensors, alone.tensors);
}

#[test]
fn a_pipeline_cuts_and_blends_images_as_one_device_does() {
    let both = "data.augment.mixup = 0.4\ndata.augment.cutmix = 1.0\nmemory.micro_batch = 6\n";
    let runs = Runs::new(RESNET);
    let recompute = "memory.recompute = 'stages'\n";
    for (name, more) in [("pipeline", ""), ("recomputed", recompute), ("burn", "memory.lean = false\n")] {
        // Burn's layers round otherwise than ours.
        let alone = runs.trained(&format!("{name}-alone"), 10, &(more.to_owned() + both));
        let cut = runs.trained(name, 10, &(on("pipeline", 2) + more + both));
        cut.check(&alone, TOLERANCE, name);
    }
}

#[test]
fn balanced_draws_are_mixed_and_weighted_as_on_one_device() {
    let keys = "data.sampling = 'balanced'\ntrain.class_weights = 'balanced'\ndata.augment.mixup = 0.4\n";
    let runs = Runs::new(LSTM);
    let alone = runs.trained("alone", 20, keys);
    for (strategy, devices) in [("ddp", 3), ("dp", 3), ("pipeline", 3)] {
        let shared = runs.trained(strategy, 20, &(on(strategy, devices) + keys));
        shared.check(&alone, TOLERANCE, strategy);
    }
}
