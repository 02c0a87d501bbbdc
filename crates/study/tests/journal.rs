//! The file: torn tails, damaged lines, files that change under a reader.

mod support;

use std::{
    collections::BTreeMap,
    fs::{self, OpenOptions},
    io::Write,
};

use oomph_search::Direction;
use oomph_study::{
    Change, Distribution, Owner, Study, StudyError,
    journal::{
        CreateStudy, CreateTrial, DeleteStudy, Intermediate, Number, Operation, Record, SetTrialState,
        StudyAttribute, TrialAttribute, TrialParameter, TrialState,
    },
    parse_journal, read,
};
use proptest::prelude::*;
use support::{Journal, begin, setup, worker};

fn append(journal: &Journal, bytes: &[u8]) {
    let mut file = OpenOptions::new().append(true).open(&journal.path).expect("the journal");
    file.write_all(bytes).expect("written");
}

#[test]
fn a_tail_torn_at_any_byte_is_repaired_by_the_next_record() {
    let journal = Journal::new();
    let mut study = journal.join("a");
    begin(&mut study, 0.01);
    let whole = journal.text();
    let cut = whole[..whole.len() - 1].rfind('\n').expect("several lines") + 1;
    let last = whole[cut..].len();
    assert!(last > 300);
    for kept in 0..last {
        fs::write(&journal.path, &whole.as_bytes()[..cut + kept]).expect("a torn journal");
        // A reader leaves the tail: its writer may be alive.
        assert_eq!(read(&journal.path, None).expect("a study").trials().len(), 0, "{kept}");
        let mut next = journal.join("b");
        begin(&mut next, 0.02);
        let text = journal.text();
        assert_eq!(text[..cut], whole[..cut], "{kept}");
        assert_eq!(text.lines().count(), whole.lines().count(), "{kept}");
        assert!(text.ends_with('\n') && next.state().trials()[0].point["optimizer.lr"] == 0.02, "{kept}");
    }
    assert_eq!(journal.files(), 1);
}

#[test]
fn zeros_and_blank_lines_at_the_end_are_repaired() {
    for tail in ["\0\0\0\0", "\n", "\n\n \r\n", "\n{\"op_code\""] {
        let journal = Journal::new();
        let mut study = journal.join("a");
        let before = journal.text();
        append(&journal, tail.as_bytes());
        begin(&mut study, 0.01);
        let text = journal.text();
        assert!(text.starts_with(&before), "{tail:?}");
        assert_eq!(text.lines().count(), before.lines().count() + 1, "{tail:?}");
    }
}

#[test]
fn a_damaged_line_is_named() {
    let journal = Journal::new();
    let mut study = journal.join("a");
    begin(&mut study, 0.01);
    let whole = journal.text();
    let count = whole.lines().count();
    for (damage, says) in [
        ("", "the line is blank, which Optuna does not accept either"),
        ("{\"op_code\":4,\"wor{\"op_code\":4}", "expected `:`"),
        ("[]", "invalid length"),
        ("{\"op_code\":11,\"worker_id\":\"\"}", "unknown operation 11; expected 0 to 10"),
        ("{\"op_code\":6,\"worker_id\":\"\",\"trial_id\":0,\"state\":9,\"values\":null}", "unknown state 9"),
        (
            "{\"op_code\":8,\"worker_id\":\"\",\"trial_id\":0,\"user_attr\":{}}",
            "`user_attr` must have one key",
        ),
        ("{\"op_code\":8,\"worker_id\":\"\",\"user_attr\":{\"a\":1}}", "missing field `trial_id`"),
        (
            "{\"op_code\":7,\"worker_id\":\"\",\"trial_id\":0,\"step\":1,\"intermediate_value\":null}",
            "expected a number",
        ),
        ("\u{1b}[31m", "expected value"),
    ] {
        let mut lines: Vec<_> = whole.lines().collect();
        lines[count - 2] = damage;
        fs::write(&journal.path, lines.join("\n") + "\n").expect("a damaged journal");
        let error = read(&journal.path, None).expect_err(damage).to_string();
        let begins = format!("line {} of `{}` is no record of a study: ", count - 1, journal.path.display());
        assert!(error.starts_with(&begins) && error.contains(says), "{damage}: {error}");
        // Nothing is written behind it.
        let before = journal.text();
        Study::join(&journal.path, &setup(), worker("b")).expect_err("damaged");
        assert_eq!(journal.text(), before);
    }
    fs::write(&journal.path, b"{}\xff\n").expect("a damaged journal");
    assert!(read(&journal.path, None).expect_err("no text").to_string().ends_with("it is not UTF-8"));
}

