//! `compare`: its rows, its failures, and that no child is left running.

use std::{
    io::{Read, Write},
    process::{Child, Stdio},
};

use libc::{SIGINT, SIGKILL};
use serde_json::Value;

use crate::{
    children::{check_that_signals_leave_none, child_of, signal, wait_for},
    support::{Case, Folder, check, snapshot, without_numbers},
};

/// A ResNet on the digits with steps of some milliseconds, and settings of its own optimizer.
const RESNET: &str = "\
[model]
name = 'resnet18'
stem = 'small'
width = 16

[data]
source = 'digits'
workers = 0

[optimizer]
name = 'sgd'
lr = 0.05
momentum = 0.8
nesterov = true
weight_decay = 5e-4
";

/// What adafactor keeps for a parameter of it: every value of the 1,200 scales and shifts of batch norms and of the head's
/// 10 biases; of every weight its rows and columns, 25 + 640 + 1,184 + 2,368 + 4,736 of convolutions and 138 of the head.
const ROWS_AND_COLUMNS: f64 = 4.0 * (2.0 * 1_200.0 + 10.0 + 8_953.0 + 138.0) / 701_178.0;

/// The maximum number of samples, since a batch is never larger than the data.
const PLENTY: [&str; 4] = ["--set", "data.source=synthetic", "--set", "data.train_samples=100000000"];

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("net.toml", RESNET);
    folder
}

/// The rows of a comparison of the ResNet.
fn rows(folder: &Folder, arguments: &[&str]) -> Vec<Value> {
    let arguments = [&["compare", "--config", "net.toml", "--json"], arguments].concat();
    let answer = folder.oomph(&arguments).success().last_json();
    answer["rows"].as_array().expect("rows").clone()
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("`{key}` of {row}"))
}

#[test]
fn the_command_explains_itself() {
    let answer = Folder::new().oomph(&["compare", "--help"]).success();
    snapshot("help_compare", &answer.stdout);
    assert!(
        !Folder::new().oomph(&["--help"]).success().stdout.contains("\n  probe "),
        "it is for nobody to type"
    );
}

#[test]
fn every_optimizer_holds_the_state_that_it_is_known_for() {
    let folder = folder();
    // Burn's adan keeps three moments and the last gradient; adam with amsgrad one more than adam.
    let expected = [
        ("sgd", 0.0, 0.05),
        ("momentum", 4.0, 0.05),
        ("adam", 8.0, 0.001),
        ("adam+amsgrad=true", 12.0, 0.001),
        ("adamw", 8.0, 0.001),
        ("rmsprop", 4.0, 0.01),
        ("adagrad", 4.0, 0.01),
        ("adan", 16.0, 0.001),
        ("lion", 4.0, 1e-4),
        ("adafactor", ROWS_AND_COLUMNS, 0.01),
    ];
    let names: Vec<_> = expected.iter().map(|(name, ..)| *name).collect();
    let rows = rows(&folder, &["--optimizers", &names.join(","), "--steps", "4"]);
    assert_eq!(rows.len(), expected.len());
    for (row, (name, state, lr)) in rows.iter().zip(expected) {
        assert_eq!((row["optimizer"].as_str(), number(row, "lr")), (Some(name), lr));
        let planned = number(row, "planned_state_bytes_per_parameter");
        assert!((planned - state).abs() < 1e-9, "{name}: {planned}");
        // Some bytes of bookkeeping may count as state of the 700,000 parameters.
        let measured = number(row, "state_bytes_per_parameter");
        assert!((measured - state).abs() < 0.01, "{name}: {measured}");
        let (planned, measured) = (number(row, "planned_peak_bytes"), number(row, "peak_in_use_bytes"));
        assert!((planned / measured - 1.0).abs() < 0.05, "{name}: {planned} planned, {measured} in use");
        let losses = (number(row, "loss_first"), number(row, "loss_last"));
        assert_eq!(losses.0, number(&rows[0], "loss_first"), "{name}: they start alike");
        assert!(number(row, "samples_per_second") > 0.0 && losses.1 > 0.0);
        assert_eq!((row["verdict"].as_str(), row["error"].is_null()), (Some("fits"), true));
    }
}

