use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    malformed::damage,
    photos::truncated,
    support::{Answer, Folder, snapshot, without_numbers},
};

/// The names of the fields, in order.
fn shape(event: &Value, line: &str) -> String {
    let mut keys: Vec<_> = event.as_object().expect("an object").keys().collect();
    keys.sort_by_key(|key| line.find(&format!("\"{key}\":")));
    let keys = keys.into_iter().filter(|key| *key != "event").map(String::as_str).collect::<Vec<_>>();
    format!("{}: {}\n", event["event"].as_str().expect("a name"), keys.join(", "))
}

#[test]
fn events_are_json_lines_and_the_last_is_done() {
    let folder = Folder::new();
    let answer = folder.train(&["--json"]).success();
    assert_eq!(answer.stderr, "");
    let lines = answer.stdout.lines().zip(answer.json_lines());
    let mut shapes: Vec<_> = lines.map(|(line, event)| shape(&event, line)).collect();
    shapes.dedup();
    snapshot("train_json", &shapes.concat());
    let done = answer.last_json();
    assert_eq!(done["step"], 6);
    assert_eq!(done["ended"], "complete");
    assert!(done["peak_in_use_bytes"].as_u64().unwrap() > 10_000, "{done}");
    assert!((0.0..=1.0).contains(&done["eval_accuracy"].as_f64().unwrap()));
    assert!(folder.at(done["checkpoint"].as_str().unwrap()).join("model.safetensors").is_file());
}

#[test]
fn without_a_terminal_progress_is_plain_lines() {
    let folder = Folder::new();
    let answer = folder.train(&["--set", "train.steps=4"]).success();
    snapshot("train_plain", &without_numbers(&answer.to_string()));
}

#[test]
fn quiet_says_nothing_of_what_goes_well() {
    let folder = Folder::new();
    let answer = folder.train(&["--quiet"]).success();
    assert_eq!((answer.stdout.as_str(), answer.stderr.as_str()), ("", ""));
    let answer = folder.train(&["--quiet", "--resume", "--set", "train.batch=33"]);
    assert_eq!(answer.stdout, "");
    snapshot("train_quiet_error", &answer.stderr);
}

#[test]
fn a_complete_run_that_is_resumed_shows_no_speed() {
    let folder = Folder::new();
    let first = folder.train(&[]).success();
    assert!(first.stdout.contains("samples/s"), "{first}");
    let again = folder.train(&["--resume"]).success();
    assert!(again.stderr.contains("already at step 6 of 6"), "{again}");
    assert!(!again.stdout.contains("samples/s"), "{again}");
}

#[test]
fn a_run_beyond_the_end_is_refused_and_stays_as_it_is() {
    let folder = Folder::new();
    folder.train(&[]).success();
    let before = folder.read("run/metrics.jsonl");
    for resume in [&["--resume"][..], &["--resume", "run"]] {
        let answer = folder.train(&[resume, &["--quiet", "--steps", "4"]].concat());
        let says = "error: `run` is at step 6, beyond the 4 steps of this training\n\n\
                    hint: raise `train.epochs` or `train.steps`, or resume from an earlier checkpoint\n";
        assert_eq!((answer.code, answer.stderr.as_str()), (Some(1), says));
    }
    assert_eq!(folder.read("run/metrics.jsonl"), before);
}

#[test]
fn a_resumed_run_ends_with_the_same_bytes_as_one_never_stopped() {
    let (whole, parts) = (Folder::new(), Folder::new());
    whole.train(&[]).success();
    parts.train(&["--set", "train.steps=3"]).success();
    let resumed = parts.train(&["--resume", "--json"]).success();
    assert_eq!(resumed.json_lines()[0]["first_step"], 3);
    for file in ["model.safetensors", "optimizer.safetensors"] {
        let path = format!("run/checkpoints/step-00000006/{file}");
        assert!(whole.read(&path) == parts.read(&path), "{file}");
    }
}

#[test]
fn resume_with_a_path_needs_no_config() {
    let folder = Folder::new();
    folder.train(&["--set", "train.steps=3"]).success();
    std::fs::rename(folder.at("run"), folder.at("moved")).unwrap();
    let more = ["--set", "train.steps=5", "--json"];
    for (path, first) in [("moved", 3), ("moved/checkpoints/latest", 5)] {
        let answer = folder.oomph(&[&["train", "--resume", path], &more[..]].concat()).success();
        assert_eq!(answer.json_lines()[0]["first_step"], first);
        assert_eq!(answer.last_json()["run_dir"], "moved");
    }
    assert!(!folder.at("run").exists());
}

#[test]
fn resume_where_nothing_was_saved_starts_fresh_and_says_so() {
    let folder = Folder::new();
    let answer = folder.train(&["--resume", "--quiet"]).success();
    assert_eq!(answer.stderr, "warning: nothing was saved in `run` yet: starting fresh\n");
}

