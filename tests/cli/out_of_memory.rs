//! Reports of measured and planned shortages of memory, and how a training continues after one.

use serde_json::Value;

use crate::support::{Answer, Folder, limit, percent_of_peak, snapshot, without_numbers};

/// Without batch normalisation micro-batches change nothing; without lean layers the batch needs some MiB.
const LSTM: &str = "\
[model]
name = 'lstm'
hidden = 32

[data]
source = 'digits'
layout = 'rows'
workers = 0

[train]
batch = 256
steps = 12
eval_every = '6 steps'

[memory]
lean = false

[run]
directory = 'run'
log_every = 4
";

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("net.toml", LSTM);
    folder
}

fn train(folder: &Folder, arguments: &[&str]) -> Answer {
    folder.oomph(&[&["train", "--config", "net.toml"], arguments].concat())
}

fn planned_peak(folder: &Folder) -> u64 {
    let plan =
        folder.oomph(&["plan", "--config", "net.toml", "--json", "--batch", "256"]).success().last_json();
    plan["batches"][0]["planned_peak_bytes"].as_u64().expect("bytes")
}

/// The text with numbers masked, and without other programs.
fn shape(text: &str) -> String {
    let is_machine = |line: &&str| !line.contains("other processes hold") && !line.contains("process N");
    let lines = text
        .lines()
        .filter(is_machine)
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n");
    without_numbers(&lines.collect::<String>())
}

#[test]
fn what_cannot_fit_is_refused_with_what_would() {
    let folder = folder();
    let limit = percent_of_peak(planned_peak(&folder), 80);
    let answer = train(&folder, &["--memory-limit", &limit]);
    assert_eq!((answer.code, answer.stdout.as_str()), (Some(75), ""), "{answer}");
    assert!(!folder.at("run").exists(), "nothing was begun");
    snapshot("out_of_memory_refused", &shape(&answer.stderr));
    for file in ["report.txt", "report.json", "timeline.html"] {
        assert!(folder.at(&format!("out-of-memory/net/{file}")).is_file(), "{file}");
    }
    let again = train(&folder, &["--memory-limit", &limit, "--json"]);
    let error = again.last_json();
    assert_eq!((again.code, &error["event"]), (Some(75), &Value::from("error")));
    let levers = error["out_of_memory"]["levers"].as_array().expect("levers").clone();
    assert!(levers.iter().any(|lever| lever["settings"][0][0] == "memory.micro_batch"), "{error}");
    assert!(folder.at("out-of-memory/net-2/report.json").is_file(), "the first report stays");
}

#[test]
fn what_runs_out_while_it_trains_says_where_and_keeps_the_last_step() {
    let folder = folder();
    let limit = percent_of_peak(planned_peak(&folder), 80);
    let answer = train(&folder, &["--memory-limit", &limit, "--no-plan-check", "--quiet"]);
    assert_eq!(answer.code, Some(75), "{answer}");
    snapshot("out_of_memory_in_training", &shape(&answer.stderr));
    let text = String::from_utf8(folder.read("run/out-of-memory/report.txt")).unwrap();
    assert!(answer.stderr.contains(text.lines().next().unwrap()), "{text}");
    let report: Value = serde_json::from_slice(&folder.read("run/out-of-memory/report.json")).unwrap();
    let [phase, step] = [&report["phase"], &report["step"]];
    assert_eq!((phase, step), (&Value::from("forward"), &Value::from(1)), "{report}");
    assert_eq!(report["is_measured"], true);
}

