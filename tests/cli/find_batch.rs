//! `find-batch`: its result trains, its failures are explained, and it leaves no files behind.

use std::process::{Child, Stdio};

use serde_json::Value;

use crate::{
    children::{check_that_signals_leave_none, child_of, wait_for},
    photos,
    support::{Case, Folder, check, limit, snapshot, without_numbers},
};

/// An LSTM on the digits, whose peaks are the same in every run, with comments and sections written in several ways. It
/// is not lean, so that some hundred samples are too much.
const NET: &str = "\
optimizer.name = 'adam'  # how it learns
memory.lean = false
run = { directory = 'run' }

# a small one
[model]
name = 'lstm'
hidden = 32

[data]
source = 'digits'
layout = 'rows'
workers = 0

[train]
batch = 32      # to be found
steps = 8
";

/// A limit that some hundred samples exceed.
fn most() -> String {
    limit(8 << 10)
}

fn folder() -> Folder {
    let folder = Folder::new();
    folder.write("net.toml", NET);
    folder
}

fn find(folder: &Folder, arguments: &[&str]) -> Value {
    let arguments = [&["find-batch", "--config", "net.toml", "--json"], arguments].concat();
    folder.oomph(&arguments).success().last_json()
}

fn batches(found: &Value) -> Vec<u64> {
    found["probes"].as_array().expect("probes").iter().map(|probe| number(probe, "batch")).collect()
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("`{key}` of {value}"))
}

#[test]
fn the_command_explains_itself() {
    snapshot("help_find-batch", &Folder::new().oomph(&["find-batch", "--help"]).success().stdout);
}

#[test]
fn what_is_found_was_tried_fits_and_is_the_largest() {
    let folder = folder();
    let found = find(&folder, &["--memory-limit", &most()]);
    let largest = number(&found, "largest_batch");
    let tried = batches(&found);
    assert!(tried.len() <= 6 && tried.contains(&largest) && tried.contains(&(largest + 1)), "{found}");
    assert_eq!(found["is_proven"], true, "{found}");
    let fitting = found["probes"].as_array().unwrap().iter().find(|probe| probe["batch"] == largest).unwrap();
    assert_eq!(fitting["verdict"], "fits");
    assert!(number(fitting, "peak_in_use_bytes") <= number(&found, "limit_bytes"), "{found}");
    assert!(fitting["step_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0));
    // A training with evaluation and checkpoints succeeds with this batch, and fails with one sample more.
    for (batch, code) in [(largest, 0), (largest + 1, 75)] {
        let (batch, run) = (format!("train.batch={batch}"), format!("run.directory=run-{batch}"));
        let arguments = [
            "train",
            "--config",
            "net.toml",
            "--memory-limit",
            &most(),
            "--no-plan-check",
            "--quiet",
            "--set",
            &batch,
        ];
        let answer = folder.oomph(&[&arguments[..], &["--set", &run]].concat());
        assert_eq!(answer.code, Some(code), "{batch}: {answer}");
    }
}

#[test]
fn nothing_is_changed_by_a_search() {
    let folder = folder();
    let before = folder.read("net.toml");
    find(&folder, &["--memory-limit", &most()]);
    assert_eq!(folder.read("net.toml"), before);
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name == "net.toml" || name == "tiny.toml" || name == "cache"), "{left:?}");
    // The result does not depend on earlier searches.
    assert_eq!(
        number(&find(&folder, &["--memory-limit", &most()]), "largest_batch"),
        number(&find(&folder, &["--memory-limit", &most()]), "largest_batch")
    );
}

#[test]
fn the_largest_batch_asked_for_is_tried_before_it_is_the_answer() {
    let folder = folder();
    let found = find(&folder, &["--memory-limit", &most(), "--max", "40"]);
    assert_eq!((number(&found, "largest_batch"), batches(&found)), (40, vec![40]), "{found}");
    assert_eq!(
        (&found["is_proven"], &found["capped"]),
        (&Value::Bool(true), &Value::from("the search ended at `--max 40`"))
    );
}

