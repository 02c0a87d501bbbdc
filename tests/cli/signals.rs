//! Stopping a training by signals.

use std::process::Stdio;

use libc::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};

use crate::support::Folder;

#[test]
fn sigint_sigterm_and_sighup_save_and_the_run_can_go_on() {
    for (signal, code, ended) in
        [(SIGINT, 130, "interrupted"), (SIGTERM, 143, "terminated"), (SIGHUP, 143, "terminated")]
    {
        let folder = Folder::new();
        let mut running = folder.start_long();
        running.signal(signal);
        let done = running.wait_for("done");
        assert_eq!(done["ended"], ended);
        assert_eq!(running.end(), Some(code));
        let step = done["step"].as_u64().unwrap();
        assert!(folder.at(done["checkpoint"].as_str().unwrap()).is_dir());

        let steps = format!("train.steps={}", step + 3);
        let answer = folder.oomph(&["train", "--resume", "run", "--set", &steps, "--json"]).success();
        assert_eq!(answer.json_lines()[0]["first_step"], step);
        assert_eq!(answer.last_json()["step"], step + 3);
    }
}

#[test]
fn sigabrt_ends_it_as_it_ends_other_programs() {
    // Without its folder, which goes away with this value, the training would end with an error.
    let folder = Folder::new();
    let running = folder.start_long();
    running.signal(libc::SIGABRT);
    assert_eq!(running.end(), None, "a signal ended it");
}

#[test]
fn sigusr1_saves_and_goes_on() {
    let folder = Folder::new();
    let mut running = folder.start_long();
    running.signal(SIGUSR1);
    let saved = running.wait_for("checkpoint");
    assert!(folder.at(saved["checkpoint"].as_str().unwrap()).join("state.json").is_file());
    running.wait_for("step");
    running.signal(SIGINT);
    assert_eq!(running.end(), Some(130));
}

#[test]
fn a_terminal_that_goes_away_twice_does_not_cut_the_save_short() {
    let folder = Folder::new();
    let mut running = folder.start_long();
    running.signal(SIGHUP);
    running.signal(SIGHUP);
    let done = running.wait_for("done");
    assert!(folder.at(done["checkpoint"].as_str().unwrap()).is_dir());
}

#[test]
fn under_nohup_sighup_is_ignored() {
    let folder = Folder::new();
    let train = "trap '' HUP; \"$0\" train --config tiny.toml --quiet --set train.steps=300 & kill -HUP $!; sleep 0.1; \
                 kill -HUP $!; wait $!";
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", train, env!("CARGO_BIN_EXE_oomph")]).current_dir(folder.path()).stdin(Stdio::null());
    assert!(shell.status().expect("a shell").success());
}

#[test]
fn a_second_sigint_stops_at_once() {
    let folder = Folder::new();
    let running = folder.start_long();
    // Two signals at once may arrive as one: the system keeps one pending signal of each kind.
    running.signal(SIGINT);
    running.signal(SIGTERM);
    assert!(matches!(running.end(), Some(130 | 143)));
}

#[test]
fn a_reader_that_leaves_ends_the_training_and_keeps_its_state() {
    let folder = Folder::new();
    // An error and not 130, since no signal interrupted it.
    assert_eq!(folder.start_long().stop_reading(), Some(1));
    let answer = folder.oomph(&["evaluate", "--checkpoint", "run", "--json"]).success();
    assert!(answer.last_json()["step"].as_u64().unwrap() > 0);
}
