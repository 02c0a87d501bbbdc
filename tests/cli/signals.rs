//! Stopping a training by signals.

use libc::{SIGINT, SIGTERM, SIGUSR1};

use crate::support::Folder;

#[test]
fn sigint_and_sigterm_save_and_the_run_can_go_on() {
    for (signal, code, ended) in [(SIGINT, 130, "interrupted"), (SIGTERM, 143, "terminated")] {
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
