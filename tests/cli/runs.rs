use std::fs;

use serde_json::Value;

use crate::support::{Folder, TINY, snapshot, without_numbers};

/// Three runs: a finished one, one resumed with other settings, a failed one; and a folder that is not a run.
fn three_runs() -> Folder {
    let folder = Folder::new();
    let train = |name: &str, more: &[&str]| {
        let directory = format!("run.directory=runs/{name}");
        folder.train(&[&["--quiet", "--set", &directory], more].concat())
    };
    train("first", &["--set", "train.eval_every='2 steps'"]).success();
    train("second", &["--set", "train.steps=3", "--set", "optimizer.lr=0.05"]).success();
    train("failed", &["--set", "optimizer.lr=3e38", "--set", "train.steps=8"]);
    folder.write("runs/notes/readme.txt", "no run");
    folder.write("runs/list.txt", "no folder");
    folder
}

fn runs(folder: &Folder, arguments: &[&str]) -> Value {
    folder.oomph(&[&["runs", "--json"], arguments].concat()).success().last_json()
}

fn names(found: &Value) -> Vec<String> {
    let runs = found["runs"].as_array().expect("runs");
    runs.iter().map(|run| run["run_dir"].as_str().expect("a path").to_owned()).collect()
}

#[test]
fn runs_are_listed_with_what_came_of_them() {
    let folder = three_runs();
    let found = runs(&folder, &["--sort", "name"]);
    assert_eq!(names(&found), ["runs/failed", "runs/first", "runs/second"]);
    let status: Vec<_> = (0..3).map(|index| found["runs"][index]["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["failed", "finished", "finished"]);
    let first = &found["runs"][1];
    assert_eq!((first["step"].as_u64(), first["steps"].as_u64()), (Some(6), Some(6)));
    assert_eq!(first["last"]["step"], 6);
    let log = String::from_utf8(folder.read("runs/first/metrics.jsonl")).unwrap();
    let events: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let done = events.last().unwrap();
    assert_eq!(first["best"]["eval_loss"], done["best_eval_loss"]);
    assert_eq!(first["best"]["step"], done["best_step"]);
    assert_eq!(first["peak_in_use_bytes"], done["peak_in_use_bytes"]);
    assert_eq!(first["samples_per_second"], done["samples_per_second"]);
    assert!(found["runs"][0]["error"].as_str().unwrap().contains("loss"), "{found}");
    assert_eq!(found["passed_over"][0]["path"], "runs/notes");
    assert_eq!(found.get("differences"), None);
}

#[test]
fn the_table_is_for_people() {
    let folder = three_runs();
    let answer = folder.oomph(&["runs", "--sort", "name"]).success();
    snapshot("runs", &squeezed(&without_numbers(&answer.to_string())));
    let answer = folder.oomph(&["runs", "runs/first", "runs/second", "runs/failed"]).success();
    snapshot("runs_compared", &squeezed(&without_numbers(&answer.to_string())));
}

/// Column widths and the heights of curves depend on numbers that differ between machines.
fn squeezed(text: &str) -> String {
    let text = text.replace(['▁', '▃', '▄', '▅', '▆', '▇', '█'], "▂");
    let squeeze = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n";
    text.lines().map(squeeze).collect()
}

#[test]
fn two_runs_are_compared_by_what_differs() {
    let folder = three_runs();
    let found = runs(&folder, &["runs/second", "runs/first"]);
    assert_eq!(names(&found), ["runs/second", "runs/first"]);
    let differences = found["differences"].as_array().unwrap();
    let keys: Vec<_> = differences.iter().map(|it| it["key"].as_str().unwrap()).collect();
    assert_eq!(keys, ["optimizer.lr", "train.eval_every", "train.steps"]);
    let lr = &differences[0]["values"];
    assert_eq!((&lr[0]["value"], &lr[0]["runs"][0]), (&0.05.into(), &"runs/second".into()));
    assert_eq!((&lr[1]["value"], &lr[1]["runs"][0]), (&0.1.into(), &"runs/first".into()));
}

#[test]
fn a_log_that_is_a_pipe_is_passed_over() {
    let folder = three_runs();
    let log = folder.at("runs/first/metrics.jsonl");
    std::fs::remove_file(&log).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(&log).status().unwrap().success());
    let found = runs(&folder, &["runs"]);
    let passed_over = &found["passed_over"][0];
    assert_eq!(passed_over["path"], "runs/first");
    assert!(passed_over["reason"].as_str().unwrap().contains("cannot read"), "{passed_over}");
}

#[test]
fn a_resumed_run_is_one_run() {
    let folder = three_runs();
    let before = runs(&folder, &["runs/second"]);
    folder.oomph(&["train", "--resume", "runs/second", "--set", "train.steps=9", "--quiet"]).success();
    let after = runs(&folder, &["runs/second"]);
    assert_eq!((&before["runs"][0]["step"], &after["runs"][0]["step"]), (&3.into(), &9.into()));
    assert!(after["runs"][0]["seconds"].as_f64() > before["runs"][0]["seconds"].as_f64());
}

#[test]
fn a_run_is_running_while_a_process_trains_in_it_and_killed_where_it_says_nothing() {
    let folder = Folder::new();
    let running = folder.start_long();
    for _ in 0..20 {
        assert_eq!(runs(&folder, &["run"])["runs"][0]["status"], "running");
    }
    running.signal(libc::SIGKILL);
    running.end();
    assert_eq!(runs(&folder, &["run"])["runs"][0]["status"], "killed");
    let folder = Folder::new();
    let running = folder.start_long();
    running.signal(libc::SIGINT);
    assert_eq!(running.end(), Some(130));
    assert_eq!(runs(&folder, &["run"])["runs"][0]["status"], "stopped");
}

#[test]
fn a_damaged_run_is_named_and_the_others_listed() {
    let folder = three_runs();
    let log = folder.at("runs/first/metrics.jsonl");
    let text = fs::read_to_string(&log).unwrap();
    fs::write(&log, text.replacen("{\"event\":\"step\"", "{\"event\":\"step", 1)).unwrap();
    folder.write("runs/second/config.toml", "[model\n");
    let answer = folder.oomph(&["runs"]).success();
    assert_eq!(answer.stdout.lines().count(), 2, "{answer}");
    snapshot("runs_damaged", &answer.stderr);
}

#[test]
fn where_there_is_nothing_that_is_said() {
    let folder = Folder::new();
    let answer = folder.oomph(&["runs"]).success();
    assert_eq!(
        (answer.stdout.as_str(), answer.stderr.as_str()),
        ("", "note: there are no runs; `oomph train` creates one\n")
    );
    let answer = folder.oomph(&["runs", "nowhere"]);
    assert_eq!(answer.code, Some(1));
    assert_eq!(
        answer.stderr,
        "error: cannot read the folder `nowhere`\n  caused by: No such file or directory (os error 2)\n\n\
         hint: name a folder of run directories, or a run directory\n"
    );
}

#[test]
fn a_run_that_stored_a_retired_key_is_read_and_resumed_where_a_config_with_it_is_refused() {
    let folder = Folder::new();
    let config = |key: &str| {
        let device = format!("\n[device]\ndevices = 'cpu,cpu'\nstrategy = 'model'\n{key} = ['lstm.1']\n");
        TINY.replace("hidden = 8", "hidden = 8\nlayers = 2").replace("'run'", "'runs/old'") + &device
    };
    // As an earlier version left it, killed before its first checkpoint.
    folder.write("runs/old/config.toml", config("cut"));
    folder.write("runs/old/metrics.jsonl", "");
    folder.write("runs/new/config.toml", config("split_points"));
    folder.write("runs/new/metrics.jsonl", "");
    assert_eq!(runs(&folder, &["runs/old", "runs/new"])["differences"].as_array().unwrap().len(), 0);
    folder.oomph(&["train", "--resume", "runs/old", "--quiet"]).success();
    assert_eq!(runs(&folder, &["runs/old"])["runs"][0]["status"], "finished");

    folder.write("old.toml", config("cut"));
    let refused = folder.oomph(&["train", "--config", "old.toml"]).to_string();
    assert!(refused.contains("`device.cut` is no longer a key"), "{refused}");
    assert!(refused.contains("hint: use `device.split_points`"), "{refused}");
}

#[test]
fn a_page_has_all_runs_and_replaces_nothing_unasked() {
    let folder = three_runs();
    let answer = folder.oomph(&["runs", "--html", "runs.html"]).success();
    assert!(answer.stderr.ends_with("page: runs.html\n"), "{answer}");
    let page = String::from_utf8(folder.read("runs.html")).unwrap();
    for text in ["<h1>3 runs</h1>", "runs/failed", "optimizer.lr", "3 keys differ"] {
        assert!(page.contains(text), "{text}");
    }
    let answer = folder.oomph(&["runs", "runs/first", "--html", "runs.html"]);
    assert_ne!(answer.code, Some(0));
    assert!(answer.stderr.contains("`runs.html`") && answer.stderr.contains("--force"), "{answer}");
    folder.oomph(&["runs", "runs/first", "--html", "runs.html", "--force", "--json"]).success().last_json();
    let page = String::from_utf8(folder.read("runs.html")).unwrap();
    assert!(page.contains("<h1>runs/first</h1>") && !page.contains("runs/second"), "{page}");
}
