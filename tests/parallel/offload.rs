//! Bytes in host memory: every bit is that of a training whose device keeps them.

use oomph::runs::state::Checkpoint;

use crate::support::{LANGUAGE, LSTM, RESNET, Runs};

const OPTIMIZER: &str = "memory.offload = ['optimizer']\n";
const BOTH: &str = "memory.offload = ['optimizer', 'activations']\nmemory.recompute = 'stages'\n";

/// Trains with state, and inputs of recomputed stages, on the device and in host memory.
#[track_caller]
fn check(runs: &Runs, name: &str, more: &str) {
    let here = runs.trained(&format!("{name}-here"), 10, more);
    for (how, offload) in [("optimizer", OPTIMIZER), ("both", BOTH)] {
        if more.contains("recompute") && how == "both" {
            continue;
        }
        let name = format!("{name}-{how}");
        runs.trained(&name, 10, &(offload.to_owned() + more)).check(&here, 0.0, &format!("{name}: {more}"));
    }
}

#[test]
fn every_optimizer_with_state_takes_the_same_steps() {
    let recipe = RESNET.lines().filter(|line| !line.contains("optimizer")).collect::<Vec<_>>().join("\n");
    let runs = Runs::new(recipe.leak());
    for (name, rule) in [
        ("sgd", "name = 'sgd', momentum = 0.9, lr = 2e-3"),
        ("adam", "name = 'adam', lr = 1e-3"),
        ("adamw", "name = 'adamw', lr = 1e-3"),
        ("lion", "name = 'lion', lr = 1e-4"),
        ("bf16", "name = 'adamw', lr = 1e-3, state = 'bf16'"),
        ("int8", "name = 'lion', lr = 1e-4, state = 'int8'"),
    ] {
        check(&runs, name, &format!("optimizer = {{ {rule} }}\n"));
    }
}

#[test]
fn each_policy_goes_together_with_it() {
    let runs = Runs::new(RESNET);
    for (name, policy) in [
        ("micro", "memory.micro_batch = 6\n"),
        ("release", "memory.gradients = 'release'\n"),
        ("some", "memory.recompute = ['layer2', 'layer4']\nmemory.micro_batch = 6\n"),
        ("frozen", "model.freeze = ['stem', 'layer1', 'layer3']\n"),
        ("bf16", "memory.precision = 'bf16'\n"),
        ("fp16", "memory.precision = 'fp16'\n"),
        ("average", "train.ema = 0.9\n"),
    ] {
        check(&runs, name, policy);
    }
    let runs = Runs::new(LANGUAGE);
    check(&runs, "tied", "model.tied = true\n");
    check(&runs, "tied-micro", "model.tied = true\nmemory.gradients = 'release'\nmemory.micro_batch = 5\n");
}

#[test]
fn each_strategy_goes_together_with_it() {
    let runs = Runs::new(LSTM);
    for (strategy, devices) in [("ddp", 3), ("dp", 2), ("model", 2), ("pipeline", 3)] {
        let devices = vec!["cpu"; devices].join(",");
        let more = format!("device.devices = '{devices}'\ndevice.strategy = '{strategy}'\n");
        check(&runs, strategy, &more);
        check(&runs, &format!("{strategy}-micro"), &format!("{more}memory.micro_batch = 3\n"));
    }
}

#[test]
fn a_training_resumes_with_its_state_on_the_device_or_in_host_memory() {
    for state in ["fp32", "int8"] {
        let runs = Runs::new(RESNET);
        let rule = format!("optimizer.state = '{state}'\n");
        let offloaded = format!("{OPTIMIZER}{rule}");
        let whole = runs.trained("whole", 12, &rule);
        runs.trained("changing", 5, &offloaded);
        runs.resumed_with("changing", 9, &rule);
        runs.resumed_with("changing", 12, &offloaded).check(&whole, 0.0, "resumed");
        let [found, right] = ["changing", "whole"].map(|name| {
            let checkpoint = Checkpoint::find(&runs.path(name)).expect("a checkpoint").checkpoint;
            checkpoint.state().expect("a state").optimizer
        });
        assert_eq!(found, right, "{state}");
    }
}
