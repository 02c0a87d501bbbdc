//! oomph as a library, from outside: runs the commands of a program that has its own model and data source.

use std::{
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/plane.toml");

/// Runs a command of the program with its config, in an empty folder; gives what it says on standard output.
fn run(folder: &Path, arguments: &[&str]) -> String {
    let output = start(folder, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {}\n{errors}", output.status);
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

fn start(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_downstream"));
    command.args(arguments).args(["--config", CONFIG]).current_dir(folder);
    command.output().expect("the program can be started")
}

fn last_line(output: &str) -> Value {
    let line = output.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"))
}

#[test]
fn a_model_and_data_of_ones_own_train_and_evaluate() {
    let folder = tempfile::tempdir().unwrap();
    let done = last_line(&run(folder.path(), &["train", "--json"]));
    assert_eq!(done["event"], "done");
    // The model is of the same form as the data, so nothing is left to be wrong about.
    assert!(done["eval_loss"].as_f64().unwrap() < 1e-3, "{done}");
    // `install_meter!` is in the user's program.
    assert!(done["peak_in_use_bytes"].as_u64().unwrap() > 0, "{done}");
    let evaluated = last_line(&run(folder.path(), &["evaluate", "--json"]));
    assert_eq!(evaluated["eval_loss"], done["eval_loss"]);
}

#[test]
fn summary_and_config_know_the_model_and_its_keys() {
    let folder = tempfile::tempdir().unwrap();
    let summary = last_line(&run(folder.path(), &["summary", "--json"]));
    assert_eq!((&summary["model"], &summary["parameters"]), (&"plane".into(), &4.into()));
    let config = last_line(&run(folder.path(), &["config", "--json", "--set", "model.bias=false"]));
    assert_eq!(config["model.bias"]["value"], false);
    assert_eq!(config["model.bias"]["origin"], "--set");
}

#[test]
fn a_mistake_in_a_key_of_ones_own_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let output = start(folder.path(), &["config", "--set", "model.bais=false"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("`model.bais`") && errors.contains("`model.bias`"), "{errors}");
}

#[test]
fn the_program_started_again_by_itself_knows_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let done = last_line(&run(folder.path(), &["again", "train", "--json", "--set", "train.steps=3"]));
    assert_eq!((&done["event"], &done["step"]), (&"done".into(), &3.into()));
    // The exit code of the child comes through as well.
    assert_eq!(start(folder.path(), &["again", "train", "--set", "train.steps=0"]).status.code(), Some(1));
}

/// Searches the batch of the user's model, with a setting of its own.
fn find_batch(folder: &Path, settings: &[&str]) -> Output {
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    let arguments = ["find-batch", "--max", "64", "--memory-limit", "64MiB"].into_iter().chain(settings);
    start(folder, &arguments.collect::<Vec<_>>())
}

#[test]
fn a_batch_of_ones_own_model_is_found() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let found = find_batch(folder.path(), &[]);
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    assert!(String::from_utf8_lossy(&found.stdout).contains("largest batch that fits: 64"));
}

#[test]
fn a_search_tells_a_bug_from_a_limit() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    // A panic in the data source is reported as a bug.
    let panics = find_batch(folder.path(), &["data.panics_from=300"]);
    let told = String::from_utf8_lossy(&panics.stderr);
    assert_eq!(panics.status.code(), Some(1), "{told}");
    assert!(
        told.contains("failed for another reason than memory") && told.contains("there is no point"),
        "{told}"
    );
    // Every forward pass leaks 15 MiB: the plan of one step fits, but later steps run out of memory.
    let hoards = find_batch(folder.path(), &["model.hoards=4000000"]);
    let told = String::from_utf8_lossy(&hoards.stderr);
    assert_eq!(hoards.status.code(), Some(1), "{told}");
    assert!(told.starts_with("error: batch 1 ran out of memory although its planned peak of "), "{told}");
    assert!(told.contains("of it is not in the plan"), "{told}");
    // A smaller leak survives the tried steps, and is reported as a warning.
    let hoards = find_batch(folder.path(), &["model.hoards=1000000"]);
    let told = String::from_utf8_lossy(&hoards.stderr);
    assert!(hoards.status.success() && told.contains("memory grows by 3.81 MiB per step"), "{told}");
}