#[test]
fn peaks_are_as_planned_for_every_batch_and_micro_batch() {
    let rows = rows(&folder(), &["--batches", "8,40", "--micro-batches", "4,8", "--steps", "3"]);
    let sizes: Vec<_> = rows.iter().map(|row| (number(row, "batch"), number(row, "micro_batch"))).collect();
    assert_eq!(sizes, [(8.0, 4.0), (8.0, 8.0), (40.0, 4.0), (40.0, 8.0)]);
    for row in &rows {
        let (planned, measured) = (number(row, "planned_peak_bytes"), number(row, "peak_in_use_bytes"));
        assert!((planned / measured - 1.0).abs() < 0.05, "{row}");
        // The config's own momentum.
        assert_eq!(number(row, "planned_state_bytes_per_parameter"), 4.0);
    }
}

#[test]
fn peaks_are_as_planned_for_every_strategy() {
    let strategies = ["--devices", "cpu,cpu", "--strategies", "ddp,dp,model,pipeline", "--steps", "3"];
    let rows = rows(&folder(), &strategies);
    let names: Vec<_> = rows.iter().map(|row| row["strategy"].as_str().unwrap()).collect();
    assert_eq!(names, ["ddp", "dp", "model", "pipeline"]);
    for row in &rows {
        let (planned, measured) = (number(row, "planned_peak_bytes"), number(row, "peak_in_use_bytes"));
        assert!((planned / measured - 1.0).abs() < 0.05, "{row}");
        assert!(row["state_bytes_per_parameter"].is_null(), "it is recorded on one device only: {row}");
    }
    let (whole, half) = (&rows[0], &rows[2]);
    assert_eq!(number(whole, "planned_state_bytes_per_parameter"), 4.0);
    assert!(number(half, "planned_state_bytes_per_parameter") < 4.0, "{half}");
}

/// Shards hold the same values, so the losses are the same numbers.
#[test]
fn shards_divide_the_state_and_train_alike() {
    let flags = "--devices cpu,cpu --shard none,optimizer,gradients,parameters --steps 4";
    let rows = rows(&folder(), &flags.split(' ').collect::<Vec<_>>());
    let names: Vec<_> = rows.iter().map(|row| row["shard"].as_str().unwrap()).collect();
    assert_eq!(names, ["none", "optimizer", "gradients", "parameters"]);
    for (row, state) in rows.iter().zip([4.0, 2.0, 2.0, 2.0]) {
        assert_eq!((&row["loss_first"], &row["loss_last"]), (&rows[0]["loss_first"], &rows[0]["loss_last"]));
        // The first shard of a small parameter is all of it.
        let of_row = number(row, "planned_state_bytes_per_parameter");
        assert!((state..state + 0.05).contains(&of_row), "{row}");
        let (planned, measured) = (number(row, "planned_peak_bytes"), number(row, "peak_in_use_bytes"));
        assert!((planned / measured - 1.0).abs() < 0.05, "{row}");
    }
}

/// A row equals the first steps of a training with the same settings.
#[test]
fn a_row_has_the_losses_of_training() {
    let folder = folder();
    for devices in ["cpu", "cpu,cpu"] {
        let flags = ["--optimizers", "adamw+lr=0.002", "--steps", "5", "--devices", devices];
        let row = &rows(&folder, &flags)[0];
        let settings = ["optimizer.name=adamw", "optimizer.lr=0.002", "train.steps=5", "run.log_every=1"];
        let mut arguments = vec!["train", "--config", "net.toml", "--json", "--devices", devices];
        settings.iter().for_each(|setting| arguments.extend(["--set", setting]));
        let events = folder.oomph(&arguments).success().json_lines();
        let losses: Vec<_> =
            events.iter().filter(|event| event["event"] == "step").map(|event| &event["loss"]).collect();
        assert_eq!((losses[0], losses[4]), (&row["loss_first"], &row["loss_last"]), "{devices}");
    }
}

#[test]
fn a_comparison_is_a_table() {
    let folder = folder();
    let arguments = ["compare", "--config", "net.toml", "--steps", "3", "--optimizers", "sgd,adam"];
    let answer = folder.oomph(&arguments).success();
    assert_eq!(answer.stderr, "", "nothing moves where there is no terminal");
    snapshot("compare_measured", &shape(&answer.stdout));
    assert!(!folder.at("runs").exists());
}

