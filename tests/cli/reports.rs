//! `summary`, `config` and `devices`.

use std::{io::Read, process::Stdio};

use crate::support::{Folder, snapshot};

#[test]
fn a_summary_is_a_table() {
    let folder = Folder::new();
    snapshot("summary_lstm", &folder.oomph(&["summary", "--config", "lstm"]).success().stdout);
    snapshot("summary_resnet", &folder.oomph(&["summary", "--config", "resnet"]).success().stdout);
    assert!(!folder.at("runs").exists());
}

#[test]
fn a_summary_of_any_batch_allocates_nothing() {
    let folder = Folder::new();
    let arguments = ["summary", "--config", "synthetic-resnet50", "--batch", "1000000000", "--json"];
    let summary = folder.oomph(&arguments).success().last_json();
    assert_eq!(summary["batch"], 1_000_000_000);
    assert_eq!(summary["parameters"], 25_557_032);
    assert!(summary["output_bytes"].as_u64().unwrap() > 1 << 50);
    let head = summary["rows"].as_array().unwrap().last().unwrap();
    assert_eq!(head["output"], serde_json::json!([1_000_000_000, 1000]));
}

#[test]
fn the_config_is_shown_with_the_origin_of_every_value() {
    let folder = Folder::new();
    let arguments = ["config", "--config", "tiny.toml", "--set", "train.batch=8"];
    snapshot("config", &folder.oomph(&arguments).success().stdout);
}

#[test]
fn the_config_as_json_has_defaults_of_model_and_data_too() {
    let folder = Folder::new();
    let config = folder.oomph(&["config", "--config", "tiny.toml", "--json"]).success().last_json();
    assert_eq!(config["model.hidden"]["value"], 8);
    assert_eq!(config["model.hidden"]["origin"], "tiny.toml:3");
    assert_eq!(config["model.layers"]["origin"], "default");
    assert_eq!(config["data.last_batch"]["value"], "keep");
    assert!(config["memory.limit"]["value"].is_null());
}

#[test]
fn a_config_that_is_shown_can_be_trained_with() {
    let folder = Folder::new();
    let shown = folder.oomph(&["config", "--config", "tiny.toml"]).success().stdout;
    folder.write("again.toml", &shown);
    folder.oomph(&["train", "--config", "again.toml"]).success();
}

#[test]
fn the_config_of_data_that_is_not_there_is_shown() {
    let folder = Folder::new();
    let arguments = ["config", "--config", "resnet-folder", "--set", "data.path=nowhere", "--json"];
    let config = folder.oomph(&arguments).success().last_json();
    assert_eq!(config["data.path"]["value"], "nowhere");
    assert_eq!(config["data.crop_padding"]["value"], 4);
}

#[test]
fn the_cpu_is_always_among_the_devices() {
    let folder = Folder::new();
    let devices = folder.oomph(&["devices", "--json"]).success().last_json();
    assert_eq!(devices["devices"][0]["name"], "cpu");
    assert!(devices["devices"][0]["memory_bytes"].as_u64().unwrap() > 0);
    let shown = folder.oomph(&["devices"]).success();
    assert!(shown.stdout.starts_with("device"), "{shown}");
    assert_eq!(devices["no_gpu"].is_null(), shown.stderr.is_empty(), "{shown}");
}

/// `oomph summary | head -1`
#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let folder = Folder::new();
    for arguments in [&["summary"][..], &["config"], &["summary", "--json"], &["completions", "zsh"]] {
        let mut command = folder.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut errors = String::new();
        child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        assert_eq!((child.wait().unwrap().code(), errors.as_str()), (Some(0), ""), "{arguments:?}");
    }
}