#[test]
fn an_endless_line_is_refused() {
    let journal = Journal::new();
    fs::write(&journal.path, vec![b' '; (16 << 20) + 1000]).expect("a long line");
    let error = read(&journal.path, None).expect_err("too long").to_string();
    assert!(error.ends_with("it is longer than 16,777,216 bytes"), "{error}");
}

#[test]
fn a_reader_continues_where_it_stopped() {
    let journal = Journal::new();
    let [mut writer, mut reader] = ["a", "b"].map(|name| journal.join(name));
    for count in 1..5 {
        begin(&mut writer, 0.01);
        assert_eq!(reader.refresh().expect("read").trials().len(), count);
    }
}

#[test]
fn a_journal_that_was_replaced_or_shortened_is_noticed() {
    type Damage = fn(&Journal);
    let damages: [(Damage, &str); 4] = [
        (
            |journal| {
                let text = journal.text();
                // It stays beside, so that its inode is not used again.
                fs::rename(&journal.path, journal.folder.path().join("other")).expect("renamed");
                fs::write(&journal.path, text).expect("written");
            },
            "replaced by another file",
        ),
        (
            |journal| {
                let text = journal.text();
                fs::write(&journal.path, &text[..text.len() / 2]).expect("written");
            },
            "shortened",
        ),
        (
            |journal| {
                let text = journal.text().replace(r#""worker":"a""#, r#""worker":"b""#);
                fs::write(&journal.path, text).expect("written");
            },
            "overwritten",
        ),
        (|journal| fs::remove_file(&journal.path).expect("removed"), "cannot read"),
    ];
    for (damage, says) in damages {
        let journal = Journal::new();
        let mut study = journal.join("a");
        begin(&mut study, 0.01);
        damage(&journal);
        let error = study.refresh().expect_err(says).to_string();
        assert!(error.contains(says), "{error}");
        assert!(study.update(|_| Ok(vec![Operation::Discard])).is_err(), "{says}");
    }
}

#[test]
fn a_second_worker_sees_what_optuna_wrote() {
    let journal = Journal::new();
    let lines = concat!(
        r#"{"op_code": 0, "worker_id": "w-1", "study_name": "other", "directions": [1, 2], "new": [{}]}"#,
        "\n",
        r#"{"op_code":4,"worker_id":"w-1","study_id":0,"datetime_start":"2026-11-22T10:00:00.000000+00:00"}"#,
        "\n",
        r#"{"op_code":0,"worker_id":"w-1","study_name":"digits","directions":[1]}"#,
        "\n",
        r#"{"op_code":0,"worker_id":"w-2","study_name":"digits","directions":[2]}"#,
        "\n",
        r#"{"op_code":4,"worker_id":"w-1","study_id":1,"datetime_start":null,"state":4,"value":null,"values":null,"distributions":{},"params":{},"user_attrs":{},"system_attrs":{"fixed_params":{"optimizer.lr":0.05}},"intermediate_values":{}}"#,
        "\n",
        r#"{"op_code":4,"worker_id":"w-1","study_id":1,"datetime_start":"2026-11-22T10:00:00.000000+00:00"}"#,
        "\n",
        r#"{"op_code":5,"worker_id":"w-1","trial_id":2,"param_name":"optimizer.lr","param_value_internal":0.002,"distribution":"{\"name\": \"FloatDistribution\", \"attributes\": {\"step\": null, \"low\": 0.0001, \"high\": 0.1, \"log\": true}}"}"#,
        "\r\n",
        r#"{"op_code":7,"worker_id":"w-1","trial_id":2,"step":1,"intermediate_value":NaN}"#,
        "\n",
        r#"{"op_code":7,"worker_id":"w-1","trial_id":2,"step":2,"intermediate_value":-Infinity}"#,
        "\n",
        r#"{"op_code":8,"worker_id":"w-1","trial_id":2,"user_attr":{"x":[NaN,{"y":null}]}}"#,
        "\n",
        r#"{"op_code":9,"worker_id":"w-1","trial_id":2,"system_attr":{"completed_rung_0":0.5}}"#,
        "\n",
        r#"{"op_code":6,"worker_id":"w-1","trial_id":2,"state":1,"values":[0.25],"datetime_complete":"2026-11-22T10:00:01.000000+00:00"}"#,
        "\n",
        r#"{"op_code":6,"worker_id":"w-1","trial_id":2,"state":3,"values":null,"datetime_complete":"2026-11-22T10:00:01.000000+00:00"}"#,
        "\n",
        r#"{"op_code":7,"worker_id":"w-1","trial_id":2,"step":3,"intermediate_value":1}"#,
        "\n",
        r#"{"op_code":10,"worker_id":"w-1","study_id":1,"trial_ids":[2]}"#,
        "\n",
    );
    fs::write(&journal.path, lines).expect("written");
    let study = journal.join("a");
    let [waiting, complete] = study.state().trials() else { panic!("{:?}", study.state()) };
    assert_eq!(waiting.fixed()["optimizer.lr"], 0.05);
    assert_eq!((complete.id, complete.value(), complete.point["optimizer.lr"]), (2, Some(0.25), 0.002));
    assert!(complete.intermediate[&1].is_nan() && complete.intermediate[&2] == f64::NEG_INFINITY);
    assert_eq!(complete.intermediate.len(), 2);
    assert_eq!(study.state().direction(), Direction::Minimize);
    assert_eq!(study.state().studies(), ["other", "digits"]);
}

fn finite() -> impl Strategy<Value = Number> {
    any::<f64>().prop_filter("finite", |value| value.is_finite()).prop_map(Number)
}

/// Values that are no list of tiny objects: those are kept as texts.
fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        finite().prop_map(|number| number.0.into()),
        ".*".prop_map(Into::into),
    ];
    let any = leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map(".*", inner, 0..4).prop_map(serde_json::Value::from_iter),
        ]
    });
    any.prop_filter("too many tiny objects", |value| {
        let text = value.to_string();
        text.matches(['{', '[']).count() * 640 <= text.len() * 48 + 384
    })
}

