//! `verify-gpu`: its checks, its file, and that no training stops another.

use std::process::{Child, Stdio};

use libc::{SIGINT, SIGKILL};
use serde_json::Value;

use crate::{
    children::{check_that_signals_leave_none, child_of, signal, wait_for},
    support::{Case, Folder, check, snapshot, without_numbers, without_units},
};

fn read(folder: &Folder, path: &str) -> Value {
    serde_json::from_slice(&folder.read(path)).expect("JSON")
}

fn checks(report: &Value) -> &[Value] {
    report["checks"].as_array().expect("checks")
}

fn number(row: &Value, key: &str) -> f64 {
    row["values"][key].as_f64().unwrap_or_else(|| panic!("`{key}` of {row}"))
}

#[test]
fn the_cpu_equals_itself_in_every_check() {
    let folder = Folder::new();
    let answer = folder.oomph(&["verify-gpu", "--devices", "cpu", "--quick"]).success();
    // Not the unit of seconds.
    let text = without_numbers(&answer.stdout).replace("steps", "STEPS").replace("samples", "SAMPLES");
    let shown = without_units(&text);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n";
    // The processor's name and the whole time are those of this machine.
    let lines = shown.lines().filter(|line| !line.starts_with("device") && !line.contains(" passed, "));
    snapshot("verify_gpu", &lines.map(words).collect::<String>());
    assert!(answer.stdout.trim_end().ends_with("please send this file to the project, on its issue page"));
    let report = read(&folder, "verify-gpu.json");
    assert_eq!([&report["failed"], &report["skipped"]], [0, 1]);
    assert_eq!(answer.stderr.lines().count(), checks(&report).len(), "{}", answer.stderr);
    for row in checks(&report) {
        let verdict = if row["name"] == "card" { "skipped" } else { "pass" };
        assert_eq!(row["verdict"], verdict, "{row}");
        assert!(row["compares"].is_string() && row["finding"].is_string() && row["error"].is_null(), "{row}");
        match row["name"].as_str().expect("a name") {
            "numerics" => {
                assert_eq!((number(row, "largest_difference"), row["limit"].as_f64()), (0.0, Some(0.0)));
                let losses = row["values"]["losses"].as_array().expect("losses");
                assert!(losses.len() == 3 && losses.iter().all(Value::is_number), "{row}");
            }
            "memory" => assert!(number(row, "in_use_difference").abs() <= 0.03, "{row}"),
            "speed" => assert!(number(row, "step_seconds") > 0.0, "{row}"),
            "first step" => assert!(row["values"]["cold"]["seconds"].as_f64() > Some(0.0), "{row}"),
            _ => {}
        }
    }
    // The caches of compiled kernels are gone.
    let left = std::fs::read_dir(folder.at("cache/oomph")).map_or(0, Iterator::count);
    assert_eq!(left, 0);
}

/// Starts the command and waits for its first child.
fn start(folder: &Folder) -> (Child, u32) {
    let mut command = folder.command(&["verify-gpu", "--devices", "cpu"]);
    let running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary starts");
    let child = wait_for(|| child_of(running.id()));
    (running, child)
}

#[test]
fn a_killed_training_fails_its_check_alone_and_a_signal_keeps_what_was_found() {
    let folder = Folder::new();
    let (mut running, child) = start(&folder);
    signal(child, SIGKILL);
    wait_for(|| child_of(running.id()).filter(|next| *next != child));
    signal(running.id(), SIGINT);
    assert_eq!(running.wait().expect("a child of this process").code(), Some(130));
    let report = read(&folder, "verify-gpu.json");
    assert_eq!((&report["interrupted"], &report["failed"]), (&true.into(), &1.into()));
    let [device, killed] = checks(&report) else { panic!("{report}") };
    assert_eq!((&device["name"], &device["verdict"]), (&"device".into(), &"pass".into()));
    assert_eq!((&killed["name"], &killed["verdict"]), (&"numerics".into(), &"fail".into()));
    assert!(killed["error"].as_str().expect("an error").contains("killed by signal 9"), "{killed}");
}

#[test]
fn signals_leave_no_child_behind() {
    check_that_signals_leave_none(Folder::new, start);
}

#[test]
fn what_cannot_be_verified_is_said() {
    check(
        "malformed_verify_gpu",
        &[
            Case::new("no GPU", &["verify-gpu"]),
            Case::new("no such device", &["verify-gpu", "--devices", "gpu"]),
            Case::new("a file that exists", &["verify-gpu", "--devices", "cpu"])
                .after(|folder| folder.write("verify-gpu.json", "{}")),
            Case::new("a folder", &["verify-gpu", "--devices", "cpu", "--out", "found", "--force"])
                .after(|folder| folder.write("found/x", "")),
            Case::new("a missing folder", &["verify-gpu", "--devices", "cpu", "--out", "none/x.json"]),
        ],
    );
}