#[test]
fn a_plan_alone_is_a_table_of_any_batch() {
    let folder = folder();
    let arguments = [
        "compare",
        "--config",
        "net.toml",
        "--plan-only",
        "--batches",
        "8,100000000",
        "--optimizers",
        "sgd,adan",
    ];
    let answer = folder.oomph(&[&arguments[..], &PLENTY, &["--memory-limit", "1GiB"]].concat()).success();
    snapshot("compare_planned", &shape(&answer.stdout));
}

#[test]
fn what_fails_is_a_row_and_the_others_go_on() {
    let folder = folder();
    // Far from all peaks: they differ a little between machines with and without AVX-512.
    let arguments = ["compare", "--config", "net.toml", "--steps", "3", "--memory-limit", "19MiB"];
    let sizes = ["--batches", "8,256", "--micro-batches", "8,256"];
    let answer = folder.oomph(&[&arguments[..], &sizes].concat()).success();
    snapshot("compare_failures", &shape(&answer.stdout));
    for part in [
        "warning: batch 8 · micro-batch 256: --micro-batches 256: a micro-batch cannot be larger than the batch",
        "warning: batch 256 · micro-batch 256: out of memory in ",
    ] {
        assert!(answer.stderr.contains(part), "{part}: {answer}");
    }
    let json = folder.oomph(&[&arguments[..], &sizes, &["--json"]].concat()).success().last_json();
    let verdicts: Vec<_> = (0..4).map(|row| json["rows"][row]["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["fits", "failed", "fits", "does_not_fit"]);
    assert!(json["rows"][3]["planned_peak_bytes"].is_u64() && json["rows"][3]["step_seconds"].is_null());
}

#[test]
fn what_the_machine_cannot_hold_is_not_tried_and_nothing_else_is_a_failure() {
    let folder = folder();
    let arguments = ["compare", "--config", "net.toml", "--batches", "10000000,100000000"];
    let answer = folder.oomph(&[&arguments[..], &PLENTY].concat());
    assert_eq!(answer.code, Some(1), "{answer}");
    assert_eq!(answer.stderr.matches("not tried: the planned peak").count(), 2, "{answer}");
    assert!(answer.stderr.ends_with("error: none of the 2 variants could be compared\n"), "{answer}");
}

#[test]
fn a_loss_that_is_not_finite_is_shown_as_such() {
    let folder = folder();
    let arguments = ["compare", "--config", "net.toml", "--optimizers", "sgd+lr=1e30", "--steps", "4"];
    let answer = folder.oomph(&arguments).success();
    assert!(answer.stdout.contains("→ not finite"), "{answer}");
    let json = folder.oomph(&[&arguments[..], &["--json"]].concat()).success().last_json();
    assert!(json["rows"][0]["loss_last"].is_null());
}

#[test]
fn json_has_every_figure() {
    let folder = folder();
    let arguments = ["compare", "--config", "net.toml", "--optimizers", "adam", "--steps", "3", "--json"];
    let answer = folder.oomph(&arguments).success().last_json();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&answer), ["device", "limit_bytes", "model", "parameters", "rows", "steps"]);
    assert_eq!(
        keys(&answer["rows"][0]),
        [
            "batch",
            "error",
            "first_step_seconds",
            "gradients",
            "lean",
            "loss_chunk",
            "loss_first",
            "loss_last",
            "lr",
            "micro_batch",
            "offload",
            "optimizer",
            "peak_in_use_bytes",
            "planned_categories",
            "planned_peak_bytes",
            "planned_state_bytes_per_parameter",
            "planned_step_seconds",
            "precision",
            "recompute",
            "samples_per_second",
            "shard",
            "state",
            "state_bytes_per_parameter",
            "step_seconds",
            "strategy",
            "verdict"
        ]
    );
    assert_eq!((answer["model"].as_str(), answer["steps"].as_u64()), (Some("resnet18"), Some(3)));
    let categories = &answer["rows"][0]["planned_categories"];
    let total: u64 = categories.as_object().unwrap().values().map(|bytes| bytes.as_u64().unwrap()).sum();
    assert_eq!(answer["rows"][0]["planned_peak_bytes"], total);
}