#[test]
fn resume_without_a_path_refuses_a_run_of_another_training() {
    let folder = Folder::new();
    folder.train(&["--set", "memory.precision=bf16", "--set", "train.steps=3"]).success();
    let answer = folder.train(&["--resume", "--quiet"]);
    assert_eq!(answer.code, Some(1), "{answer}");
    let says = "error: the newest run `run` is another training: `memory.precision` was `bf16` there and is `fp32` now\n\n\
                hint: `oomph train --resume run` continues it as it was; `--set memory.precision=fp32` changes it on purpose\n";
    assert_eq!(answer.stderr, says);
    // Both ways out.
    folder.oomph(&["train", "--resume", "run", "--set", "train.steps=4", "--quiet"]).success();
    let typed = ["--resume", "--quiet", "--set", "memory.precision=fp32"];
    let answer = folder.train(&typed).success();
    assert!(answer.stderr.starts_with("warning: `memory.precision` was"), "{answer}");
}

#[test]
fn a_damaged_checkpoint_is_skipped_with_a_warning() {
    for resume in [&["--resume"][..], &["--resume", "run"]] {
        let folder = Folder::new();
        folder.train(&["--set", "run.save_every='3 steps'"]).success();
        damage(&folder, "run/checkpoints/step-00000006/model.safetensors");
        let answer = folder.train(&[resume, &["--quiet"]].concat()).success();
        assert!(answer.stderr.starts_with("warning: skipped: `run/checkpoints/step-00000006/"), "{answer}");
        assert!(folder.at("run/checkpoints/step-00000006.2/model.safetensors").is_file());
    }
}

#[test]
fn what_changed_since_the_checkpoint_is_said() {
    let folder = Folder::new();
    folder.train(&["--set", "train.steps=3"]).success();
    let answer = folder.train(&["--resume", "--quiet", "--set", "optimizer.lr=0.5"]).success();
    assert_eq!(answer.stderr, "warning: `optimizer.lr` was `0.1` in the checkpoint and is `0.5` now\n");
}

#[test]
fn a_value_without_effect_is_a_warning() {
    let folder = Folder::new();
    folder.write(
        "tiny.toml",
        String::from_utf8(folder.read("tiny.toml")).unwrap().replace("steps = 6", "epochs = 1"),
    );
    let answer = folder.train(&["--quiet", "--set", "train.steps=2"]).success();
    assert_eq!(answer.stderr, "", "steps replace epochs, as one value replaces another");
    let tiny = String::from_utf8(folder.read("tiny.toml")).unwrap();
    folder.write("tiny.toml", format!("optimizer = {{ lr = 0.05, weight_decay = 1e-4 }}\n{tiny}"));
    let lion = ["--quiet", "--set", "train.steps=2", "--set", "optimizer.name=lion", "--set"];
    let answer = folder.train(&[&lion[..], &["run.directory=lion"]].concat()).success();
    let warning = "warning: `optimizer.name` is `lion` (--set), so `optimizer.lr = 0.05` (tiny.toml:1) is ignored; now \
                   `optimizer.lr = 0.0001`\n";
    assert_eq!(answer.stderr, warning);
    let answer =
        folder.train(&[&lion[..], &["run.directory=typed", "--set", "optimizer.lr=0.01"]].concat()).success();
    assert_eq!(answer.stderr, "", "a learning rate that is typed is meant");
}

#[test]
fn a_damaged_photo_is_named_and_left_out() {
    let folder = Folder::new();
    truncated(&folder);
    let arguments = ["train", "--config", "photos.toml", "--set", "data.on_corrupt=skip", "--quiet"];
    let answer = folder.oomph(&arguments).success();
    snapshot("train_skipped", &answer.stderr);
}

#[test]
fn a_run_directory_is_held_by_one_process() {
    let folder = Folder::new();
    let running = folder.start_long();
    let answer = folder.train(&[]);
    assert_eq!(answer.code, Some(1));
    snapshot("train_in_use", &without_numbers(&answer.stderr));
    drop(running);
    // The system releases the lock of a killed process. It may have saved, or not yet; `latest` may still lead to the checkpoint before.
    let checkpoints = fs::read_dir(folder.at("run/checkpoints")).into_iter().flatten().flatten();
    let step = |name: &str| name.strip_prefix("step-").and_then(|step| step.parse::<usize>().ok());
    let saved = checkpoints.filter_map(|entry| step(&entry.file_name().to_string_lossy())).max().unwrap_or(0);
    folder.train(&["--resume", "--steps", &(saved + 1).to_string()]).success();
}