#[test]
fn a_step_that_releases_gradients_is_finished_before_its_shortage_ends_the_training() {
    let folder = folder();
    let release = ["--set", "memory.gradients=release"];
    let plan = ["plan", "--config", "net.toml", "--json", "--batch", "256"];
    let plan = folder.oomph(&[&plan[..], &release].concat()).success().last_json();
    assert_eq!(plan["batches"][0]["peak_phase"], "backward", "{plan}");
    let limit = percent_of_peak(plan["batches"][0]["planned_peak_bytes"].as_u64().expect("bytes"), 99);
    let short = ["--memory-limit", &limit, "--no-plan-check", "--quiet"];
    let answer = train(&folder, &[&short[..], &release].concat());
    assert_eq!(answer.code, Some(75), "{answer}");
    assert!(answer.stderr.contains("error: out of memory in backward"), "{answer}");
    assert!(answer.stderr.contains("of step 1: an allocation"), "{answer}");
    assert!(answer.stderr.contains("step 1, the last finished step, is saved in"), "{answer}");
    // What it saved is what a training with enough memory has after its first step.
    let folders =
        ["--set", "run.directory=enough", "--set", "run.save_every=1 steps", "--set", "train.steps=1"];
    train(&folder, &[&folders[..], &["--quiet", "--set", "train.eval_every=never"]].concat()).success();
    for file in ["model.safetensors", "optimizer.safetensors"] {
        let of = |run: &str| folder.read(&format!("{run}/checkpoints/step-00000001/{file}"));
        assert!(of("run") == of("enough"), "{file}");
    }
    // A training that keeps its gradients undoes the step.
    let kept = train(
        &folder,
        &["--memory-limit", &limit, "--no-plan-check", "--quiet", "--set", "run.directory=kept"],
    );
    assert_eq!(kept.code, Some(75), "{kept}");
    assert!(kept.stderr.contains("no step was finished"), "{kept}");
}

#[test]
fn equal_replicas_save_the_step_in_which_all_ran_out_while_they_released_gradients() {
    let folder = folder();
    let ddp = ["--devices", "cpu,cpu", "--set", "device.bucket=1KiB", "--set", "memory.gradients=release"];
    let plan = ["plan", "--config", "net.toml", "--json", "--batch", "256"];
    let plan = folder.oomph(&[&plan[..], &ddp].concat()).success().last_json();
    let limit = percent_of_peak(plan["batches"][0]["planned_peak_bytes"].as_u64().expect("bytes"), 98);
    let answer =
        train(&folder, &[&ddp[..], &["--memory-limit", &limit, "--no-plan-check", "--quiet"]].concat());
    assert_eq!(answer.code, Some(75), "{answer}");
    assert!(answer.stderr.contains("out of memory in backward"), "{answer}");
    assert!(folder.at("run/checkpoints/step-00000001/model.safetensors").is_file(), "{answer}");
}

#[test]
fn a_rank_without_samples_releases_its_sums_bucket_by_bucket() {
    let folder = folder();
    // 1,438 samples: the last batch has one for three ranks.
    let ddp =
        ["--devices", "cpu,cpu,cpu", "--set", "device.bucket=1KiB", "--set", "memory.gradients=release"];
    let small =
        ["--batch", "3", "--epochs", "1", "--set", "train.eval_every=never", "--set", "memory.lean=true"];
    let deep = ["--set", "model.hidden=96", "--set", "model.layers=4", "--json"];
    let words = [&ddp[..], &small, &deep].concat();
    let answer = train(&folder, &words);
    let planned = answer.json_lines().into_iter().find_map(|event| event["planned_peak_bytes"].as_u64());
    let (planned, used) =
        (planned.expect("a plan"), end(answer)["peak_in_use_bytes"].as_u64().expect("bytes"));
    assert!(used as f64 <= 1.01 * planned as f64, "planned {planned}, in use {used}");
}

#[test]
fn a_shortage_on_a_later_device_ends_the_training_after_the_step_that_released_gradients() {
    let folder = folder();
    let wide = ["--devices", "cpu,cpu", "--strategy", "model", "--set", "device.split_points=['lstm.1']"];
    let release = ["--set", "memory.gradients=release", "--set", "model.layers=3", "--set", "train.steps=1"];
    let plan = ["plan", "--config", "net.toml", "--json", "--batch", "256"];
    let plan = folder.oomph(&[&plan[..], &wide, &release[..4]].concat()).success().last_json();
    let peaks: Vec<u64> = plan["devices"]
        .as_array()
        .unwrap_or_else(|| panic!("{plan}"))
        .iter()
        .map(|device| device["planned_peak_bytes"].as_u64().expect("bytes"))
        .collect();
    assert!(peaks[1] > peaks[0], "{plan}");
    let limit = percent_of_peak(peaks[1], 99);
    let short = ["--memory-limit", &limit, "--no-plan-check", "--quiet", "--set", "train.eval_every=never"];
    let answer = train(&folder, &[&wide[..], &release, &short].concat());
    assert_eq!(answer.code, Some(75), "{answer}");
    assert!(answer.stderr.contains("error: device 1 (`cpu`) failed"), "{answer}");
    assert!(answer.stderr.contains("out of memory in backward of step 1"), "{answer}");
    assert!(answer.stderr.contains("step 1, the last finished step, is saved in"), "{answer}");
}

