//! Checkpoints whose checksums are right and whose values are not.

use oomph_engine::{HostTensor, tensor_file};
use oomph_model::Named;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::support::{Case, Folder, check};

const CHECKPOINT: &str = "run/checkpoints/step-00000006";

/// A model that carries state from batch to batch.
const LANGUAGE: &str = "\
[model]
name = 'lstm-lm'
hidden = 4

[data]
source = 'synthetic'
kind = 'tokens'
steps = 4
workers = 0

[train]
steps = 6
batch = 3
eval_every = 'never'

[run]
directory = 'run'
";

/// What a case changes.
struct Forged {
    /// `state.json`, without its checksum.
    state: Value,
    /// The tensors of one of the other files.
    tensors: Named<HostTensor>,
}

/// Changes the last checkpoint, and its checksums with it.
fn forge(folder: &Folder, file: &str, change: impl FnOnce(&mut Forged)) {
    let [state, path] = ["state.json", file].map(|file| format!("{CHECKPOINT}/{file}"));
    let mut sealed: Value = serde_json::from_slice(&folder.read(&state)).unwrap();
    let tensors = tensor_file::decode(&folder.read(&path)).unwrap();
    let mut forged = Forged { state: sealed["state"].take(), tensors };
    change(&mut forged);
    let bytes = tensor_file::encode(&forged.tensors).unwrap();
    let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    forged.state["files"][file] = json!(digest);
    folder.write(&path, bytes);
    folder.write(&state, oomph_runs::parsers::sealed(&serde_json::to_vec(&forged.state).unwrap()));
}

const RESUME: [&str; 6] = ["train", "--quiet", "--resume", CHECKPOINT, "--set", "train.steps=9"];

/// Resumes a training with Adam whose last checkpoint is changed.
fn forged(about: &'static str, change: fn(&mut Forged)) -> Case {
    Case::new(about, &RESUME).after(move |folder| {
        folder.train(&["--set", "optimizer.name=adam"]).success();
        forge(folder, "optimizer.safetensors", change);
    })
}

/// Resumes a training whose carried state is changed.
fn forged_carried(about: &'static str, change: fn(&mut Forged)) -> Case {
    Case::new(about, &RESUME).after(move |folder| {
        folder.write("language.toml", LANGUAGE);
        folder.oomph(&["train", "--config", "language.toml"]).success();
        forge(folder, "carried.safetensors", change);
    })
}

fn set(forged: &mut Forged, place: &str, value: Value) {
    *forged.state.pointer_mut(place).expect("a place in the state") = value;
}

fn reshape(forged: &mut Forged, leaf: &str, shape: &[usize]) {
    let values = vec![0.0; shape.iter().product()];
    forged.tensors.insert(leaf.to_owned(), HostTensor { shape: shape.to_vec(), values });
}

#[test]
fn positions() {
    check(
        "forged_positions",
        &[
            forged("a batch behind the epoch", |it| set(it, "/progress/batch", json!(45))),
            forged("a batch far behind the epoch", |it| set(it, "/progress/batch", json!(1u64 << 40))),
            forged("more epochs than steps", |it| set(it, "/progress/epoch", json!(u64::MAX))),
            forged("too many steps", |it| set(it, "/progress/step", json!(u64::MAX))),
            forged("a best step in the future", |it| {
                set(it, "/progress/early_stopping/best_step", json!(7));
            }),
            forged("a longer epoch", |it| {
                set(it, "/progress/batches_per_epoch", json!(46));
            }),
            forged("another cut of the epoch", |it| set(it, "/progress/cut/samples", json!(9))),
        ],
    );
}

#[test]
fn optimizer_state() {
    check(
        "forged_optimizer_state",
        &[
            forged("a rank that no tensor has", |it| {
                set(it, "/optimizer_ranks/head.fc.weight", json!(99));
            }),
            forged("the rank of another parameter", |it| {
                set(it, "/optimizer_ranks/head.fc.weight", json!(1))
            }),
            forged("a parameter that is not there", |it| it.state["optimizer_ranks"]["tail"] = json!(2)),
            forged("a moment of another rank", |it| {
                reshape(it, "head.fc.weight.momentum.moment_1", &[80]);
            }),
            forged("a moment without elements", |it| {
                reshape(it, "head.fc.weight.momentum.moment_2", &[10, 0]);
            }),
            forged("the moment of a transposed parameter", |it| {
                reshape(it, "head.fc.weight.momentum.moment_1", &[8, 10]);
            }),
            forged("a time that overflows", |it| {
                set(it, "/optimizer_scalars/head.fc.weight.momentum.time", json!({ "uint": u64::MAX }));
            }),
            forged("a time before the start", |it| {
                set(it, "/optimizer_scalars/head.fc.weight.momentum.time", json!({ "int": -1 }));
            }),
            forged("a time that is no count", |it| {
                set(it, "/optimizer_scalars/head.fc.weight.momentum.time", json!({ "bool": true }));
            }),
        ],
    );
}

#[test]
fn carried_state() {
    check(
        "forged_carried_state",
        &[
            forged_carried("a state without a batch", |it| reshape(it, "lstm.0.layer.cell", &[])),
            forged_carried("a state of more units", |it| reshape(it, "lstm.0.layer.cell", &[3, 5])),
            forged_carried("the state of another layer", |it| reshape(it, "lstm.7.layer.cell", &[3, 4])),
            forged_carried("half a state", |it| drop(it.tensors.remove("lstm.0.layer.hidden"))),
        ],
    );
}

/// Resumes a training whose record of the data is changed.
fn forged_source(about: &'static str, place: &'static str, value: &'static str) -> Case {
    Case::new(about, &RESUME).after(move |folder| {
        folder.train(&[]).success();
        let path = format!("{CHECKPOINT}/source.json");
        let mut source: Value = serde_json::from_slice(&folder.read(&path)).unwrap();
        *source.pointer_mut(place).expect("a place in the record") = serde_json::from_str(value).unwrap();
        let bytes = serde_json::to_vec(&source).unwrap();
        let mut sealed: Value =
            serde_json::from_slice(&folder.read(&format!("{CHECKPOINT}/state.json"))).unwrap();
        sealed["state"]["files"]["source.json"] =
            json!(Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        folder.write(&path, bytes);
        let state = serde_json::to_vec(&sealed["state"]).unwrap();
        folder.write(&format!("{CHECKPOINT}/state.json"), oomph_runs::parsers::sealed(&state));
    })
}

#[test]
fn record_of_the_data() {
    check(
        "forged_source",
        &[
            forged_source("a deviation of 0", "/statistics", r#"{"mean":[0.5],"std":[0.0]}"#),
            forged_source("fewer deviations than means", "/statistics", r#"{"mean":[0.5],"std":[]}"#),
            forged_source("more classes than outputs", "/spec/target/class/count", "3"),
            forged_source("samples without values", "/spec/input/sequence/steps", "0"),
        ],
    );
}
