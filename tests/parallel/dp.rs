//! One device that coordinates replicas on the others.

use crate::support::{LANGUAGE, LSTM, RESNET, Runs};

/// Sums over samples are made in another order; 20 steps carry that on.
const TOLERANCE: f64 = 1e-5;

fn on(devices: usize) -> String {
    format!("device.devices = '{}'\ndevice.strategy = 'dp'\n", vec!["cpu"; devices].join(","))
}

#[test]
fn a_coordinator_and_its_replicas_train_the_same_weights() {
    for (recipe, own) in
        [(LSTM, ""), (LANGUAGE, "model.tied = true\n"), (LSTM, "memory.recompute = 'stages'\n")]
    {
        let runs = Runs::new(recipe);
        let alone = runs.trained("alone", 20, own);
        for devices in 2..=4 {
            let replicas = runs.trained(&format!("replicas-{devices}"), 20, &(on(devices) + own));
            replicas.check(&alone, TOLERANCE, &format!("dp on {devices}"));
        }
        for share in [0.01, 0.1, 0.6, 0.99] {
            let more = format!("device.coordinator_share = {share}\nmemory.micro_batch = 3\n");
            let unequal = runs.trained(&format!("share-{share}"), 20, &(on(3) + &more + own));
            unequal.check(&alone, TOLERANCE, &format!("dp with a share of {share}"));
        }
    }
}

#[test]
fn batch_normalisation_is_that_of_replicas() {
    let runs = Runs::new(RESNET);
    for devices in 2..=3 {
        let replicas = runs.trained(&format!("ddp-{devices}"), 20, &on(devices).replace("dp'", "ddp'"));
        // The running statistics are the first device's.
        let coordinated = runs.trained(&format!("dp-{devices}"), 20, &on(devices));
        coordinated.check(&replicas, TOLERANCE, &format!("dp on {devices}"));
    }
}

#[test]
fn a_run_goes_on_with_and_without_a_coordinator() {
    let runs = Runs::new(LANGUAGE);
    let alone = runs.trained("alone", 20, "");
    runs.trained("changing", 7, &on(4));
    runs.resumed("changing", 15, &on(2).replace("dp'", "ddp'"));
    runs.resumed("changing", 20, &on(3)).check(&alone, TOLERANCE, "resumed on other devices");
}

#[test]
fn a_coordinator_ends_with_the_same_bytes_every_time() {
    let runs = Runs::new(RESNET);
    let state = |name: &str| runs.trained(name, 6, &on(3)).tensors;
    assert_eq!(state("one"), state("other"));
}