fn distribution() -> impl Strategy<Value = Distribution> {
    use oomph_search::{Choice, Domain};
    let number = (1e-9f64..1.0, 1.0f64..1e9, any::<bool>(), prop::option::of(1e-3f64..1.0));
    let float = number.prop_map(|(low, high, log, step)| Domain::Float {
        low,
        high,
        log,
        step: if log { None } else { step },
    });
    let integer = (1i64..100, 100i64..i64::MAX, 1i64..9).prop_map(|(low, high, step)| Domain::Integer {
        low,
        high,
        step,
        log: step == 1,
    });
    let choice = prop_oneof![
        any::<bool>().prop_map(Choice::Boolean),
        any::<i64>().prop_map(Choice::Integer),
        finite().prop_map(|number| Choice::Number(number.0)),
        ".*".prop_map(Choice::Text),
    ];
    let choices = prop::collection::vec(choice, 1..5).prop_map(Domain::Choice);
    prop_oneof![float, integer, choices].prop_map(Distribution::Known)
}

fn owner() -> impl Strategy<Value = Owner> {
    prop_oneof![Just(Owner::User), Just(Owner::System)]
}

fn trial_state() -> impl Strategy<Value = TrialState> {
    use TrialState::{Complete, Fail, Pruned, Running, Waiting};
    prop::sample::select(vec![Running, Complete, Pruned, Fail, Waiting])
}

