//! Averages of the weights, and the commands that use them.

use std::fs;

use serde_json::Value;

use crate::support::{Answer, Case, Folder, check};

fn train(folder: &Folder, more: &[&str]) -> Answer {
    folder.train(&[&["--set", "train.ema=0.8", "--json"], more].concat())
}

#[test]
fn commands_use_the_average_and_raw_takes_the_weights_of_the_last_step() {
    let folder = Folder::new();
    let events = train(&folder, &[]).success().json_lines();
    let evaluated = events.iter().rev().find(|event| event["event"] == "eval").expect("an evaluation");
    assert_eq!(evaluated["averaged"], true);

    let evaluate = |more: &[&str]| {
        let evaluate = ["evaluate", "run", "--json"];
        folder.oomph(&[&evaluate, more].concat()).success().last_json()
    };
    let (averaged, raw) = (evaluate(&[]), evaluate(&["--raw"]));
    assert_eq!((&averaged["averaged"], &raw["averaged"]), (&true.into(), &Value::Null));
    assert_eq!(averaged["eval_loss"], evaluated["eval_loss"], "as during training");
    assert_ne!(averaged["eval_loss"], raw["eval_loss"]);

    let exported = |name: &str, more: &[&str]| {
        let export = ["export", "run", "--to", name];
        folder.oomph(&[&export, more].concat()).success();
        let evaluate = ["evaluate", "--config", "tiny.toml", "--weights", name, "--json"];
        folder.oomph(&evaluate).success().last_json()["eval_loss"].as_f64().expect("a loss")
    };
    let is_of = |loss: f64, of: &Value| (loss - of["eval_loss"].as_f64().expect("a loss")).abs() < 1e-6;
    assert!(is_of(exported("average.safetensors", &[]), &averaged));
    assert!(is_of(exported("raw.safetensors", &["--raw"]), &raw));
    assert!(!is_of(exported("raw-too.safetensors", &["--raw"]), &averaged));
}

#[test]
fn an_average_is_resumed_to_the_same_bytes_and_may_begin_or_end_with_a_resume() {
    let (whole, parts) = (Folder::new(), Folder::new());
    train(&whole, &[]).success();
    train(&parts, &["--set", "train.steps=3"]).success();
    train(&parts, &["--resume"]).success();
    for file in ["model", "average", "optimizer"] {
        let path = format!("run/checkpoints/step-00000006/{file}.safetensors");
        assert!(whole.read(&path) == parts.read(&path), "{file}");
    }

    // A run without an average gets one, and then gives it up.
    let folder = Folder::new();
    folder.train(&["--set", "train.steps=3"]).success();
    assert!(!folder.at("run/checkpoints/step-00000003/average.safetensors").exists());
    train(&folder, &["--resume", "--set", "train.steps=5"]).success();
    assert!(folder.at("run/checkpoints/step-00000005/average.safetensors").exists());
    folder.train(&["--resume"]).success();
    assert!(!folder.at("run/checkpoints/step-00000006/average.safetensors").exists());
}

#[test]
fn a_decay_that_is_none_is_refused() {
    let folder = Folder::new();
    for decay in ["1", "0", "-0.5", "often"] {
        let answer = folder.train(&["--set", &format!("train.ema={decay}")]);
        assert_eq!(answer.code, Some(1), "{answer}");
        assert!(answer.stderr.contains("train.ema"), "{answer}");
    }
    let answer = folder.train(&["--set", "train.ema_warmup=false"]).success();
    assert!(answer.stderr.contains("`train.ema_warmup` has no effect"), "{answer}");
}

const SWA: &[&str] = &[
    "--set",
    "train.swa=0.3",
    "--set",
    "train.swa_every=2 steps",
    "--set",
    "train.swa_lr=0.05",
    "--set",
    "run.save_every=1 step",
    "--set",
    "run.keep_last=9",
    "--set",
    "run.log_every=1",
    "--json",
];

#[test]
fn swa_is_the_mean_of_checkpoints_and_is_resumed_to_the_same_bytes() {
    let folder = Folder::new();
    let events = folder.train(SWA).success().json_lines();
    let rates: Vec<_> = events.iter().filter(|it| it["event"] == "step").map(|it| &it["lr"]).collect();
    // After two of six steps, within the two steps of an interval, the rate goes to its own.
    assert_eq!((rates.len(), rates[0], rates[4], rates[5]), (6, rates[1], &0.05.into(), &0.05.into()));
    let evaluated = events.iter().rev().find(|event| event["event"] == "eval").expect("an evaluation");
    assert_eq!(evaluated["averaged"], true);

    let file = |step: usize, name: &str| format!("run/checkpoints/step-{step:08}/{name}.safetensors");
    let weights = |path: &str| {
        let bytes = folder.read(path);
        let tensors = safetensors::SafeTensors::deserialize(&bytes).expect("a safetensors file");
        let name =
            tensors.names().into_iter().find(|name| name.ends_with("fc.weight")).expect("a head").to_owned();
        let values = tensors.tensor(&name).expect("the tensor").data().chunks_exact(4);
        values.map(|it| f32::from_le_bytes(it.try_into().expect("four bytes"))).collect::<Vec<_>>()
    };
    assert!(!folder.at(&file(3, "average")).exists());
    let (fourth, sixth) = (weights(&file(4, "model")), weights(&file(6, "model")));
    assert_eq!(weights(&file(5, "average")), fourth, "the first is a copy");
    for ((mean, one), other) in weights(&file(6, "average")).into_iter().zip(fourth).zip(sixth) {
        assert!((mean - (one + other) / 2.0).abs() < 1e-6);
    }

    let whole = ["model", "average", "optimizer"].map(|name| folder.read(&file(6, name)));
    for resumed_at in [5, 3] {
        for step in resumed_at + 1..=6 {
            fs::remove_dir_all(folder.at(&format!("run/checkpoints/step-{step:08}"))).expect("removed");
        }
        folder.train(&[SWA, &["--resume"]].concat()).success();
        let again = ["model", "average", "optimizer"].map(|name| folder.read(&file(6, name)));
        assert!(whole == again, "resumed at {resumed_at}");
    }
}

#[test]
fn another_kind_of_average_begins_anew() {
    let folder = Folder::new();
    train(&folder, &["--set", "train.steps=3"]).success();
    let resume = ["--set", "train.swa=0.5", "--set", "train.swa_every=5 steps", "--resume"];
    folder.train(&resume).success();
    // Five steps were done at its first end: the mean of one model.
    let manifest: Value =
        serde_json::from_slice(&folder.read("run/checkpoints/step-00000006/state.json")).expect("JSON");
    assert_eq!(manifest["state"]["average_updates"], 1, "{manifest}");
}

#[test]
fn mistakes_about_averages_are_refused() {
    check(
        "averages",
        &[
            Case::train("both", &["--set", "train.ema=0.9", "--set", "train.swa=0.5"]),
            Case::train("no share", &["--set", "train.swa=75"]),
            Case::train("never", &["--set", "train.swa=0.5", "--set", "train.swa_every=never"]),
            Case::train("no rate", &["--set", "train.swa=0.5", "--set", "train.swa_lr=0"]),
            Case::train("a name of Lightning", &["--set", "train.swa_epoch_start=0.8"]),
        ],
    );
    // Six steps of an epoch of 45.
    let answer = Folder::new().train(&["--set", "train.swa=0.5"]).success();
    assert!(
        answer.stderr.contains("`train.swa` has no effect: no interval of `1 epoch` ends after its start"),
        "{answer}"
    );
}
