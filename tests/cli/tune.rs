//! `tune`: a study of real trainings, in processes of this program.

use std::{fs, time::Duration};

use libc::{SIGINT, SIGKILL};
use serde_json::Value;

use crate::support::{Case, Folder, check, snapshot};

/// A study of the digits that takes some seconds.
const STUDY: &str = "\
[model]
name = 'lstm'
hidden = 8

[data]
source = 'digits'
layout = 'rows'
workers = 0

[train]
epochs = 4
batch = 64
seed = 1

[optimizer]
name = 'adamw'

[run]
log_every = 5

[tune]
trials = 8
eta = 2
parallel = 2

[tune.space]
'optimizer.lr' = { low = 1e-3, high = 0.1, log = true }
'model.hidden' = [4, 8, 16]
";

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("study.toml", STUDY);
    folder
}

fn tune(folder: &Folder, more: &[&str]) -> Value {
    let arguments = [&["tune", "--config", "study.toml", "--json"], more].concat();
    folder.oomph(&arguments).success().last_json()
}

#[test]
fn the_command_explains_itself() {
    let answer = Folder::new().oomph(&["tune", "--help"]).success();
    snapshot("help_tune", &answer.stdout);
}

#[test]
fn a_study_ends_with_a_config_that_trains_to_its_value() {
    let folder = folder();
    let status = tune(&folder, &[]);
    assert_eq!(status["trials"], 8);
    let states = status["states"].as_object().expect("states");
    assert_eq!(states.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), 8);
    assert!(states.keys().all(|state| state == "complete" || state == "pruned"), "{status}");
    for trial in status["best"].as_array().expect("trials") {
        // The plan is made in this process, and the peak is measured in the trial's.
        let bytes = |key: &str| trial[key].as_u64().expect("bytes") as f64;
        let difference = bytes("planned_peak_bytes") / bytes("measured_peak_bytes") - 1.0;
        assert!(difference.abs() < 0.02, "{trial}");
    }
    let replayed = folder.oomph(&["tune", "--name", "study", "--replay", "--json"]).success().last_json();
    assert_eq!(replayed["differences"].as_array().map(Vec::len), Some(0));

    // Trained by itself, without a pause, the best trial comes to the same loss and to the same bytes.
    let best =
        folder.oomph(&["tune", "--name", "study", "--best", "best.toml", "--json"]).success().last_json();
    let done = folder.oomph(&["train", "--config", "best.toml", "--json"]).success().last_json();
    assert_eq!(done["eval_loss"], best["value"]);
    let run = format!("tunes/study/trials/{:05}", best["trial"].as_u64().unwrap());
    let model =
        |run: &str| fs::read(folder.at(run).join("checkpoints/latest/model.safetensors")).expect("a model");
    assert!(model(&run) == model("runs/best"), "the paused trial ended otherwise");
}

#[test]
fn a_study_that_is_interrupted_goes_on() {
    let folder = folder();
    let mut child = folder.command(&["tune", "--config", "study.toml", "--json"]).spawn().expect("started");
    std::thread::sleep(Duration::from_millis(1500));
    // SAFETY: the child has not been waited for, so its id is its own.
    unsafe { libc::kill(child.id() as i32, SIGINT) };
    let code = child.wait().expect("ended").code();
    assert!(matches!(code, Some(130 | 0)), "{code:?}");
    let status = tune(&folder, &[]);
    assert_eq!((status["trials"].as_u64(), status["states"]["running"].as_u64()), (Some(8), None));
    folder.oomph(&["tune", "--name", "study", "--replay"]).success();
}

#[test]
fn a_study_that_is_killed_goes_on_at_once() {
    let folder = folder();
    let patient = ["--set", "tune.lease=3600", "--set", "train.epochs=40", "--set", "tune.min_epochs=40"];
    let start = [&["tune", "--config", "study.toml", "--json"], &patient[..]].concat();
    let mut killed = folder.start(&start);
    killed.wait_for("trains");
    killed.signal(SIGKILL);
    assert_eq!(killed.end(), None);
    let states = tune(&folder, &[&["--status"], &patient[..]].concat())["states"].clone();
    assert_eq!(
        (states["running"].as_u64(), states["interrupted"].as_u64() > Some(0)),
        (None, true),
        "{states}"
    );
    // An hour would pass if the lease were waited for.
    let few = [&patient[..], &["--set", "tune.trials=2"]].concat();
    let again = folder.oomph(&[&["tune", "--config", "study.toml", "--json"], &few[..]].concat()).success();
    // Trials that run side by side begin in any order.
    let begins = |event: &Value| event["event"] == "trains" && event["trial"] == 0;
    let first = again.json_lines().into_iter().find(begins).expect("trial 0 trains");
    assert_eq!(first["attempt"], 2);
    assert_eq!(again.last_json()["states"]["complete"], 2);
}

#[test]
fn a_study_of_two_trials_has_a_best_one() {
    let folder = folder();
    let status = tune(&folder, &["--set", "tune.trials=2", "--set", "tune.eta=3"]);
    assert_eq!(status["states"], serde_json::json!({ "complete": 1, "pruned": 1 }));
    let best = folder.oomph(&["tune", "--name", "study", "--best", "--json"]).success().last_json();
    assert_eq!(best["trial"], status["best"][0]["trial"]);
    let replayed = folder.oomph(&["tune", "--name", "study", "--replay", "--json"]).success().last_json();
    assert_eq!(replayed["differences"].as_array().map(Vec::len), Some(0), "{replayed}");
}

