//! Averages of the weights, and the commands that use them.

use serde_json::Value;

use crate::support::{Answer, Folder};

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
