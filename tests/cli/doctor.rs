//! `doctor`: its checks of this machine, and its exit code.

use oomph_test_support::{Missing, skip};
use serde_json::Value;

use crate::support::{Folder, snapshot};

/// Whether this machine has an NVIDIA GPU, with or without a driver: the output depends on it.
fn has_gpu() -> bool {
    let cards = std::fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten();
    let vendor = |card: std::fs::DirEntry| std::fs::read_to_string(card.path().join("vendor")).ok();
    ["/dev/nvidia0", "/dev/dxg"].iter().any(|file| std::path::Path::new(file).exists())
        || cards.filter_map(vendor).any(|vendor| vendor.trim() == "0x10de")
}

fn states(answer: &Value) -> Vec<(&str, &str)> {
    let checks = answer["checks"].as_array().expect("a list");
    checks
        .iter()
        .map(|check| (check["name"].as_str().expect("a name"), check["state"].as_str().expect("a state")))
        .collect()
}

#[test]
fn every_check_has_a_state_and_a_finding() {
    let answer = Folder::new().oomph(&["doctor", "--json"]);
    assert_eq!(answer.json_lines().len(), 1);
    let json = answer.last_json();
    let keys: Vec<_> = json.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["checks", "problems"]);
    let states = states(&json);
    for name in ["build", "processor", "host memory", "shared memory", "open files", "disk", "cache", "GPUs"]
    {
        assert!(states.iter().any(|(found, _)| *found == name), "{name}: {states:?}");
    }
    assert!(
        states.iter().all(|(_, state)| ["ok", "warning", "problem", "skipped"].contains(state)),
        "{states:?}"
    );
    for check in json["checks"].as_array().expect("a list") {
        assert!(check["finding"].as_str().is_some_and(|text| !text.is_empty()), "{check}");
        let wrong = ["warning", "problem"].iter().any(|state| check["state"] == *state);
        assert_eq!(check["hint"].is_string(), wrong, "{check}");
    }
    let problems = states.iter().filter(|(_, state)| *state == "problem").count();
    assert_eq!(json["problems"], problems);
    assert_eq!(answer.code, Some(i32::from(problems > 0)));
}

#[test]
fn without_a_gpu_its_checks_are_skipped() {
    if has_gpu() {
        return skip(Missing::MachineWithoutGpu);
    }
    let answer = Folder::new().oomph(&["doctor", "--devices", "cpu"]).success();
    let line = |name: &str| answer.stdout.lines().find(|line| line.starts_with(name)).expect(name).to_owned();
    assert!(line("GPUs").contains("skipped  there is no NVIDIA GPU in this machine"), "{answer}");
    assert!(line("cpu ").contains("ok       opened; a matrix product is correct"), "{answer}");
    assert!(line("disk").contains("free in `[FOLDER]`"), "{answer}");
    assert_eq!(answer.stderr, "");
}

#[test]
fn a_gpu_that_is_asked_for_must_be_there() {
    if has_gpu() {
        return skip(Missing::MachineWithoutGpu);
    }
    let folder = Folder::new();
    let answer = folder.oomph(&["doctor", "--devices", "cuda:0"]);
    assert_eq!(answer.code, Some(1), "{answer}");
    // The checks before those of GPUs depend on the machine.
    let start = answer.stdout.find("GPUs").expect("a check of the hardware");
    snapshot("doctor_no_gpu", &answer.stdout[start..]);
    let json = folder.oomph(&["doctor", "--devices", "cuda:0", "--json"]).last_json();
    let states = states(&json);
    for name in ["GPUs", "CUDA in the build", "NVIDIA driver", "cuda:0"] {
        assert!(states.contains(&(name, "problem")), "{name}: {states:?}");
    }
}

#[test]
fn what_is_no_device_is_refused() {
    let answer = Folder::new().oomph(&["doctor", "--devices", "gpu"]);
    assert_eq!(answer.code, Some(2));
    assert!(
        answer.stderr.contains("`gpu` is not a device; expected `cpu`, `cuda:N` or `vulkan:N`"),
        "{answer}"
    );
}
