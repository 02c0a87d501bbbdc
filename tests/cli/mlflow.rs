//! Runs in MLflow's file store, by their files and by MLflow itself. `OOMPH_MLFLOW_PYTHON` names a Python that has MLflow.

use std::{env, fs, path::PathBuf, process::Command};

use oomph_test_support::{Missing, browse_with, has_module, skip};
use serde_json::{Value, json};

use crate::support::Folder;

/// The folder of the only run in a store.
fn only_run(folder: &Folder, store: &str) -> PathBuf {
    let folders = |path: PathBuf| {
        let entries = fs::read_dir(path).expect("a folder").flatten().map(|entry| entry.path());
        entries.filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let [experiment] = &folders(folder.at(store))[..] else { panic!("one experiment") };
    let [run] = &folders(experiment.clone())[..] else { panic!("one run") };
    run.clone()
}

/// The steps and values of a metric.
fn metric(run: &std::path::Path, tag: &str) -> Vec<(usize, f64)> {
    let text = fs::read_to_string(run.join("metrics").join(tag)).expect("a metric");
    let point = |line: &str| {
        let fields: Vec<_> = line.split(' ').collect();
        assert!(fields[0].parse::<u64>().expect("milliseconds") > 1_700_000_000_000, "{line}");
        (fields[2].parse().expect("a step"), fields[1].parse().expect("a value"))
    };
    text.lines().map(point).collect()
}

/// What `metrics.jsonl` has under a field: steps with values. Of steps that a resumed run repeated, the last ones.
fn logged(folder: &Folder, event: &str, field: &str) -> Vec<(usize, f64)> {
    let text = String::from_utf8(folder.read("run/metrics.jsonl")).expect("UTF-8");
    let mut found: Vec<(usize, f64)> = Vec::new();
    for line in text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")) {
        if line["event"] == "started" {
            let first = line["first_step"].as_u64().expect("a step") as usize;
            found.retain(|(step, _)| *step <= first);
        } else if line["event"] == event
            && let Some(value) = line[field].as_f64()
        {
            found.push((line["step"].as_u64().expect("a step") as usize, value));
        }
    }
    found
}

#[test]
fn a_resumed_run_continues_its_run_and_has_each_step_once() {
    let folder = Folder::new();
    let mlflow = ["--quiet", "--set", "run.mlflow=true", "--set", "run.save_every=4 steps"];
    folder.train(&mlflow).success();
    let run = only_run(&folder, "mlruns");
    let before = fs::read_to_string(run.join("meta.yaml")).expect("a run");
    assert!(before.contains("\nstatus: 3\n") && before.contains("run_name: \"run\"\n"), "{before}");
    assert_eq!(metric(&run, "loss/train"), logged(&folder, "step", "loss"));
    // From a checkpoint before the end: steps 5 and 6 come again.
    folder.oomph(&["train", "--resume", "run/4", "--quiet", "--set", "train.steps=8"]).success();
    assert_eq!(only_run(&folder, "mlruns"), run);
    for (tag, event, field) in [
        ("loss/train", "step", "loss"),
        ("optimizer/learning_rate", "step", "lr"),
        ("loss/eval", "eval", "eval_loss"),
        ("memory/peak_in_use", "step", "peak_in_use_bytes"),
    ] {
        assert_eq!(metric(&run, tag), logged(&folder, event, field), "{tag}");
    }
    assert_eq!(metric(&run, "loss/train").last().map(|(step, _)| *step), Some(8));
    assert_eq!(fs::read_to_string(run.join("params/train.steps")).expect("a parameter"), "8");
}

