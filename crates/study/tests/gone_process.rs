//! A worker whose process is gone.

mod support;

use oomph_study::{ProcessName, Study, Take, Worker};
use serde_json::json;
use support::{Journal, begin, setup, worker};

#[test]
fn a_trial_of_a_process_that_is_gone_is_free_at_once() {
    let journal = Journal::new();
    let own = ProcessName::own().expect("this system has /proc");
    let mut gone = serde_json::to_value(&own).expect("JSON");
    gone["started"] = json!(gone["started"].as_u64().expect("a number") + 1);
    let with = |name, process| {
        let worker = Worker { process: Some(process), ..worker(name) };
        Study::join(&journal.path, &setup(), worker).expect("joined")
    };
    let mut dead = with("dead", serde_json::from_value(gone).expect("a process"));
    let mut alive = with("alive", own.clone());
    begin(&mut dead, 0.01);
    begin(&mut alive, 0.02);
    let mut study = with("third", own);
    let abandoned: Vec<_> = study.state().trials().iter().map(|trial| trial.is_abandoned()).collect();
    assert_eq!(abandoned, [true, false]);
    assert_eq!(study.lapsed(), [0]);
    let mut lapsed = || {
        let taken = study.take(|_, lapsed| lapsed.first().map(|number| Take::Lapsed(*number)));
        taken.expect("read")
    };
    let taken = lapsed().expect("the trial");
    assert_eq!((taken.number, taken.attempt, taken.lost), (0, 2, 1));
    assert_eq!(lapsed(), None);
}