#[test]
fn a_plan_trains_nothing_and_a_limit_adapts_trials() {
    let folder = folder();
    let plan = |more: &[&str]| tune(&folder, &[&["--plan", "6"], more].concat());
    let fits = plan(&[]);
    assert!(!folder.at("tunes").exists());
    let points = fits["points"].as_array().expect("points");
    assert!(points.len() == 6 && points.iter().all(|point| point["result"] == "fits"), "{fits}");
    let peaks = points.iter().map(|point| point["planned_peak_bytes"].as_u64().unwrap());
    let (least, most) = (peaks.clone().min().unwrap(), peaks.max().unwrap());
    let limit = ((least + most) / 2).to_string();
    let limited = plan(&["--memory-limit", &limit]);
    let points = limited["points"].as_array().expect("points");
    assert!(points.iter().any(|point| point["result"] == "adapted"), "{limited}");
    // Nothing runs out of memory, and nothing is lost.
    let status = tune(&folder, &["--memory-limit", &limit]);
    assert_eq!(status["trials"], 8);
    assert!(status["states"]["failed"].is_null(), "{status}");
}

#[test]
fn an_enqueued_trial_is_the_first() {
    let folder = folder();
    let enqueued =
        tune(&folder, &["--set", "tune.scheduler=none", "--enqueue", "optimizer.lr=0.02,model.hidden=16"]);
    assert_eq!(enqueued["enqueued"], serde_json::json!([0]));
    let status = tune(&folder, &["--set", "tune.trials=2", "--set", "tune.scheduler=none"]);
    let first = status["best"].as_array().unwrap().iter().find(|trial| trial["trial"] == 0).expect("trial 0");
    assert_eq!(
        (&first["parameters"]["optimizer.lr"], &first["parameters"]["model.hidden"]),
        (&0.02.into(), &16.into())
    );
}

#[test]
fn a_page_shows_the_study() {
    let folder = folder();
    tune(&folder, &["--set", "tune.trials=2", "--set", "tune.scheduler=none", "--html", "study.html"]);
    let page = String::from_utf8(folder.read("study.html")).expect("text");
    assert!(page.contains("optimizer.lr") && page.ends_with("</html>\n"), "{} bytes", page.len());
    let written = folder.oomph(&["tune", "--name", "study", "--html", "again.html", "--json"]).success();
    assert_eq!(written.last_json(), serde_json::json!({ "written": "again.html" }));
    // It replaces no file unasked.
    let again = folder.oomph(&["tune", "--name", "study", "--html", "study.html"]);
    assert_eq!(again.code, Some(1), "{again}");
}

#[test]
fn mistakes_are_named() {
    let case = |about, arguments: &[&'static str]| {
        Case::new(about, arguments).after(|folder| folder.write("study.toml", STUDY))
    };
    let cases = [
        case("a config without a study", &["tune", "--config", "lstm"]),
        case("no study of that name", &["tune", "--name", "nowhere", "--status"]),
        case("no study yet", &["tune", "--config", "study.toml", "--status"]),
        case("a key that is not searched", &["tune", "--config", "study.toml", "--enqueue", "train.batch=3"]),
        case(
            "a value outside of its domain",
            &["tune", "--config", "study.toml", "--enqueue", "model.hidden=5"],
        ),
        case(
            "a parameter whose condition does not hold",
            &[
                "tune",
                "--config",
                "study.toml",
                "--set",
                "tune.space.optimizer.name=['sgd','adamw']",
                "--set",
                "tune.space.optimizer.momentum={low=0.0,high=0.9,when='optimizer.name = sgd'}",
                "--enqueue",
                "optimizer.name=adamw,optimizer.momentum=0.5",
            ],
        ),
        case("no point", &["tune", "--config", "study.toml", "--enqueue", "fast"]),
        case(
            "a value that the model refuses",
            &["tune", "--config", "study.toml", "--plan", "--set", "tune.space.model.hidden=[0,8]"],
        ),
        case("steps and epochs", &["tune", "--config", "study.toml", "--plan", "--set", "tune.min_steps=5"]),
        case(
            "repeatable without a number",
            &[
                "tune",
                "--config",
                "study.toml",
                "--set",
                "tune.deterministic=true",
                "--set",
                "tune.parallel=auto",
            ],
        ),
        case(
            "a typo in a table's name",
            &["tune", "--config", "study.toml", "--set", "tune.spce.train.batch=[8,16]"],
        ),
        case("a plan of nothing", &["tune", "--config", "study.toml", "--plan", "0"]),
        case("two actions", &["tune", "--config", "study.toml", "--status", "--replay"]),
        case("a page over a folder", &["tune", "--config", "study.toml", "--html", "."]),
    ];
    check("tune_mistakes", &cases);
}

#[test]
fn another_configuration_is_refused_with_what_differs() {
    let folder = folder();
    tune(&folder, &["--set", "tune.trials=1", "--set", "tune.scheduler=none"]);
    let answer = folder.oomph(&[
        "tune",
        "--config",
        "study.toml",
        "--set",
        "tune.scheduler=none",
        "--set",
        "train.epochs=5",
    ]);
    assert_eq!(answer.code, Some(1), "{answer}");
    for part in ["train.epochs", "4", "5", "hint: undo the change"] {
        assert!(answer.stderr.contains(part), "{part}: {answer}");
    }
    let space = "tune.space.optimizer.lr={low=1e-3,high=1.0,log=true}";
    let answer =
        folder.oomph(&["tune", "--config", "study.toml", "--set", "tune.scheduler=none", "--set", space]);
    let says = "error: the parameter `optimizer.lr` is a number from 0.001 to 0.1, on a logarithmic scale in the study, and \
                a number from 0.001 to 1, on a logarithmic scale here\n";
    assert!(answer.stderr.starts_with(says), "{answer}");
}