fn create_trial() -> impl Strategy<Value = Operation> {
    let parameters = prop::collection::btree_map(".*", (finite(), distribution()), 0..4);
    let values = prop::option::of(prop::collection::vec(finite(), 0..3));
    let attributes = || prop::collection::btree_map(".*", json(), 0..3);
    let steps = prop::collection::btree_map(any::<i64>(), finite(), 0..4);
    (any::<u64>(), prop::option::of(trial_state()), values, parameters, attributes(), attributes(), steps)
        .prop_map(|(study_id, state, values, parameters, user_attrs, system_attrs, intermediate_values)| {
            let mut trial = CreateTrial::new(study_id);
            for (name, (value, distribution)) in parameters {
                trial.params.insert(name.clone(), value);
                trial.distributions.insert(name, distribution);
            }
            let value = values.clone().and_then(|values: Vec<_>| values.first().copied());
            let trial =
                CreateTrial { state, value, values, user_attrs, system_attrs, intermediate_values, ..trial };
            Operation::CreateTrial(Box::new(trial))
        })
}

fn operation() -> impl Strategy<Value = Operation> {
    let direction = prop_oneof![Just(Direction::Minimize), Just(Direction::Maximize)];
    prop_oneof![
        (".*", prop::collection::vec(direction, 1..3)).prop_map(|(study_name, directions)| {
            Operation::CreateStudy(CreateStudy { study_name, directions })
        }),
        any::<u64>().prop_map(|study_id| Operation::DeleteStudy(DeleteStudy { study_id })),
        (any::<u64>(), owner(), ".*", json()).prop_map(|(study_id, owner, key, value)| {
            Operation::StudyAttribute(StudyAttribute { study_id, owner, key, value })
        }),
        create_trial(),
        (any::<u64>(), ".*", finite(), distribution()).prop_map(
            |(trial_id, param_name, value, distribution)| {
                let param_value_internal = value;
                Operation::Parameter(TrialParameter {
                    trial_id,
                    param_name,
                    param_value_internal,
                    distribution,
                })
            }
        ),
        (any::<u64>(), trial_state(), prop::option::of(finite()), prop::option::of(".*")).prop_map(
            |(trial_id, state, value, date)| {
                Operation::TrialState(SetTrialState {
                    trial_id,
                    state,
                    values: value.map(|value| vec![value]),
                    datetime_start: date.clone(),
                    datetime_complete: date,
                })
            }
        ),
        (any::<u64>(), any::<i64>(), finite()).prop_map(|(trial_id, step, intermediate_value)| {
            Operation::Intermediate(Intermediate { trial_id, step, intermediate_value })
        }),
        (any::<u64>(), owner(), ".*", json()).prop_map(|(trial_id, owner, key, value)| {
            Operation::TrialAttribute(TrialAttribute { trial_id, owner, key, value })
        }),
    ]
}

