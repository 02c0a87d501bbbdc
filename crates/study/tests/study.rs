//! One study, several workers: claims, leases, pauses, ends, joining, replaying.

mod support;

use std::collections::BTreeMap;

use oomph_search::{Choice, Direction, Domain, Parameter, Point, TrialState as Stage};
use oomph_study::{
    Change, Claim, Decision, DecisionKind, Outcome, Setup, Study, StudyError, Summary, Take,
    journal::TrialState, read, replay,
};
use serde_json::json;
use support::{Hand, Journal, begin, decision, lr, name, point, setup, worker};

fn stage(study: &Study, number: usize) -> Stage {
    study.state().trials()[number].stage()
}

fn promote(study: &mut Study, number: usize) -> Result<Claim, StudyError> {
    let taken = study.take(|state, _| Some(Take::Promote(number, decision(DecisionKind::Promote, state))))?;
    Ok(taken.expect("a trial"))
}

fn lapsed(study: &mut Study) -> Option<Claim> {
    study.take(|_, lapsed| lapsed.first().map(|number| Take::Lapsed(*number))).expect("read")
}

fn lost(result: Result<(), StudyError>) -> String {
    match result {
        Err(error @ StudyError::LeaseLost { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_trial_runs_to_its_end() {
    let journal = Journal::new();
    let mut study = journal.join("a");
    let claim = begin(&mut study, 0.01);
    assert_eq!((claim.number, claim.attempt, claim.lost), (0, 1, 0));
    let peak = Change::Attribute { key: "oomph:measured_peak".into(), value: 12.into() };
    study
        .record(&claim, vec![Change::Report { step: 9, value: 0.5 }, peak, Change::Complete { value: 0.25 }])
        .expect("written");
    let trial = &study.state().trials()[0];
    assert_eq!((trial.stage(), trial.value()), (Stage::Complete, Some(0.25)));
    assert_eq!(trial.user_attributes["oomph:measured_peak"], 12);
    assert_eq!(
        trial.parameters(),
        BTreeMap::from([
            ("model.width".into(), json!(16)),
            ("optimizer.lr".into(), json!(0.01)),
            ("optimizer.name".into(), json!("adamw"))
        ])
    );
    assert!(trial.started.is_some() && trial.ended.is_some() && trial.is_decided());
    let late = lost(study.record(&claim, vec![Change::Complete { value: 0.1 }]));
    assert_eq!(late, "trial 0 is not this worker's any more: it is complete");
}

#[test]
fn a_paused_trial_is_promoted_by_one_worker_alone() {
    let journal = Journal::new();
    let [mut a, mut b] = ["a", "b"].map(|name| journal.join(name));
    let claim = begin(&mut a, 0.01);
    let why = decision(DecisionKind::Pause, a.state());
    a.record(
        &claim,
        vec![Change::Report { step: 9, value: 0.5 }, Change::Pause { step: 9, decision: Some(why) }],
    )
    .expect("written");
    assert_eq!((stage(&a, 0), a.state().trials()[0].paused_at()), (Stage::Paused, Some(9)));
    assert_eq!(lost(a.record(&claim, vec![])), "trial 0 is not this worker's any more: it is paused");
    let second = promote(&mut b, 0).expect("promoted");
    assert_eq!((second.attempt, second.lost), (2, 0));
    assert_eq!(stage(&b, 0), Stage::Running);
    let late = promote(&mut a, 0).expect_err("promoted already").to_string();
    assert_eq!(late, "trial 0 is running; expected paused");
    b.record(&second, vec![Change::Pause { step: 27, decision: None }]).expect("written");
    let third = promote(&mut a, 0).expect("promoted");
    a.record(&third, vec![Change::Complete { value: 0.25 }]).expect("written");
    assert_eq!(stage(&a, 0), Stage::Complete);
    // Optuna shows no pause either.
    assert!(read(&journal.path, None).expect("a study").trials()[0].paused_at().is_none());
}

#[test]
fn paused_trials_end_pruned() {
    let journal = Journal::new();
    let mut study = journal.join("a");
    for step in [3, 9] {
        let claim = begin(&mut study, 0.01);
        study
            .record(&claim, vec![Change::Report { step, value: 1.0 }, Change::Pause { step, decision: None }])
            .expect("written");
    }
    begin(&mut study, 0.02);
    assert_eq!(study.prune_paused("the study is over").expect("written"), [0, 1]);
    assert_eq!([0, 1, 2].map(|number| stage(&study, number)), [Stage::Pruned, Stage::Pruned, Stage::Running]);
    assert_eq!(study.state().trials()[1].reason(), Some("the study is over"));
}

#[test]
fn a_lease_is_over_by_the_readers_own_clock() {
    let journal = Journal::new();
    let [theirs, ours] = [Hand::default(), Hand::default()];
    let mut dead = theirs.join(&journal.path, "dead");
    let claim = begin(&mut dead, 0.01);
    ours.pass(1_000_000);
    let mut study = ours.join(&journal.path, "alive");
    assert_eq!(lapsed(&mut study), None);
    ours.pass(119);
    assert_eq!(lapsed(&mut study), None);
    // A sign of life starts the time anew.
    theirs.pass(41);
    assert_eq!(dead.renew(std::slice::from_ref(&claim)).expect("written"), []);
    ours.pass(2);
    assert_eq!(lapsed(&mut study), None);
    ours.pass(121);
    let taken = lapsed(&mut study).expect("the trial");
    assert_eq!((taken.number, taken.attempt, taken.lost), (0, 2, 1));

    // The old worker is refused, whatever it does.
    let says = "trial 0 is not this worker's any more: `alive` works on it, attempt 2";
    assert_eq!(dead.renew(std::slice::from_ref(&claim)).expect("read"), std::slice::from_ref(&claim));
    let text = journal.text();
    for change in [
        Change::Report { step: 1, value: 1.0 },
        Change::Complete { value: 0.1 },
        Change::Fail { reason: "it crashed".into() },
        Change::Pause { step: 1, decision: None },
    ] {
        assert_eq!(lost(dead.record(&claim, vec![change])), says);
    }
    assert_eq!(journal.text(), text);
    study.record(&taken, vec![Change::Complete { value: 0.5 }]).expect("written");
    assert_eq!(study.state().trials()[0].value(), Some(0.5));
}

#[test]
fn a_lease_that_holds_is_not_taken() {
    let journal = Journal::new();
    let hand = Hand::default();
    let [mut a, mut b] = ["a", "b"].map(|name| hand.join(&journal.path, name));
    begin(&mut a, 0.01);
    let refused = b.take(|_, _| Some(Take::Lapsed(0))).expect_err("it runs").to_string();
    assert_eq!(refused, "trial 0 is not this worker's any more: `a` works on it, attempt 1");
    // A worker that was slow does not take its own trial: it would run twice.
    hand.pass(1000);
    a.refresh().expect("read");
    assert_eq!((a.lapsed().len(), b.refresh().map(|_| ()).is_ok(), b.lapsed()), (0, true, vec![0]));
}

#[test]
fn leases_are_renewed_every_third_of_their_time() {
    let journal = Journal::new();
    let hand = Hand::default();
    let mut study = hand.join(&journal.path, "a");
    let claims = [begin(&mut study, 0.01), begin(&mut study, 0.02)];
    let before = journal.text().lines().count();
    for _ in 0..1200 {
        hand.pass(1);
        assert_eq!(study.renew(&claims).expect("written"), []);
    }
    assert_eq!(journal.text().lines().count() - before, 2 * 30);
    // A report is a sign of life as well.
    hand.pass(40);
    study.record(&claims[0], vec![Change::Report { step: 1, value: 1.0 }]).expect("written");
    assert_eq!(study.state().trials()[0].lease.as_ref().map(|lease| lease.beat), Some(31));
}

#[test]
fn a_late_record_of_a_stopped_worker_does_not_take_the_trial_back() {
    let journal = Journal::new();
    let hand = Hand::default();
    let mut stopped = hand.join(&journal.path, "stopped");
    let claim = begin(&mut stopped, 0.01);
    let lease = stopped.state().trials()[0].lease.clone().expect("a lease");
    let mut next = hand.join(&journal.path, "next");
    hand.pass(200);
    let taken = lapsed(&mut next).expect("the trial");
    // What a worker writes that was stopped between its look at the lock and its write.
    for attempt in [1, 2] {
        let late =
            json!({"worker": "stopped", "attempt": attempt, "beat": 9, "lost": 0, "seconds": lease.seconds});
        let late = oomph_study::journal::TrialAttribute {
            trial_id: claim.id,
            owner: oomph_study::Owner::User,
            key: "oomph:lease".into(),
            value: late,
        };
        stopped.update(|_| Ok(vec![oomph_study::journal::Operation::TrialAttribute(late)])).expect("written");
    }
    next.record(&taken, vec![Change::Complete { value: 0.5 }]).expect("still its trial");
}

#[test]
fn a_reserved_trial_gets_its_point_later() {
    let journal = Journal::new();
    let hand = Hand::default();
    let [mut a, mut b] = ["a", "b"].map(|name| hand.join(&journal.path, name));
    let claim = a.take(|_, _| Some(Take::Reserve)).expect("written").expect("a trial");
    assert!(!a.state().trials()[0].is_decided());
    // Its point is no use to others yet.
    let seen = a.state().seen(1, None);
    assert_eq!(a.state().view(seen), []);
    hand.pass(200);
    b.refresh().expect("read");
    hand.pass(200);
    let taken = lapsed(&mut b).expect("the trial");
    assert!(!b.state().trials()[0].is_decided());
    let why = decision(DecisionKind::Begin, b.state());
    b.record(&taken, vec![Change::Settle(point(0.03), why)]).expect("written");
    assert!(b.state().trials()[0].is_decided());
    assert_eq!(b.state().view(b.state().seen(1, None))[0].point, point(0.03));
    let why = decision(DecisionKind::Begin, a.state());
    lost(a.record(&claim, vec![Change::Settle(point(0.04), why)]));
}

#[test]
fn enqueued_trials_keep_their_values() {
    let journal = Journal::new();
    let mut study = journal.join("a");
    let points = vec![
        BTreeMap::from([("optimizer.lr".into(), json!(0.05)), ("optimizer.name".into(), json!("sgd"))]),
        BTreeMap::from([("model.width".into(), json!(64))]),
    ];
    assert_eq!(study.enqueue(points.clone()).expect("written"), [0, 1]);
    assert_eq!(stage(&study, 1), Stage::Waiting);
    let claim = study.take(|_, _| Some(Take::Waiting(1))).expect("written").expect("a trial");
    assert_eq!(study.state().trials()[1].fixed(), points[1]);
    assert_eq!(stage(&study, 1), Stage::Running);
    let twice = study.take(|_, _| Some(Take::Waiting(1))).expect_err("it runs").to_string();
    assert_eq!(twice, "trial 1 is running; expected waiting");
    let why = decision(DecisionKind::Begin, study.state());
    study
        .record(&claim, vec![Change::Settle(point(0.01), why), Change::Complete { value: 1.0 }])
        .expect("written");
    for (point, says) in [
        (json!({"optimizer.momentum": 0.5}), "the study has no parameter `optimizer.momentum`"),
        (
            json!({"model.width": 12}),
            "the parameter `model.width` has the value 12, which is not in its domain",
        ),
        (
            json!({"optimizer.name": "lion"}),
            "the parameter `optimizer.name` has the value \"lion\", which is not in its domain",
        ),
    ] {
        let point = serde_json::from_value(point).expect("a point");
        assert_eq!(study.enqueue(vec![point]).expect_err(says).to_string(), says);
    }
}

#[test]
fn what_does_not_fit_is_infeasible_and_no_worse_than_that() {
    let journal = Journal::new();
    let mut study = journal.join("a");
    for violation in [0.5, 0.0, f64::INFINITY, f64::NAN] {
        let claim = begin(&mut study, 0.01);
        let reason = "it needs 3 GiB of 2 GiB".to_owned();
        study.record(&claim, vec![Change::Infeasible { violation, reason }]).expect("written");
        let trial = &study.state().trials()[claim.number];
        assert_eq!((trial.stage(), trial.state), (Stage::Infeasible, TrialState::Fail));
        assert!(trial.violation() > 0.0 && trial.reason().is_some());
    }
    assert!(study.state().best().is_none());
}

#[test]
fn a_point_must_be_in_the_space() {
    let journal = Journal::new();
    let mut study = journal.join("a");
    let before = journal.text();
    for (name, value, says) in [
        ("x", 1.0, "the study has no parameter `x`"),
        ("optimizer.lr", 0.2, "the parameter `optimizer.lr` has the value 0.2, which is not in its domain"),
        (
            "optimizer.lr",
            f64::NAN,
            "the parameter `optimizer.lr` has the value NaN, which is not in its domain",
        ),
        ("optimizer.name", 2.0, "the parameter `optimizer.name` has the value 2, which is not in its domain"),
    ] {
        let point = Point::from([(name.to_owned(), value)]);
        let taken = study.take(|state, _| Some(Take::Begin(point, decision(DecisionKind::Begin, state))));
        assert_eq!(taken.expect_err(says).to_string(), says);
    }
    assert_eq!(journal.text(), before);
}

#[test]
fn a_worker_with_another_study_in_mind_is_refused() {
    let journal = Journal::new();
    journal.join("a");
    let with = |change: fn(&mut Setup)| {
        let mut setup = setup();
        change(&mut setup);
        setup
    };
    let cases: [(Setup, &str); 8] = [
        (
            with(|it| it.direction = Direction::Maximize),
            "the direction is minimize in the study, and maximize here",
        ),
        (
            with(|it| it.metric = "accuracy".into()),
            "the metric is `eval loss` in the study, and `accuracy` here",
        ),
        (with(|it| it.seed = 8), "the seed is 7 in the study, and 8 here"),
        (
            with(|it| drop(it.settings.insert("scheduler".into(), "none".into()))),
            "the setting `scheduler` is `\"asha\"` in the study, and `\"none\"` here",
        ),
        (
            with(|it| drop(it.settings.insert("lease".into(), 60.into()))),
            "the setting `lease` is absent in the study, and `60` here",
        ),
        (
            with(|it| it.space[1].domain = Domain::Float { low: 1e-4, high: 0.2, step: None, log: true }),
            "the parameter `optimizer.lr` is a number from 0.0001 to 0.1, on a logarithmic scale in the study, and a number \
             from 0.0001 to 0.2, on a logarithmic scale here",
        ),
        (
            with(|it| {
                it.space[0].when =
                    Some(oomph_search::When { parameter: "optimizer.name".into(), choices: vec![0] })
            }),
            "and an integer from 8 to 64, in steps of 8, when optimizer.name is sgd here",
        ),
        (with(|it| drop(it.space.pop())), "in the study, and absent here"),
    ];
    for (setup, says) in cases {
        let refused = Study::join(&journal.path, &setup, worker("b")).expect_err(says).to_string();
        assert!(refused.ends_with(says), "{refused}");
    }
    let before = journal.text();
    journal.join("b");
    assert_eq!(journal.text(), before);
}

#[test]
fn a_parameter_keeps_its_kind_scale_and_choices() {
    let lines = |distribution: &str| {
        let distribution = json!(distribution).to_string();
        format!(
            "{}\n{}\n{}\n",
            r#"{"op_code":0,"worker_id":"w","study_name":"digits","directions":[1]}"#,
            r#"{"op_code":4,"worker_id":"w","study_id":0,"datetime_start":null}"#,
            format_args!(
                r#"{{"op_code":5,"worker_id":"w","trial_id":0,"param_name":"x","param_value_internal":1,"distribution":{distribution}}}"#
            ),
        )
    };
    let join = |theirs: &str, ours: Parameter| {
        let journal = Journal::new();
        std::fs::write(&journal.path, lines(theirs)).expect("written");
        let setup = Setup { space: vec![Parameter { name: "x".into(), ..ours }], ..setup() };
        Study::join(&journal.path, &setup, worker("a")).map(|study| study.state().distribution("x").is_some())
    };
    let float = r#"{"name":"FloatDistribution","attributes":{"step":null,"low":0.5,"high":2,"log":true}}"#;
    let choice = r#"{"name":"CategoricalDistribution","attributes":{"choices":["adamw","sgd"]}}"#;
    assert!(join(float, lr()).expect("another range is no other parameter"));
    let refused = |theirs, ours| join(theirs, ours).expect_err("another parameter").to_string();
    assert_eq!(
        refused(float, name()),
        "the parameter `x` is one of `[\"sgd\",\"adamw\"]` here, and a number on a logarithmic scale in earlier trials of the study"
    );
    assert_eq!(
        refused(choice, name()),
        "the parameter `x` is one of `[\"sgd\",\"adamw\"]` here, and one of `[\"adamw\",\"sgd\"]` in earlier trials of the study"
    );
    let linear = Domain::Float { low: 0.0, high: 1.0, step: None, log: false };
    assert_eq!(
        refused(float, Parameter { domain: linear, ..lr() }),
        "the parameter `x` is a number here, and a number on a logarithmic scale in earlier trials of the study"
    );
    let choices = Domain::Choice(vec![Choice::Integer(1)]);
    assert!(
        join(r#"{"name":"New","attributes":{"a":"\u001b"}}"#, Parameter { domain: choices, ..lr() }).is_err()
    );
}

#[test]
fn a_deleted_study_is_missing() {
    let journal = Journal::new();
    let mut study = journal.join("a");
    let claim = begin(&mut study, 0.01);
    let delete =
        oomph_study::journal::Operation::DeleteStudy(oomph_study::journal::DeleteStudy { study_id: 0 });
    study.update(|_| Ok(vec![delete])).expect("written");
    let missing = study.record(&claim, vec![]).expect_err("deleted").to_string();
    assert!(missing.ends_with("has no study `digits`; it has none"), "{missing}");
    assert!(study.refresh().is_err());
    // The name is free again, and no id is used twice.
    let mut again = journal.join("b");
    let claim = begin(&mut again, 0.02);
    assert_eq!((claim.number, claim.id), (0, 1));
}

/// A sampler whose answer depends on all that it saw.
fn sample(number: usize, trials: &[oomph_search::Trial]) -> Point {
    let mut key = oomph_core::Key::new(7).with(number as u64);
    for trial in trials {
        key = key
            .with(trial.number as u64)
            .with(trial.value.map_or(1, f64::to_bits))
            .with_name(&format!("{:?}", trial.state));
        key = trial.steps.values().fold(key, |key, value| key.with(value.to_bits()));
        key = trial.point.values().fold(key, |key, value| key.with(value.to_bits()));
    }
    let mut generator = oomph_core::Generator::at(key);
    let lr = f64::from(generator.uniform_in(1e-4, 0.1));
    let choice = f64::from(generator.chance(0.5));
    Point::from([("optimizer.lr".into(), lr), ("optimizer.name".into(), choice)])
}

fn begin_sampled(study: &mut Study, workers: Option<usize>) -> Claim {
    let claim = study.take(|state, _| {
        let number = state.trials().len();
        let seen = state.seen(number, workers);
        assert!(state.is_ready(seen));
        let point = sample(number, &state.view(seen));
        let why = Decision { kind: DecisionKind::Begin, seen, rule: "hash".into(), rank: 0, rounds: 0 };
        Some(Take::Begin(point, why))
    });
    claim.expect("written").expect("a trial")
}

fn remake(question: &oomph_study::Question<'_>) -> Outcome {
    match question.decision.kind {
        DecisionKind::Begin => Outcome::Begin(sample(question.number, &question.trials)),
        DecisionKind::Promote | DecisionKind::Finish => {
            let paused = question.trials.iter().filter(|trial| trial.state == Stage::Paused);
            paused.map(|trial| trial.number).next().map_or(Outcome::Continue, Outcome::Promote)
        }
        DecisionKind::Pause => Outcome::Pause,
        DecisionKind::Prune => Outcome::Prune,
    }
}

/// Two workers, a reserved trial that is settled late, a pause and a promotion.
fn busy_study(journal: &Journal) {
    let [mut a, mut b] = ["a", "b"].map(|name| journal.join(name));
    let first = begin_sampled(&mut a, None);
    let slow = b.take(|_, _| Some(Take::Reserve)).expect("written").expect("a trial");
    let seen = b.state().seen(slow.number, None);
    let point = sample(slow.number, &b.state().view(seen));
    a.record(&first, vec![Change::Report { step: 9, value: 0.5 }, Change::Pause { step: 9, decision: None }])
        .expect("written");
    let third = begin_sampled(&mut a, None);
    let why = Decision { kind: DecisionKind::Begin, seen, rule: "hash".into(), rank: 0, rounds: 0 };
    b.record(&slow, vec![Change::Settle(point, why), Change::Complete { value: 0.3 }]).expect("written");
    let claim = b.take(|state, _| {
        let why = Decision {
            kind: DecisionKind::Promote,
            seen: state.seen(0, None),
            rule: "asha".into(),
            rank: 0,
            rounds: 0,
        };
        Some(Take::Promote(0, why))
    });
    let claim = claim.expect("written").expect("a trial");
    b.record(&claim, vec![Change::Complete { value: 0.2 }]).expect("written");
    a.record(&third, vec![Change::Complete { value: 0.4 }]).expect("written");
    begin_sampled(&mut a, None);
}

#[test]
fn every_decision_of_a_study_is_made_again() {
    let journal = Journal::new();
    busy_study(&journal);
    let report = replay(&journal.path, None, remake).expect("a study");
    assert_eq!((report.checked, report.differences), (5, vec![]));
}

#[test]
fn a_changed_result_shows_in_the_decisions_after_it() {
    let journal = Journal::new();
    busy_study(&journal);
    let text = journal.text();
    let changed = text.replacen(r#""values":[0.3]"#, r#""values":[0.30000000000000004]"#, 1);
    assert_ne!(text, changed);
    std::fs::write(&journal.path, changed).expect("written");
    let report = replay(&journal.path, None, remake).expect("a study");
    let numbers: Vec<_> = report.differences.iter().map(|difference| difference.number).collect();
    assert_eq!((report.checked, numbers), (5, vec![3]));
    assert_eq!(report.differences[0].line, text.lines().count() as u64);
    // A decision that claims to have seen the future cannot have been made.
    let future = text.replacen(r#""seen":{"records":5}"#, r#""seen":{"records":99}"#, 1);
    assert_ne!(text, future);
    std::fs::write(&journal.path, future).expect("written");
    let report = replay(&journal.path, None, remake).expect("a study");
    assert_eq!(report.differences.len(), 1);
    assert_eq!(report.differences[0].remade, None);
}

/// Runs `total` trials of a deterministic study with two workers; `early` says which of the two running trials ends first.
fn deterministic(early: impl Fn(usize) -> bool, total: usize) -> Vec<(Point, Option<f64>)> {
    let journal = Journal::new();
    let [mut a, mut b] = ["a", "b"].map(|name| journal.join(name));
    let mut running = Vec::new();
    while a.refresh().expect("read").trials().len() < total || !running.is_empty() {
        let number = a.state().trials().len();
        let seen = a.state().seen(number, Some(2));
        if number < total && a.state().is_ready(seen) {
            let study = if number % 2 == 0 { &mut a } else { &mut b };
            running.push(begin_sampled(study, Some(2)));
            continue;
        }
        let at = if early(number) { 0 } else { running.len() - 1 };
        let claim = running.remove(at);
        let study = if claim.number % 2 == 0 { &mut a } else { &mut b };
        let value = study.refresh().expect("read").trials()[claim.number].point["optimizer.lr"] * 2.0;
        study
            .record(&claim, vec![Change::Report { step: 1, value }, Change::Complete { value }])
            .expect("written");
    }
    let report = replay(&journal.path, None, remake).expect("a study");
    assert_eq!((report.checked, report.differences), (total, vec![]));
    let trials = a.refresh().expect("read").trials().iter();
    trials.map(|trial| (trial.point.clone(), trial.value())).collect()
}

#[test]
fn a_deterministic_study_repeats_whoever_is_faster() {
    let first = deterministic(|_| true, 12);
    assert_eq!(first, deterministic(|_| false, 12));
    assert_eq!(first, deterministic(|number| number % 3 == 0, 12));
}

#[test]
fn a_summary_counts_and_follows_the_best() {
    let journal = Journal::new();
    let mut study = journal.join("a");
    for value in [0.5, 0.7, 0.2] {
        let claim = begin(&mut study, 0.01);
        study
            .record(
                &claim,
                vec![
                    Change::Report { step: 3, value },
                    Change::Report { step: 9, value },
                    Change::Complete { value },
                ],
            )
            .expect("written");
    }
    for step in [3, 9] {
        let claim = begin(&mut study, 0.01);
        let mut changes = vec![Change::Report { step: 3, value: 1.0 }];
        if step == 9 {
            changes.push(Change::Report { step: 9, value: 1.0 });
        }
        changes.push(Change::Pause { step, decision: None });
        study.record(&claim, changes).expect("written");
    }
    let claim = begin(&mut study, 0.01);
    study
        .record(
            &claim,
            vec![
                Change::Report { step: 3, value: 2.0 },
                Change::Prune { reason: "worse".into(), decision: None },
            ],
        )
        .expect("written");
    study.enqueue(vec![BTreeMap::new()]).expect("written");
    let summary = serde_json::to_value(Summary::of(study.state(), &[])).expect("JSON");
    assert_eq!(
        summary,
        json!({
            "name": "digits", "direction": "minimize", "metric": "eval loss",
            "counts": {"waiting": 1, "running": 0, "paused": 2, "complete": 3, "pruned": 1, "failed": 0, "infeasible": 0},
            "best": {"number": 2, "value": 0.2, "parameters": {"model.width": 16, "optimizer.lr": 0.01, "optimizer.name": "adamw"}},
            "progress": [
                {"number": 0, "value": 0.5, "best": 0.5},
                {"number": 1, "value": 0.7, "best": 0.5},
                {"number": 2, "value": 0.2, "best": 0.2},
            ],
            "rung_counts": [
                {"step": 3, "reached": 6, "paused": 1, "pruned": 1, "passed": 4},
                {"step": 9, "reached": 4, "paused": 1, "pruned": 0, "passed": 3},
            ],
        })
    );
}