#[test]
fn no_batch_is_larger_than_the_data() {
    let folder = folder();
    let found = find(&folder, &["--max", "100000"]);
    assert_eq!((number(&found, "largest_batch"), batches(&found)), (1438, vec![1438]), "{found}");
    assert_eq!(found["capped"], "there are only 1,438 training samples");
}

#[test]
fn multiples_margins_and_bounds_are_kept_to() {
    let folder = folder();
    let all = number(&find(&folder, &["--memory-limit", &most()]), "largest_batch");
    let found = find(&folder, &["--memory-limit", &most(), "--multiple-of", "7"]);
    assert_eq!(number(&found, "largest_batch"), all / 7 * 7);
    assert!(batches(&found).iter().all(|batch| batch % 7 == 0), "{found}");
    let found = find(&folder, &["--memory-limit", &most(), "--margin", "25%"]);
    assert!(number(&found, "largest_batch") < all * 4 / 5, "{found} of {all}");
    assert_eq!(number(&found, "limit_bytes"), most().parse::<u64>().unwrap() / 4 * 3);
    let found = find(&folder, &["--memory-limit", &most(), "--min", "10", "--max", "10"]);
    assert_eq!(batches(&found), [10]);
}

#[test]
fn a_batch_whose_rest_cannot_be_trained_on_is_passed_over() {
    // A batch of 479 leaves a last batch of one sample, with a single value per channel to normalise.
    let folder = folder();
    let resnet = ["model.name=resnet18", "model.stem=small", "model.width=2", "data.layout=image"];
    let sets = resnet.iter().flat_map(|setting| ["--set", setting]).collect::<Vec<_>>();
    let found = find(&folder, &[&sets[..], &["--max", "479"]].concat());
    assert_eq!((number(&found, "largest_batch"), batches(&found)), (478, vec![478]), "{found}");
}

#[test]
fn a_batch_can_be_kept_in_micro_batches() {
    let folder = folder();
    let found = find(&folder, &["--memory-limit", &most(), "--effective-batch", "1000"]);
    let (size, count) = (number(&found, "micro_batch"), number(&found, "micro_batches"));
    assert_eq!((number(&found, "largest_batch"), count), (1000, 1000u64.div_ceil(size)), "{found}");
    assert!(batches(&found).contains(&size) && size < 1000, "{found}");
    // The micro-batches have equal sizes as far as possible.
    assert_eq!(size, 1000u64.div_ceil(count));
    let (micro_batch, most) = (format!("memory.micro_batch={size}"), most());
    let limit = ["--memory-limit", most.as_str()];
    let arguments =
        ["train", "--config", "net.toml", "--quiet", "--set", "train.batch=1000", "--set", &micro_batch];
    assert_eq!(folder.oomph(&[&arguments[..], &limit].concat()).code, Some(0));
}

#[test]
fn micro_batches_are_multiples_too() {
    let folder = folder();
    let found =
        find(&folder, &["--memory-limit", &most(), "--effective-batch", "1000", "--multiple-of", "16"]);
    assert_eq!(number(&found, "micro_batch") % 16, 0, "{found}");
    assert!(batches(&found).iter().all(|size| size % 16 == 0), "{found}");
}

#[test]
fn where_the_smallest_of_all_is_refused_the_next_one_is_explained() {
    // Batch normalisation needs two values per channel.
    let answer =
        Folder::new().oomph(&["find-batch", "--config", "resnet", "--memory-limit", &limit(6 << 10)]);
    assert_eq!(answer.code, Some(75), "{answer}");
    assert!(
        answer.stderr.starts_with("error: not even batch 2 fits") && answer.stderr.contains("--set"),
        "{answer}"
    );
}

#[test]
fn what_somebody_writes_into_the_config_meanwhile_stays() {
    let folder = folder();
    let (mut search, _) = start(&folder, &["--set", "model.hidden=256", "--max", "700", "--write"]);
    folder.write("net.toml", NET.replace("hidden = 32", "hidden = 33"));
    assert!(search.wait().expect("a child of this process").success());
    let text = String::from_utf8(folder.read("net.toml")).unwrap();
    assert!(text.contains("hidden = 33") && text.contains("batch = 700"), "{text}");
}

