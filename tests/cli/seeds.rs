//! `oomph train --seeds`.

use std::{thread::sleep, time::Duration};

use serde_json::Value;

use crate::support::Folder;

#[test]
fn each_seed_trains_as_it_does_alone_and_the_spread_is_that_of_all() {
    let folder = Folder::new();
    let events = folder.train(&["--seeds", "3..5", "--json"]).success().json_lines();
    let seeds = events.last().expect("the last line");
    assert_eq!(seeds["event"], "seeds");
    let alone = |seed: &str| {
        let directory = format!("run.directory=alone{seed}");
        folder.train(&["--seed", seed, "--set", &directory, "--json"]).success().last_json()
    };
    let alone = [alone("3"), alone("4")];
    for (index, alone) in alone.iter().enumerate() {
        let seed = &seeds["seeds"][index];
        assert_eq!(seed["seed"], 3 + index);
        assert_eq!(seed["run_dir"], format!("run-seed{}", 3 + index));
        assert_eq!((&seed["eval_loss"], &seed["ended"]), (&alone["eval_loss"], &"complete".into()));
        let run = |of: &str| folder.read(&format!("{of}/checkpoints/step-00000006/model.safetensors"));
        assert!(run(&format!("run-seed{}", 3 + index)) == run(&format!("alone{}", 3 + index)));
    }
    let [one, other] = alone.map(|done| done["eval_loss"].as_f64().expect("a loss"));
    let spread = &seeds["spread"]["eval_loss"];
    let mean = spread["mean"].as_f64().expect("a mean");
    let std = spread["std"].as_f64().expect("a standard deviation");
    assert!((mean - (one + other) / 2.0).abs() < 1e-12 && one != other);
    assert!((std - (one - other).abs() / 2.0_f64.sqrt()).abs() < 1e-12, "{std}");
    assert!(events.iter().any(|event| event["event"] == "step" && event["seed"] == 4));
}

#[test]
fn a_seed_that_fails_is_told_and_the_others_train() {
    let folder = Folder::new();
    // A file where the second seed's run directory would be.
    folder.write("run-seed1", "in the way");
    let answer = folder.train(&["--seeds", "0..=2"]);
    assert_eq!(answer.code, Some(1), "{answer}");
    assert!(
        answer.stderr.contains("seed 1 failed: ") && answer.stderr.contains("1 of 3 seeds failed"),
        "{answer}"
    );
    assert!(answer.stdout.contains("of 2 seeds"), "{answer}");
    for seed in [0, 2] {
        assert!(folder.at(&format!("run-seed{seed}/checkpoints/step-00000006")).exists());
    }
}

#[test]
fn runs_that_exist_are_continued_only_on_request() {
    let folder = Folder::new();
    folder.train(&["--seeds", "0,1", "--set", "train.steps=3"]).success();
    let answer = folder.train(&["--seeds", "1,2"]);
    assert_eq!(answer.code, Some(1), "{answer}");
    assert!(
        answer.stderr.contains("`run-seed1` exists already") && !folder.at("run-seed2").exists(),
        "{answer}"
    );
    let resumed = folder.train(&["--seeds", "0,1", "--resume", "--json"]).success().last_json();
    assert_eq!((&resumed["seeds"][0]["step"], &resumed["seeds"][1]["step"]), (&6.into(), &6.into()));
}

#[test]
fn an_interrupt_ends_the_running_seed_with_a_checkpoint_and_starts_no_other() {
    let folder = Folder::new();
    let mut running = folder.start_long_of("tiny.toml", &["--seeds", "0,1"]);
    running.wait_for("step");
    running.signal(libc::SIGINT);
    let seeds = running.wait_for("seeds");
    assert_eq!(seeds["seeds"].as_array().map(Vec::len), Some(1), "{seeds}");
    assert_eq!(seeds["seeds"][0]["ended"], "terminated");
    assert_eq!(seeds["spread"], Value::Object(serde_json::Map::new()));
    assert_eq!(running.end(), Some(130));
    assert!(folder.at("run-seed0/checkpoints/latest").exists() && !folder.at("run-seed1").exists());
}

#[test]
fn a_second_interrupt_exits_at_once() {
    let folder = Folder::new();
    let mut running = folder.start_long_of("tiny.toml", &["--seeds", "0,1"]);
    running.wait_for("step");
    running.signal(libc::SIGTERM);
    sleep(Duration::from_millis(1));
    running.signal(libc::SIGTERM);
    assert_eq!(running.end(), Some(143));
}

#[test]
fn what_does_not_go_with_seeds_is_refused() {
    let folder = Folder::new();
    for (arguments, code, says) in [
        (&["--seeds", "0,x"][..], 2, "expected seeds such as `0,1,2`"),
        (&["--seeds", "2..2"], 2, "empty range"),
        (&["--seeds", "0,1", "--seed", "3"], 2, "cannot be used with"),
        (&["--seeds", "0,1", "--resume=run"], 1, "`--seeds` has a run for each seed"),
        (&["--seeds", "0,1", "--set", "train.batch=0"], 1, "train.batch"),
    ] {
        let answer = folder.train(arguments);
        assert_eq!(answer.code, Some(code), "{answer}");
        assert!(answer.stderr.contains(says), "{answer}");
    }
}