/// A change of a small study: ids that exist, or nearly.
fn small(mut operation: Operation) -> Operation {
    match &mut operation {
        Operation::CreateStudy(of) => of.study_name = "digits".into(),
        Operation::DeleteStudy(of) => of.study_id = of.study_id % 8 + 1,
        Operation::StudyAttribute(of) => of.study_id %= 2,
        Operation::CreateTrial(of) => of.study_id %= 2,
        Operation::Parameter(of) => of.trial_id %= 6,
        Operation::TrialState(of) => of.trial_id %= 6,
        Operation::Intermediate(of) => of.trial_id %= 6,
        Operation::TrialAttribute(of) => of.trial_id %= 6,
        Operation::Discard => {}
    }
    operation
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_record_is_read_as_it_was_written(worker in ".*", operation in operation()) {
        let record = Record { worker, operation };
        let line = record.to_line().expect("finite numbers");
        prop_assert!(!line.contains('\n'));
        prop_assert_eq!(Record::parse(&line), Ok(record));
    }

    #[test]
    fn numbers_that_are_not_finite_are_never_written(step in any::<i64>(), which in 0usize..3) {
        let value = Number([f64::NAN, f64::INFINITY, f64::NEG_INFINITY][which]);
        let operation = Operation::Intermediate(Intermediate { trial_id: 0, step, intermediate_value: value });
        let record = Record { worker: String::new(), operation };
        prop_assert!(record.to_line().is_err());
    }

    #[test]
    fn a_journal_in_parts_is_the_same_study(operations in prop::collection::vec(operation(), 1..24), at in 0usize..24) {
        let journal = Journal::new();
        let mut lines = vec![r#"{"op_code":0,"worker_id":"","study_name":"digits","directions":[1]}"#.to_owned()];
        for operation in operations {
            lines.push(Record { worker: "w".into(), operation: small(operation) }.to_line().expect("finite numbers"));
        }
        let at = at.min(lines.len());
        let part = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let whole = parse_journal(part(&lines).as_bytes()).expect("records").state;
        fs::write(&journal.path, part(&lines[..at])).expect("written");
        let first = read(&journal.path, Some("digits"));
        append(&journal, part(&lines[at..]).as_bytes());
        let both = read(&journal.path, Some("digits"));
        prop_assert_eq!(both.map(|state| state.trials().to_vec()).unwrap_or_default(), whole.trials().to_vec());
        // Trials never vanish or change their numbers while their study stands.
        if let Ok(first) = first && whole.exists() && first.trials().len() <= whole.trials().len() {
            for (early, late) in first.trials().iter().zip(whole.trials()) {
                prop_assert_eq!((early.id, early.number), (late.id, late.number));
                prop_assert!(!early.state.is_finished() || early == late);
            }
        }
    }

    #[test]
    fn random_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..400), at in any::<prop::sample::Index>()) {
        let _ = parse_journal(&bytes);
        let line = br#"{"op_code":4,"worker_id":"w","study_id":0,"datetime_start":null,"params":{"x":NaN},"distributions":{"x":"{}"}}"#;
        let mut journal = br#"{"op_code":0,"worker_id":"","study_name":"digits","directions":[1]}"#.to_vec();
        journal.push(b'\n');
        journal.extend(line);
        journal.push(b'\n');
        let damaged = at.index(journal.len());
        journal[damaged] ^= bytes.pop().unwrap_or(1);
        let _ = parse_journal(&journal);
    }
}

#[test]
fn settings_of_every_kind_survive() {
    let journal = Journal::new();
    let mut with = setup();
    with.settings = BTreeMap::from([("a".into(), serde_json::json!([1, 0.1, "x", null, {"b": true}]))]);
    Study::create(&journal.path, &with, worker("a")).expect("a study");
    let open = Study::open(&journal.path, None, worker("b")).expect("the study");
    assert_eq!(open.setup(), &with);
    assert!(matches!(Study::create(&journal.path, &with, worker("c")), Err(StudyError::Exists { .. })));
    let missing =
        Study::open(&journal.path, Some("other"), worker("d")).expect_err("no such study").to_string();
    assert!(missing.ends_with("has no study `other`; it has `digits`"), "{missing}");
}

#[test]
fn no_value_that_is_not_finite_is_written() {
    let journal = Journal::new();
    let mut study = journal.join("a");
    let claim = begin(&mut study, 0.01);
    for value in [f64::NAN, f64::INFINITY] {
        let refused = study.record(&claim, vec![Change::Report { step: 1, value }]).expect_err("not finite");
        assert!(refused.to_string().ends_with("expected a finite number"), "{refused}");
    }
    study.record(&claim, vec![Change::Complete { value: f64::NAN }]).expect("a failure");
    let trial = &study.state().trials()[0];
    assert_eq!((trial.state, trial.reason()), (TrialState::Fail, Some("its value is NaN")));
    assert!(!journal.text().contains(":NaN"));
}