#[test]
fn what_was_found_is_written_and_comments_stay() {
    let folder = folder();
    let found =
        find(&folder, &["--memory-limit", &most(), "--write", "--effective-batch", "64", "--max", "24"]);
    assert_eq!(found["written"], "net.toml");
    let text = String::from_utf8(folder.read("net.toml")).unwrap();
    snapshot("find_batch_written", &text);
}

#[test]
fn where_not_even_the_smallest_fits_it_says_what_would() {
    let folder = folder();
    let arguments =
        ["find-batch", "--config", "net.toml", "--memory-limit", &limit(3300), "--json", "--min", "16"];
    let answer = folder.oomph(&arguments);
    assert_eq!(answer.code, Some(75), "{answer}");
    let found = &answer.json_lines()[0];
    assert_eq!((&found["largest_batch"], batches(found).contains(&16)), (&Value::Null, true), "{found}");
    let probe = found["probes"].as_array().unwrap().iter().find(|probe| probe["batch"] == 16).unwrap();
    let report = &probe["out_of_memory"];
    assert!(number(report, "planned_peak_bytes") > limit(3300).parse().unwrap(), "{report}");
    assert!(!report["levers"].as_array().unwrap().is_empty() || report["least"].is_object(), "{report}");
    assert!(folder.at("out-of-memory/net/timeline.html").is_file());
    assert!(
        answer.stderr.starts_with("error: not even batch 16 fits\n  caused by: out of memory in"),
        "{answer}"
    );
    let text =
        folder.oomph(&["find-batch", "--config", "net.toml", "--memory-limit", &limit(3300), "--min", "16"]);
    snapshot("find_batch_nothing", &without_numbers(&text.stdout));
}

#[test]
fn what_fails_for_another_reason_is_told_as_what_it_is() {
    let folder = Folder::new();
    photos::cats_and_dogs(&folder);
    let mut photo = photos::jpeg(1);
    photo.truncate(photo.len() / 3);
    folder.write("photos/train/cat/0.jpg", photo);
    let answer = folder.oomph(&["find-batch", "--config", "photos.toml", "--max", "4"]);
    assert_eq!(answer.code, Some(1), "{answer}");
    assert!(
        answer.stderr.contains("another reason than memory") || answer.stderr.contains("cat/0.jpg"),
        "{answer}"
    );
    assert!(answer.stderr.contains("cat/0.jpg"), "{answer}");
}

#[test]
fn what_cannot_be_searched_is_said() {
    let net = |folder: &Folder| folder.write("net.toml", NET);
    check(
        "malformed_find_batch",
        &[
            Case::new("no batch", &["find-batch", "--max", "0"]),
            Case::new("no share", &["find-batch", "--margin", "0.1"]),
            Case::new("all of it", &["find-batch", "--margin", "100%"]),
            Case::new("bounds the wrong way round", &["find-batch", "--min", "9", "--max", "8"]),
            Case::new("no multiple", &["find-batch", "--min", "9", "--max", "12", "--multiple-of", "16"]),
            Case::new("nothing to write into", &["find-batch", "--config", "lstm", "--write"]),
            Case::new("no such device", &["find-batch", "--devices", "cuda:0"]),
            Case::new("no such config", &["find-batch", "--config", "nowhere"]),
            Case::new("no training", &["find-batch", "--config", "net.toml", "--set", "data.layout=columns"])
                .after(net),
        ],
    );
}

/// Starts a search, and waits for its child.
fn start(folder: &Folder, arguments: &[&str]) -> (Child, u32) {
    let mut command = folder.command(&[&["find-batch", "--config", "net.toml"], arguments].concat());
    let search = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary starts");
    let child = wait_for(|| child_of(search.id()));
    (search, child)
}

/// A long search.
fn start_long(folder: &Folder) -> (Child, u32) {
    start(folder, &["--set", "model.hidden=512", "--max", "1400"])
}

#[test]
fn signals_leave_no_child_behind() {
    check_that_signals_leave_none(folder, start_long);
}
