//! `profile`: its report and its files.

use std::fs;

use serde_json::Value;

use crate::support::{Answer, Case, Folder, check, snapshot, without_numbers, without_units};

/// A small ResNet on the digits.
const RESNET: &str = "\
[model]
name = 'resnet18'
stem = 'small'
width = 16

[data]
source = 'digits'
workers = 0

[train]
steps = 4
batch = 16
";

/// The files of a profile's directory.
const FILES: [&str; 4] = ["snapshot.pickle", "timeline.html", "timeline.jsonl", "trace.json"];

fn profile(folder: &Folder, arguments: &[&str]) -> Answer {
    folder.oomph(&[&["profile", "--config", "tiny.toml"], arguments].concat())
}

fn names(folder: &Folder, path: &str) -> Vec<String> {
    let entries = fs::read_dir(folder.at(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut names: Vec<_> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn bytes(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count of bytes"))
}

/// The sum of an object's bytes.
fn sum(value: &Value) -> u64 {
    value.as_object().expect("an object").values().map(bytes).sum()
}

#[test]
fn the_command_explains_itself() {
    let answer = Folder::new().oomph(&["profile", "--help"]).success();
    snapshot("help_profile", &answer.stdout);
    assert_eq!(answer.stderr, "");
}

#[test]
fn the_report_sets_the_plan_beside_the_measurement() {
    let folder = Folder::new();
    let answer = profile(&folder, &["--out", "found"]).success();
    assert_eq!(answer.stderr, "");
    assert_eq!(names(&folder, "found"), FILES);
    // Column widths depend on the numbers, and the largest blocks on the machine's caches.
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    // Whether a gradient is in use at the peak depends on the machine too.
    let is_shape = |line: &String| !line.contains('─') && !line.starts_with("gradients ");
    let lines = answer.stdout.lines().map(words).filter(is_shape);
    let shape: String = lines.map(|line| without_signs(&without_numbers(&line)) + "\n").collect();
    let (head, rest) = shape.split_once("largest for tensor made in\n").expect("the largest");
    let (_, files) = rest.split_once("\n\n").expect("the files");
    snapshot("profile", &format!("{head}\n{files}"));
}

/// Masks differences of a few bytes, which may be positive, negative or zero.
///
/// The scratch of two threads overlaps or not. So the peak of so small a model is measured now in the forward pass, where
/// gradients are not held yet, and now in the backward pass.
fn without_signs(line: &str) -> String {
    let line = without_units(line);
    match line.strip_suffix(" –").or_else(|| line.strip_suffix(" SIZE")).or_else(|| line.strip_suffix(" N %"))
    {
        Some(rest) if rest.contains("SIZE SIZE") || rest.contains("– SIZE") || rest.contains("SIZE –") => {
            format!("{} DIFFERENCE", rest.replace('–', "SIZE"))
        }
        _ => line,
    }
}

#[test]
fn the_default_directory_is_the_next_that_is_free() {
    let folder = Folder::new();
    for expected in ["profiles/tiny", "profiles/tiny-2", "profiles/tiny-3"] {
        let answer = profile(&folder, &["--steps", "1", "--warmup", "0", "--json"]).success();
        assert_eq!(answer.stderr, "");
        assert_eq!(answer.last_json()["files"]["timeline"], format!("{expected}/timeline.html"));
        assert_eq!(names(&folder, expected), FILES);
    }
    assert!(!folder.at("run").exists() && !folder.at("runs").exists());
}

#[test]
fn the_page_needs_nothing_else() {
    let folder = Folder::new();
    let answer = profile(&folder, &["--steps", "2", "--html", "pages/page.html", "--json"]).success();
    assert_eq!(answer.last_json()["files"], serde_json::json!({ "timeline": "pages/page.html" }));
    assert_eq!(names(&folder, "pages"), ["page.html"]);
    let page = String::from_utf8(folder.read("pages/page.html")).expect("UTF-8");
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    assert!(page.contains("peak in use") && page.contains("planned peak"));
    for outside in ["http:", "https:", " src=", "<link", "@import"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(!folder.at("profiles").exists());
}

#[test]
fn a_picture_is_written_alone_or_with_the_page() {
    let folder = Folder::new();
    let answer = profile(&folder, &["--steps", "2", "--svg", "one/peak.svg", "--json"]).success();
    assert_eq!(answer.last_json()["files"], serde_json::json!({ "svg": "one/peak.svg" }));
    assert_eq!(names(&folder, "one"), ["peak.svg"]);
    let picture = String::from_utf8(folder.read("one/peak.svg")).expect("UTF-8");
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    let both = ["--steps", "1", "--html", "both/page.html", "--svg", "both/peak.svg"];
    let answer = profile(&folder, &both).success();
    assert!(answer.stdout.contains("picture") && answer.stdout.contains("both/peak.svg"), "{answer}");
    assert_eq!(names(&folder, "both"), ["page.html", "peak.svg"]);
    assert!(!folder.at("profiles").exists());
}

#[test]
fn the_figures_add_up_and_the_plan_is_right() {
    let folder = Folder::new();
    folder.write("resnet.toml", RESNET);
    for config in ["resnet.toml", "lstm"] {
        let answer = folder.oomph(&[
            "profile",
            "--config",
            config,
            "--out",
            config.trim_end_matches(".toml"),
            "--json",
        ]);
        let found = answer.success().last_json();
        assert_eq!((found["lost_events"].as_u64(), found["warmup"].as_u64()), (Some(0), Some(2)));
        let seconds = found["step_seconds"].as_array().expect("times");
        assert!(seconds.len() == 5 && seconds.iter().all(|it| it.as_f64().is_some_and(|it| it > 0.0)));

        let (planned, measured) = (bytes(&found["planned_peak_bytes"]), bytes(&found["peak_in_use_bytes"]));
        assert_eq!(sum(&found["categories"]["planned"]), planned);
        assert_eq!(sum(&found["categories"]["measured"]), measured);
        let error = (planned as f64 - measured as f64) / measured as f64;
        assert!((found["relative_error"].as_f64().expect("a share") - error).abs() < 1e-12);
        assert!(error.abs() < 0.05, "{config}: {planned} planned, {measured} measured");
        let parameters = |origin: &str| bytes(&found["categories"][origin]["parameters"]);
        assert_eq!(parameters("planned"), parameters("measured"), "{config}");

        let phases = found["phases"].as_array().expect("phases");
        let highest = |key: &str| phases.iter().map(|phase| bytes(&phase[key])).max();
        assert_eq!(highest("peak_in_use_bytes"), Some(measured));
        assert_eq!(highest("planned_peak_bytes"), Some(planned));
        let largest: Vec<u64> =
            found["largest"].as_array().expect("blocks").iter().map(|block| bytes(&block["bytes"])).collect();
        assert!(largest.len() == 10 && largest.is_sorted_by(|one, next| one >= next), "{largest:?}");
        assert!(bytes(&found["host_bytes"]) > 0);
    }
}

#[test]
fn the_other_files_say_the_same() {
    let folder = Folder::new();
    let found = profile(&folder, &["--out", "found", "--json"]).success().last_json();
    let text = |path: &str| String::from_utf8(folder.read(path)).expect("UTF-8");
    let events = text("found/timeline.jsonl");
    let head: Value = serde_json::from_str(events.lines().next().expect("a line")).expect("JSON");
    assert_eq!((&head["origin"], &head["peak_bytes"]), (&"measured".into(), &found["peak_in_use_bytes"]));
    let trace: Value = serde_json::from_str(&text("found/trace.json")).expect("JSON");
    let timelines = &trace["otherData"]["timelines"];
    assert_eq!(timelines[0]["peak_bytes"], found["peak_in_use_bytes"]);
    assert_eq!(timelines[1]["peak_bytes"], found["planned_peak_bytes"]);
    let snapshot = folder.read("found/snapshot.pickle");
    assert!(snapshot.starts_with(&[0x80, 2]) && snapshot.ends_with(b"."), "a pickle");
}

#[test]
fn a_limit_that_is_crossed_is_shown_and_is_a_failure() {
    let folder = Folder::new();
    folder.write("resnet.toml", RESNET);
    let peak = folder.oomph(&["profile", "--config", "resnet.toml", "--json", "--out", "whole"]).success();
    let limit = (bytes(&peak.last_json()["peak_in_use_bytes"]) * 9 / 10).to_string();
    let arguments =
        ["profile", "--config", "resnet.toml", "--memory-limit", &limit, "--out", "cut", "--json"];
    let answer = folder.oomph(&arguments);
    assert_eq!(answer.code, Some(75), "{answer}");
    assert!(answer.stderr.starts_with("error: out of memory in "), "{answer}");
    let found = &answer.json_lines()[0];
    assert_eq!(found["limit_bytes"].to_string(), limit);
    assert!(bytes(&found["peak_in_use_bytes"]) > bytes(&found["limit_bytes"]));
    assert!(found["out_of_memory"].as_str().is_some_and(|text| text.starts_with("out of memory in ")));
    assert_eq!(names(&folder, "cut"), FILES);
}

#[test]
fn what_cannot_be_profiled_is_said() {
    let taken = |folder: &Folder| folder.write("taken/timeline.html", "a page");
    check(
        "malformed_profile",
        &[
            Case::new("no step", &["profile", "--steps", "0"]),
            Case::new("too many steps", &["profile", "--steps", "100000"]),
            Case::new("no number", &["profile", "--warmup", "some"]),
            Case::new("two places", &["profile", "--out", "a", "--html", "b.html"]),
            Case::new("a picture and a directory", &["profile", "--out", "a", "--svg", "b.svg"]),
            Case::new("no such config", &["profile", "--config", "nowhere"]),
            Case::new(
                "a directory that holds a profile",
                &["profile", "--config", "tiny.toml", "--out", "taken"],
            )
            .after(taken),
            Case::new(
                "a page that is there",
                &["profile", "--config", "tiny.toml", "--html", "taken/timeline.html"],
            )
            .after(taken),
            Case::new(
                "a picture that exists",
                &["profile", "--config", "tiny.toml", "--svg", "taken/timeline.html"],
            )
            .after(taken),
            Case::new(
                "a place below a file",
                &["profile", "--config", "tiny.toml", "--out", "tiny.toml/below"],
            ),
            Case::new("a GPU", &["profile", "--config", "tiny.toml", "--devices", "cuda:0"]),
        ],
    );
}