#[test]
fn evaluation_and_profile_say_the_same() {
    let folder = folder();
    train(&folder, &["--quiet"]).success();
    let evaluate =
        ["evaluate", "--checkpoint", "run", "--set", "train.eval_batch=359", "--memory-limit", &limit(5120)];
    let answer = folder.oomph(&evaluate);
    assert_eq!(answer.code, Some(75), "{answer}");
    assert!(answer.stderr.contains("error: out of memory in eval at `lstm.0"), "{answer}");
    assert!(answer.stderr.contains("train.eval_batch="), "{answer}");
    assert!(folder.at("out-of-memory/run/timeline.html").is_file(), "{answer}");

    let limit = percent_of_peak(planned_peak(&folder), 80);
    let answer = folder.oomph(&["profile", "--config", "net.toml", "--memory-limit", &limit]);
    assert_eq!(answer.code, Some(75), "{answer}");
    assert!(answer.stderr.contains("error: out of memory in forward"), "{answer}");
    assert!(answer.stderr.contains("--set memory.micro_batch="), "{answer}");
}

/// The last event of a training.
fn end(answer: Answer) -> Value {
    let last = answer.success().last_json();
    assert_eq!(last["event"], "done", "{last}");
    last
}

fn assert_same_loss(one: &Value, other: &Value) {
    for key in ["loss", "eval_loss"] {
        let [a, b] = [one, other].map(|end| end[key].as_f64().unwrap_or_else(|| panic!("`{key}` of {end}")));
        assert!((a - b).abs() <= 1e-4 * a.abs(), "{key}: {a} and {b}");
    }
}

#[test]
fn a_training_that_may_adapt_ends_as_one_with_enough_memory() {
    let whole = folder();
    let enough = end(train(&whole, &["--json"]));
    let limit = percent_of_peak(planned_peak(&whole), 80);
    let adapt = ["--memory-limit", &limit, "--set", "memory.on_oom=adapt", "--json"];

    // By its plan, before the training starts.
    let folder = folder();
    let answer = train(&folder, &adapt);
    let adapted =
        answer.json_lines().into_iter().find(|event| event["event"] == "adapted").expect("it adapts");
    assert_eq!(adapted["step"], 0);
    let settings = adapted["settings"].as_object().expect("settings").clone();
    assert!(!settings.is_empty() && settings.keys().all(|key| key.starts_with("memory.")), "{settings:?}");
    assert_same_loss(&enough, &end(answer));
    let config = String::from_utf8(folder.read("run/config.toml")).unwrap();
    for (key, value) in &settings {
        let line = format!("{} = {}", key.trim_start_matches("memory."), text(value));
        assert!(config.replace('"', "").contains(&line), "{line}: {config}");
    }
    assert!(config.contains("batch = 256"), "{config}");

    // The run's own config keeps the setting; another one counts, and the training adapts again.
    let adapts = |arguments: &[&str]| {
        let answer = folder.oomph(arguments).success();
        answer.json_lines().iter().filter(|event| event["event"] == "adapted").count()
    };
    assert_eq!(adapts(&["train", "--resume", "run", "--set", "train.steps=13", "--json"]), 0);
    let named = ["train", "--config", "net.toml", "--resume", "--set", "train.steps=14"];
    assert_eq!(adapts(&[&named[..], &adapt].concat()), 1);

    // After running out of memory, in the first step and in a later one: here an evaluation needs the most.
    for late in
        [&[][..], &["--set", "train.batch=128", "--set", "train.eval_batch=359", "--set", "train.steps=9"]]
    {
        let whole = self::folder();
        let enough = end(train(&whole, &[&["--json"], late].concat()));
        let folder = self::folder();
        let answer = train(&folder, &[&adapt[..], &["--no-plan-check"], late].concat());
        let events = answer.json_lines();
        let kinds: Vec<_> = events.iter().filter_map(|event| event["event"].as_str()).collect();
        assert!(kinds.contains(&"adapted"), "{answer}");
        assert_eq!(kinds.iter().filter(|kind| **kind == "started").count(), 2, "{answer}");
        assert_same_loss(&enough, &end(answer));
    }
}