#[test]
fn the_status_says_how_a_run_ended() {
    let folder = Folder::new();
    let status = |folder: &Folder| {
        let meta = fs::read_to_string(only_run(folder, "logs/mlflow").join("meta.yaml")).expect("a run");
        meta.lines().find_map(|line| line.strip_prefix("status: ").map(str::to_owned)).expect("a status")
    };
    let running = folder.start_long_of("tiny.toml", &["--set", "run.mlflow=logs/mlflow"]);
    assert_eq!(status(&folder), "1");
    running.signal(libc::SIGINT);
    assert_eq!(running.end(), Some(130));
    assert_eq!(status(&folder), "5");
    let folder = Folder::new();
    folder.train(&[
        "--quiet",
        "--set",
        "run.mlflow=logs/mlflow",
        "--set",
        "optimizer.lr=3e38",
        "--set",
        "train.steps=8",
    ]);
    assert_eq!(status(&folder), "4");
}

#[test]
fn a_tracking_uri_is_no_folder() {
    let folder = Folder::new();
    let answer = folder.train(&["--set", "run.mlflow=http://localhost:5000"]);
    assert_eq!(answer.code, Some(1), "{answer}");
    let says = "error: --set run.mlflow=http://localhost:5000: expected `true`, `false`, or the folder of an MLflow file store";
    assert!(answer.stderr.starts_with(says), "{answer}");
    assert!(!folder.at("run").exists());
}

#[test]
fn mlflow_reads_what_the_log_has() {
    let folder = Folder::new();
    folder.write("odd ü.toml", crate::support::TINY);
    let mlflow = ["--quiet", "--set", "run.mlflow=true", "--set", "run.save_every=4 steps"];
    folder.oomph(&[&["train", "--config", "odd ü.toml"], &mlflow[..]].concat()).success();
    folder.oomph(&["train", "--resume", "run", "--quiet", "--set", "train.steps=9"]).success();
    let Some(python) = env::var_os("OOMPH_MLFLOW_PYTHON") else { return skip(Missing::Mlflow) };
    let tool = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/mlflow_read.py");
    let output = Command::new(python).arg(tool).arg(folder.at("mlruns")).output().expect("Python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let runs = found["odd ü"].as_array().expect("the experiment");
    assert_eq!(runs.len(), 1, "{found}");
    let run = &runs[0];
    assert_eq!((&run["status"], &run["name"]), (&json!("FINISHED"), &json!("run")));
    assert_eq!(run["params"]["model.hidden"], "8");
    assert_eq!(run["params"]["train.steps"], "9");
    assert_eq!((&run["tags"]["oomph.model"], &run["artifacts"]), (&json!("lstm"), &json!(["config.toml"])));
    assert!(run["end_time"].as_u64() > run["start_time"].as_u64());
    for (tag, event, field) in [
        ("loss/train", "step", "loss"),
        ("accuracy/train", "step", "accuracy"),
        ("optimizer/learning_rate", "step", "lr"),
        ("speed/samples_per_second", "step", "samples_per_second"),
        ("memory/in_use", "step", "in_use_bytes"),
        ("loss/eval", "eval", "eval_loss"),
        ("accuracy/eval", "eval", "eval_accuracy"),
    ] {
        let points = run["metrics"][tag].as_array().expect(tag);
        let points: Vec<_> =
            points.iter().map(|it| (it[0].as_u64().unwrap() as usize, it[1].as_f64().unwrap())).collect();
        assert_eq!(points, logged(&folder, event, field), "{tag}");
    }
}

#[test]
fn the_ui_of_mlflow_shows_the_runs_and_their_curves() {
    let folder = Folder::new();
    for seed in ["1", "2"] {
        let words = ["--quiet", "--seed", seed, "--set", "run.mlflow=true"];
        folder.train(&[&words[..], &["--set", &format!("run.directory=run{seed}")]].concat()).success();
    }
    match env::var_os("OOMPH_MLFLOW_PYTHON") {
        // What the UI needs and `mlflow-skinny` lacks.
        Some(python) if has_module(&python, "flask") => {
            browse_with(python, "mlflow_ui_check.py", [folder.at("mlruns")]);
        }
        _ => skip(Missing::MlflowUi),
    }
}
