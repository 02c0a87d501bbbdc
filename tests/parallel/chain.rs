//! A model cut over several devices.

use crate::support::{LANGUAGE, LSTM, RESNET, Runs};

/// Gradients of micro-batches are added up in the same order: only what crosses a boundary is computed apart.
const TOLERANCE: f64 = 1e-5;

fn on(strategy: &str, devices: usize) -> String {
    format!("device.devices = '{}'\ndevice.strategy = '{strategy}'\n", vec!["cpu"; devices].join(","))
}

#[test]
fn a_model_on_several_devices_trains_the_same_weights() {
    for (recipe, stages) in [(LSTM, 3), (RESNET, 10)] {
        let runs = Runs::new(recipe);
        for micro_batches in [1, 2, 4, 8] {
            let micro_batch = format!("memory.micro_batch = {}\n", 24usize.div_ceil(micro_batches));
            let batch = "train.batch = 24\n";
            let alone = runs.trained(&format!("alone-{micro_batches}"), 20, &(micro_batch.clone() + batch));
            for devices in 2..=4usize.min(stages) {
                for strategy in ["model", "pipeline", "pipeline'\ndevice.schedule = 'gpipe"] {
                    let what = format!("{strategy} on {devices}, {micro_batches} micro-batches");
                    let name =
                        format!("{}-{devices}-{micro_batches}", strategy.replace(['\'', '\n', ' '], ""));
                    let cut = runs.trained(&name, 20, &(on(strategy, devices) + &micro_batch + batch));
                    cut.check(&alone, TOLERANCE, &what);
                }
            }
        }
    }
}

#[test]
fn what_is_carried_is_each_devices_own() {
    let runs = Runs::new(LANGUAGE);
    let more = "model.tied = false\nmemory.micro_batch = 5\n";
    let alone = runs.trained("alone", 20, more);
    for strategy in ["model", "pipeline"] {
        let cut = runs.trained(strategy, 20, &(on(strategy, 3) + more));
        cut.check(&alone, TOLERANCE, strategy);
    }
    runs.trained("changing", 7, &(on("pipeline", 2) + more));
    runs.resumed("changing", 15, &(on("model", 4) + more));
    runs.resumed("changing", 20, more).check(&alone, TOLERANCE, "resumed on other devices");
}

#[test]
fn recomputation_and_frozen_stages_go_together_with_a_pipeline() {
    let runs = Runs::new(RESNET);
    for (name, policy) in [
        ("recompute", "memory.recompute = 'stages'\n"),
        ("some", "memory.recompute = ['layer2', 'layer4']\n"),
        ("ops", "memory.recompute = 'ops'\n"),
        ("frozen", "model.freeze = ['stem', 'layer1', 'layer3']\n"),
        ("burn", "memory.lean = false\n"),
    ] {
        let more = policy.to_owned() + "memory.micro_batch = 6\n";
        let alone = runs.trained(&format!("alone-{name}"), 10, &more);
        let cut = runs.trained(&format!("cut-{name}"), 10, &(on("pipeline", 3) + &more));
        cut.check(&alone, TOLERANCE, policy);
    }
}