#[test]
fn a_run_without_a_directory_takes_the_next_number() {
    let folder = Folder::new();
    let text = String::from_utf8(folder.read("tiny.toml")).unwrap().replace("directory = 'run'", "");
    folder.write("tiny.toml", text);
    for run in ["runs/tiny", "runs/tiny-2", "runs/tiny-3"] {
        assert_eq!(folder.train(&["--json"]).success().last_json()["run_dir"], run);
    }
    // A gap stays: commands take the highest number as the newest run.
    fs::remove_dir_all(folder.at("runs/tiny-2")).unwrap();
    assert_eq!(folder.train(&["--json"]).success().last_json()["run_dir"], "runs/tiny-4");
    let done = folder.oomph(&["evaluate", "tiny.toml", "--json"]).success().last_json();
    assert!(done["checkpoint"].as_str().unwrap().starts_with("runs/tiny-4/"), "{done}");
}

#[test]
fn the_log_of_a_run_says_what_ended_it() {
    let folder = Folder::new();
    let answer = folder.train(&["--set", "optimizer.lr=3e38", "--set", "run.log_every=1"]);
    assert_eq!(answer.code, Some(1));
    let log = std::fs::read_to_string(folder.at("run").join("metrics.jsonl")).unwrap();
    let last: Value = serde_json::from_str(log.lines().last().expect("a line")).unwrap();
    assert_eq!(last["event"], "error");
    assert!(last["message"].as_str().unwrap().starts_with("the loss of step "), "{last}");
}

#[test]
fn the_training_loss_does_not_depend_on_where_a_run_was_stopped() {
    let [whole, stopped] = [Folder::new(), Folder::new()];
    let train = |folder: &Folder, steps: &str| {
        let more = ["--json", "--set", "run.log_every=4", "--set", steps];
        let given: &[&str] = match folder.at("run").exists() {
            true => &["train", "--resume", "run"],
            false => &["train", "--config", "tiny.toml"],
        };
        folder.oomph(&[given, &more].concat()).success()
    };
    let figures = |answer: &Answer| {
        let lines = answer.json_lines().into_iter().filter(|line| line["event"] == "step");
        lines
            .map(|line| (line["step"].clone(), line["loss"].clone(), line["accuracy"].clone()))
            .collect::<Vec<_>>()
    };
    let expected = train(&whole, "train.steps=7");
    train(&stopped, "train.steps=2");
    let middle = train(&stopped, "train.steps=5");
    let end = train(&stopped, "train.steps=7");
    let [expected_lines, middle_lines, end_lines] = [&expected, &middle, &end].map(figures);
    // Steps 4 and 7 of the whole run; step 4 of the middle, which begins after step 2, and step 7 of the end.
    assert_eq!(expected_lines.len(), 2);
    assert_eq!((&middle_lines[0], &end_lines[0]), (&expected_lines[0], &expected_lines[1]));
    assert_eq!(end.last_json()["loss"], expected.last_json()["loss"]);
}

#[test]
fn a_number_that_32_bits_round_out_of_its_range_is_refused() {
    let folder = Folder::new();
    for (setting, rounded) in [
        ("optimizer.beta1=0.99999999999", "1"),
        ("optimizer.beta2=0.99999999999", "1"),
        ("optimizer.epsilon=1e-50", "0"),
        ("optimizer.lr=1e39", "inf"),
    ] {
        let answer = folder.train(&["--set", "optimizer.name=adam", "--set", setting]);
        let expected = format!("in 32 bits too, where it is {rounded}");
        assert_eq!((answer.code, answer.stderr.contains(&expected)), (Some(1), true), "{setting}: {answer}");
    }
}

#[test]
fn where_nothing_is_held_out_the_hint_names_evaluations() {
    let folder = Folder::new();
    let rows: String = (0..60u32).map(|row| format!("{}\n", row % 7)).collect();
    folder.write("rows.csv", format!("a\n{rows}"));
    folder
        .write("csv.toml", "[model]\nname = 'lstm'\n[data]\nsource = 'csv'\npath = 'rows.csv'\nsteps = 4\n");
    let train =
        ["train", "--config", "csv.toml", "--quiet", "--set", "data.held_out=0", "--set", "train.steps=1"];
    let refused = folder.oomph(&train);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("set `train.eval_every=never`"), "{refused}");
    folder.oomph(&[&train[..], &["--set", "train.eval_every=never"]].concat()).success();
}

#[test]
fn a_model_whose_parameters_alone_do_not_fit_is_refused_at_once() {
    let folder = Folder::new();
    let begun = Instant::now();
    let answer = folder.train(&["--set", "model.layers=64", "--set", "model.hidden=65536"]);
    assert_eq!(answer.code, Some(75), "{answer}");
    assert!(answer.stderr.contains("no setting makes it fit: the parameters alone take 7.9"), "{answer}");
    assert!(answer.stderr.contains("hint: use a device with at least "), "{answer}");
    // A search for settings that fit took half a minute; other tests run beside this one.
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
}
