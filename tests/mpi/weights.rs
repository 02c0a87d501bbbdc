//! The same weights as one device has after the same steps.

use std::{fs, process::Command};

use crate::{
    job::{has_mpirun, run},
    support::{LANGUAGE, LSTM, RESNET, Runs, State},
};

/// Sums over samples are made in another order; 20 steps carry that on.
const TOLERANCE: f64 = 1e-5;

/// A config for 20 steps.
fn config(runs: &Runs, name: &str, more: &str) -> String {
    let path = runs.path(&format!("{name}.toml"));
    fs::write(&path, runs.text(name, &format!("train.steps = 20\n{more}"))).unwrap();
    path.display().to_string()
}

/// The state after 20 steps in so many processes.
fn by_processes(runs: &Runs, name: &str, ranks: usize, more: &str) -> State {
    let config = config(runs, name, more);
    run(ranks, &runs.path(""), &["train", "--config", &config, "--strategy", "ddp", "--quiet"]).success();
    State::of(&runs.path(name))
}

/// The same on so many devices of one process.
fn by_threads(runs: &Runs, name: &str, devices: usize, more: &str) -> State {
    let (config, devices) = (config(runs, name, more), vec!["cpu"; devices].join(","));
    let mut command = Command::new(env!("CARGO_BIN_EXE_oomph"));
    let command = command.args(["train", "--config", &config, "--devices", &devices, "--quiet"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    State::of(&runs.path(name))
}

#[test]
fn any_number_of_ranks_trains_the_same_weights() {
    if !has_mpirun() {
        return;
    }
    let synced = "device.sync_batch_norm = true\n";
    for (recipe, more) in [(LSTM, ""), (LANGUAGE, ""), (RESNET, synced)] {
        let runs = Runs::new(recipe);
        let alone = runs.trained("alone", 20, "");
        let one = by_processes(&runs, "ranks-1", 1, more);
        assert_eq!(one.tensors, alone.tensors);
        for ranks in [2, 4] {
            let processes = by_processes(&runs, &format!("ranks-{ranks}"), ranks, more);
            processes.check(&alone, TOLERANCE, &format!("{ranks} ranks"));
            let threads = by_threads(&runs, &format!("threads-{ranks}"), ranks, more);
            let differing: Vec<_> = processes
                .tensors
                .iter()
                .filter(|(name, values)| threads.tensors[*name] != **values)
                .collect();
            assert!(differing.is_empty(), "{ranks} processes are not as {ranks} threads in {differing:?}");
        }
    }
}

#[test]
fn gradients_travel_in_buckets_while_micro_batches_go_on() {
    if !has_mpirun() {
        return;
    }
    let runs = Runs::new(LSTM);
    let more = "memory.micro_batch = 4\ndevice.bucket = 1000\ndevice.check_every = '2 steps'\n";
    let processes = by_processes(&runs, "pieces", 2, more);
    processes.check(&runs.trained("alone", 20, ""), TOLERANCE, "2 ranks in micro-batches, small buckets");
}

#[test]
fn processes_shard_as_threads_do() {
    if !has_mpirun() {
        return;
    }
    let recipe = LSTM.replace(", clip_global_norm = 1.0", ", clip_norm = 1.0");
    let runs = Runs::new(recipe.leak());
    let plain = by_threads(&runs, "plain", 3, "");
    for level in ["optimizer", "gradients", "parameters"] {
        // Small buckets. Of 20 samples one rank has 6, the others 7.
        let more = format!("device.shard = '{level}'\ndevice.bucket = 1000\n");
        let processes = by_processes(&runs, &format!("{level}-processes"), 3, &more);
        processes.check(&plain, 1e-6, level);
        let threads = by_threads(&runs, &format!("{level}-threads"), 3, &more);
        assert_eq!(processes.tensors, threads.tensors, "{level}");
        let more = format!("{more}memory.micro_batch = 3\nmemory.recompute = 'stages'\n");
        let processes = by_processes(&runs, &format!("{level}-micro-processes"), 3, &more);
        let threads = by_threads(&runs, &format!("{level}-micro-threads"), 3, &more);
        assert_eq!(processes.tensors, threads.tensors, "{level}, in micro-batches");
    }
}