#[test]
fn what_no_micro_batch_helps_is_told_and_ends() {
    let folder = folder();
    let arguments = ["--memory-limit", &limit(3072), "--set", "memory.on_oom=adapt", "--no-plan-check"];
    let answer = train(&folder, &arguments);
    assert_eq!(answer.code, Some(75), "{answer}");
    assert!(answer.stderr.contains("no setting makes it fit"), "{answer}");
}

#[test]
fn a_training_that_adapts_goes_on_from_where_it_was_resumed() {
    let folder = folder();
    train(&folder, &["--quiet", "--set", "train.batch=64", "--set", "train.eval_batch=359"]).success();
    let elsewhere =
        ["train", "--resume", "run", "--set", "run.directory='else where'", "--set", "train.steps=16"];
    let evaluation = ["--set", "train.eval_batch=8", "--memory-limit", &limit(3600)];
    let adapt = ["--set", "memory.on_oom=adapt", "--no-plan-check", "--json"];
    let answer = folder.oomph(&[&elsewhere[..], &evaluation, &adapt].concat()).success();
    let started: Vec<_> =
        answer.json_lines().into_iter().filter(|event| event["event"] == "started").collect();
    let steps: Vec<_> = started.iter().map(|event| event["first_step"].as_u64()).collect();
    assert_eq!(steps, [Some(12), Some(12)], "{answer}");
    assert_eq!(answer.last_json()["step"], 16);
}

#[test]
fn what_is_too_large_in_two_places_is_made_smaller_in_both() {
    let folder = folder();
    // One of the two settings alone leaves the other above the limit.
    let lean = ["--set", "memory.lean=true"];
    let most = limit(3800);
    let arguments = [&lean[..], &["--set", "train.eval_batch=359", "--memory-limit", &most]].concat();
    let answer = train(&folder, &[&arguments[..], &["--json"]].concat());
    let levers = answer.last_json()["out_of_memory"]["levers"].as_array().expect("levers").clone();
    let settings = levers[0]["settings"].as_array().expect("settings").clone();
    let flags: Vec<String> =
        settings.iter().map(|pair| format!("{}={}", text(&pair[0]), text(&pair[1]))).collect();
    assert!(
        flags[0].starts_with("memory.micro_batch=") && flags[1].starts_with("train.eval_batch="),
        "{flags:?}"
    );
    // The micro-batches are no smaller than necessary.
    assert!(flags[0] != "memory.micro_batch=1", "{flags:?}");
    let sets: Vec<&str> = flags.iter().flat_map(|flag| ["--set", flag]).collect();
    let last = [&sets[..], &lean, &["--memory-limit", &most, "--no-plan-check", "--quiet"]].concat();
    train(&folder, &last).success();
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

#[test]
fn an_evaluation_is_advised_about_itself() {
    let folder = folder();
    train(&folder, &["--quiet"]).success();
    let evaluate = ["evaluate", "--checkpoint", "run", "--memory-limit", &limit(3500)];
    let answer = folder.oomph(&[&evaluate[..], &["--set", "train.eval_batch=359", "--json"]].concat());
    let report = &answer.last_json()["out_of_memory"];
    assert_eq!((answer.code, &report["title"]), (Some(75), &Value::from("lstm · evaluation batch 359")));
    let levers = report["levers"].as_array().expect("levers");
    assert_eq!(levers.len(), 1, "{report}");
    let flag = format!("{}={}", text(&levers[0]["settings"][0][0]), text(&levers[0]["settings"][0][1]));
    assert!(flag.starts_with("train.eval_batch="), "{flag}");
    folder.oomph(&[&evaluate[..], &["--set", &flag]].concat()).success();
}
