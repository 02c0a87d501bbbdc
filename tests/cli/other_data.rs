//! A checkpoint beside data that changed since its training.

use std::fmt::Write;

use serde_json::Value;

use crate::{
    photos::{cats_and_dogs, jpeg},
    support::{Answer, Folder},
};

/// A config that trains on `series.csv`, of which the last half is held out.
const SERIES: &str = "\
[model]
name = 'lstm'
hidden = 4

[data]
source = 'csv'
path = 'series.csv'
steps = 4
held_out = 0.5
workers = 0

[train]
steps = 3
batch = 2

[run]
directory = 'run'
log_every = 1
";

/// A series of 40 rows with two columns. The rows to train on are multiplied by `scale`.
fn series(header: &str, scale: f32, rows: usize) -> String {
    let mut text = format!("{header}\n");
    for row in 0..rows {
        let scale = if row < 20 { scale } else { 1.0 };
        let (wave, line) = (scale * (row as f32).sin(), scale * row as f32);
        match header {
            "wave,line" => writeln!(text, "{wave},{line}"),
            _ => writeln!(text, "{line},{wave}"),
        }
        .expect("a string");
    }
    text
}

/// A folder with a model that was trained on the series.
fn trained() -> Folder {
    let folder = Folder::new();
    folder.write("series.toml", SERIES);
    folder.write("series.csv", series("wave,line", 1.0, 40));
    folder.oomph(&["train", "--config", "series.toml"]).success();
    folder
}

fn loss(folder: &Folder, arguments: &[&str]) -> Value {
    let arguments = [&["evaluate", "--json"], arguments].concat();
    folder.oomph(&arguments).success().last_json()["eval_loss"].clone()
}

fn resume(folder: &Folder) -> Answer {
    folder.oomph(&["train", "--config", "series.toml", "--resume", "--set", "train.steps=4"])
}

#[test]
fn an_evaluation_normalises_photos_as_the_training_did() {
    let folder = Folder::new();
    cats_and_dogs(&folder);
    folder.oomph(&["train", "--config", "photos.toml"]).success();
    folder.oomph(&["export", "run", "--to", "w.safetensors"]).success();
    let before = loss(&folder, &["--checkpoint", "run"]);
    for (seed, path) in ["cat/1", "cat/2", "cat/3", "dog/1", "dog/2", "dog/3"].iter().enumerate() {
        folder.write(&format!("photos/train/{path}.jpg"), jpeg(seed as u8 + 100));
    }
    assert_eq!(loss(&folder, &["--checkpoint", "run"]), before);
    assert_eq!(loss(&folder, &["--config", "photos.toml", "--weights", "w.safetensors"]), before);
    let other = ["evaluate", "--checkpoint", "run", "--set", "data.normalize=none"];
    let answer = folder.oomph(&other).success();
    assert!(answer.stderr.contains("warning: channel 0 was normalised by mean"), "{answer}");
}

#[test]
fn an_evaluation_normalises_a_series_as_the_training_did() {
    let folder = trained();
    let before = loss(&folder, &["--checkpoint", "run"]);
    folder.write("series.csv", series("wave,line", 10.0, 40));
    assert_eq!(loss(&folder, &["--checkpoint", "run"]), before);
}

#[test]
fn an_evaluation_finds_the_columns_by_their_names() {
    let folder = trained();
    let before = loss(&folder, &["--checkpoint", "run"]);
    folder.write("series.csv", series("line,wave", 1.0, 40));
    assert_eq!(loss(&folder, &["--checkpoint", "run"]), before);
    let swapped = ["evaluate", "--checkpoint", "run", "--set", "data.columns=['line', 'wave']"];
    let answer = folder.oomph(&swapped);
    assert_eq!(answer.code, Some(1), "{answer}");
    assert!(answer.stderr.contains("input column 0 was \"wave\", and is \"line\" now"), "{answer}");
    assert!(answer.stderr.contains("--set data.columns='[\"wave\", \"line\"]'`"));
}

#[test]
fn a_resumed_training_tells_that_its_data_changed() {
    let folder = trained();
    let answer = resume(&folder).success();
    assert!(!answer.stderr.contains("changed since"), "{answer}");

    folder.write("series.csv", series("wave,line", 10.0, 40));
    let answer = resume(&folder).success();
    let says = "warning: the data changed since the checkpoint: it has as many samples with other contents";
    assert!(answer.stderr.contains(says), "{answer}");
    assert!(answer.stderr.contains("warning: column `wave` was normalised by mean"), "{answer}");

    folder.write("series.csv", series("line,wave", 1.0, 40));
    let answer = resume(&folder);
    assert_eq!(answer.code, Some(1), "{answer}");
    assert!(answer.stderr.contains("input column 0 was \"wave\""), "{answer}");
}

#[test]
fn a_resumed_training_tells_that_its_data_grew() {
    let folder = Folder::new();
    // A position within an epoch means nothing in longer data, so the training ends with its first epoch.
    folder.write("series.toml", SERIES.replace("steps = 3", "epochs = 1"));
    folder.write("series.csv", series("wave,line", 1.0, 40));
    folder.oomph(&["train", "--config", "series.toml"]).success();
    folder.write("series.csv", series("wave,line", 1.0, 48));
    let answer = folder.oomph(&["train", "--config", "series.toml", "--resume", "--set", "train.epochs=2"]);
    let says = "warning: the data changed since the checkpoint: it had 16 samples to train on and 16 held out, and has 20 \
                and 20 now";
    assert!(answer.success().stderr.contains(says));
}