#[test]
fn rows_can_be_sorted() {
    let order = |by: &str| -> Vec<String> {
        let arguments = ["--plan-only", "--optimizers", "adan,sgd,adam", "--sort", by];
        rows(&folder(), &arguments).iter().map(|row| row["optimizer"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(order("asked"), ["adan", "sgd", "adam"]);
    assert_eq!(order("peak"), ["sgd", "adam", "adan"]);
}

#[test]
fn the_page_needs_nothing_else() {
    let folder = folder();
    let arguments =
        ["compare", "--config", "net.toml", "--optimizers", "sgd,adam", "--steps", "3", "--html", "x.html"];
    let answer = folder.oomph(&arguments).success();
    assert!(answer.stdout.ends_with("\npage written to x.html\n"), "{answer}");
    let page = String::from_utf8(folder.read("x.html")).unwrap();
    for part in ["<svg", "adam", "optimizer state", "time of a step", "loss at the end", "8 B"] {
        assert!(page.contains(part), "{part}");
    }
    for part in ["http://", "https://", "src=", "<link", "@import"] {
        assert!(!page.contains(part), "{part}");
    }
}

#[test]
fn command_lines_that_make_no_sense_are_refused() {
    let compare = |about, arguments: &[&'static str]| {
        Case::new(about, &[&["compare", "--config", "tiny.toml"], arguments].concat())
    };
    check(
        "malformed_compare",
        &[
            compare("nothing to compare", &[]),
            compare("a misspelt optimizer", &["--optimizers", "sgd,adamm"]),
            compare("no optimizer at all", &["--optimizers", "sgd,,adam"]),
            compare("a key of another optimizer", &["--optimizers", "sgd,adam+nesterov=true"]),
            compare("a value out of range", &["--optimizers", "adam+lr=-1"]),
            compare("no batch", &["--batches", "0"]),
            compare("too few steps for a median", &["--batches", "8", "--steps", "2"]),
            compare("shards of one device", &["--shard", "gradients"]),
            compare("a misspelt strategy", &["--devices", "cpu,cpu", "--strategies", "dpd"]),
            compare("steps of nothing", &["--batches", "8", "--plan-only", "--steps", "5"]),
            compare("a page in a folder that is not there", &["--batches", "8", "--html", "nowhere/x.html"]),
            compare("a page that is a folder", &["--batches", "8", "--html", "."]),
        ],
    );
}

/// Starts a long comparison, and waits for its child.
fn start_long(folder: &Folder) -> (Child, u32) {
    let arguments = ["compare", "--config", "net.toml", "--optimizers", "sgd,adam", "--steps", "1000000"];
    let mut command = folder.command(&arguments);
    let comparison = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary starts");
    let child = wait_for(|| child_of(comparison.id()));
    (comparison, child)
}

#[test]
fn signals_leave_no_child_behind() {
    check_that_signals_leave_none(folder, start_long);
}

#[test]
fn rows_from_before_a_signal_are_shown() {
    let folder = folder();
    let (mut comparison, child) = start_long(&folder);
    // The first row fails; a signal stops the second one.
    // SAFETY: the child was seen running, and its parent waits for it.
    assert_eq!(unsafe { libc::kill(child as i32, SIGKILL) }, 0);
    wait_for(|| child_of(comparison.id()).filter(|next| *next != child));
    signal(comparison.id(), SIGINT);
    let mut shown = String::new();
    comparison.stdout.take().expect("piped").read_to_string(&mut shown).expect("text");
    assert_eq!(comparison.wait().expect("a child of this process").code(), Some(130));
    assert!(shown.contains("sgd") && shown.contains("failed") && !shown.contains("adam"), "{shown}");
}

#[test]
fn a_child_that_is_asked_for_nonsense_says_so() {
    let folder = Folder::new();
    let mut command = folder.command(&["probe"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    child.stdin.take().expect("piped").write_all(b"{}\n").expect("it reads");
    let output = child.wait_with_output().expect("a child of this process");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains(r#""event":"error""#));
}

/// The text without numbers and column widths, which depend on the numbers.
fn shape(text: &str) -> String {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n");
    without_numbers(&lines.collect::<String>()).replace(['−', '+'], "").replace(" N s ", " N ms ")
}
