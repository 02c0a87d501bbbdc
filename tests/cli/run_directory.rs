//! A run directory that changes under a training.

use std::fs;

use crate::support::Folder;

const SAVES: &[&str] = &["--set", "run.save_every='50 steps'", "--set", "train.steps=4000"];

#[test]
fn a_training_whose_directory_is_removed_says_so_and_makes_no_other() {
    let folder = Folder::new();
    let mut running = folder.start_long_of("tiny.toml", SAVES);
    fs::remove_dir_all(folder.at("run")).unwrap();
    let error = running.wait_for("error");
    let message = error["message"].as_str().unwrap();
    assert_eq!(
        message,
        "run directory `run` was removed or moved while the training ran, so the training cannot save"
    );
    assert_eq!(running.end(), Some(1));
    assert!(!folder.at("run").exists());
}

#[test]
fn two_trainings_in_one_place_are_never_mixed() {
    let folder = Folder::new();
    let mut first = folder.start_long_of("tiny.toml", SAVES);
    first.signal(libc::SIGSTOP);
    fs::remove_dir_all(folder.at("run")).unwrap();
    folder.train(&["--quiet"]).success();
    let log = folder.read("run/metrics.jsonl");
    first.signal(libc::SIGCONT);
    let error = first.wait_for("error");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("run directory `run` was replaced while the training ran"), "{message}");
    assert_eq!(first.end(), Some(1));
    assert!(folder.read("run/metrics.jsonl") == log);
    let mut checkpoints: Vec<_> = fs::read_dir(folder.at("run/checkpoints")).unwrap().flatten().collect();
    checkpoints.sort_by_key(fs::DirEntry::file_name);
    let names: Vec<_> = checkpoints.iter().map(fs::DirEntry::file_name).collect();
    assert_eq!(names, ["best", "latest", "step-00000006"]);
}

#[test]
fn what_is_in_the_way_of_pruning_is_a_warning_and_not_the_end() {
    let folder = Folder::new();
    folder.write("run/checkpoints/step-00000001", "a file");
    folder.write("run/checkpoints/.removing-step-00000002", "a leftover");
    let more = ["--quiet", "--set", "run.save_every='1 steps'", "--set", "run.keep_last=1"];
    let warning = "warning: `run/checkpoints/step-00000001` is named like a checkpoint, but is not a directory; it \
                   is ignored\n";
    assert_eq!(folder.train(&more).success().stderr, warning);
    let resumed = [&["--resume", "--set", "train.steps=9"], &more[..]].concat();
    assert_eq!(folder.train(&resumed).success().stderr, warning);
    assert!(!folder.at("run/checkpoints/.removing-step-00000002").exists());
}

#[test]
fn a_checkpoint_is_no_run_directory() {
    let folder = Folder::new();
    folder.train(&["--quiet"]).success();
    let checkpoint = "run/checkpoints/step-00000006";
    let listed = || {
        let mut names: Vec<_> = fs::read_dir(folder.at(checkpoint)).unwrap().flatten().collect();
        names.sort_by_key(fs::DirEntry::file_name);
        names.iter().map(fs::DirEntry::file_name).collect::<Vec<_>>()
    };
    let before = listed();
    for path in [checkpoint, "run/checkpoints/latest"] {
        for resume in [&[][..], &["--resume"]] {
            let set = format!("run.directory={path}");
            let answer = folder.train(&[&["--set", &set], resume].concat());
            assert_eq!(answer.code, Some(1), "{answer}");
            let says = format!("error: `{path}` is a checkpoint: a run directory must be another\n");
            assert!(answer.stderr.starts_with(&says), "{answer}");
        }
    }
    // A damaged one is no run either.
    fs::remove_file(folder.at(checkpoint).join("state.json")).unwrap();
    let answer = folder.train(&["--resume", checkpoint]);
    assert_eq!(answer.code, Some(1), "{answer}");
    let names_the_rest = before.into_iter().filter(|name| name != "state.json").collect::<Vec<_>>();
    assert_eq!(listed(), names_the_rest);
}
