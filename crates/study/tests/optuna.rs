//! Optuna opens what we write, sees what we see, and works beside us. `OOMPH_OPTUNA_PYTHON` names a Python that has Optuna.

mod support;

use std::{
    collections::BTreeMap,
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use oomph_core::{Generator, Key};
use oomph_search::{Point, TrialState as Stage};
use oomph_study::{
    Change, DecisionKind, Distribution, Owner, StoredTrial, Study, StudyState, Take,
    journal::{
        CreateStudy, CreateTrial, Intermediate, Number, Operation, Record, SetTrialState, TrialAttribute,
        TrialParameter, TrialState,
    },
    read,
};
use oomph_test_support::{Missing, skip};
use serde_json::{Value, json};
use support::{Journal, begin, decision, lr, name, point};

fn python() -> Option<String> {
    let python = env::var("OOMPH_OPTUNA_PYTHON").ok();
    if python.is_none() {
        skip(Missing::Optuna);
    }
    python
}

fn command(python: &str, command: &str, paths: &[&Path]) -> Command {
    let mut asked = Command::new(python);
    asked.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/optuna.py")).arg(command).args(paths);
    asked
}

fn ask(mut command: Command) -> Value {
    let answer = command.output().expect("Python");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    serde_json::from_slice(&answer.stdout).expect("JSON")
}

/// A trial as `optuna.py` shows it.
fn shown(trial: &StoredTrial) -> Value {
    let state = match trial.state {
        TrialState::Fail => "fail",
        state => state.name(),
    };
    let steps: BTreeMap<String, f64> =
        trial.intermediate.iter().map(|(step, value)| (step.to_string(), *value)).collect();
    json!({
        "number": trial.number,
        "state": state,
        "values": if trial.values.is_empty() { Value::Null } else { trial.values.clone().into() },
        "params": trial.parameters(),
        "steps": steps,
        "user": trial.user_attributes,
        "system": trial.system_attributes,
        "started": trial.started.is_some(),
        "ended": trial.ended.is_some(),
    })
}

fn assert_agree(state: &StudyState, optuna: &Value) {
    let trials: Vec<_> = state.trials().iter().map(shown).collect();
    for (ours, theirs) in trials.iter().zip(optuna["trials"].as_array().expect("trials")) {
        assert_eq!(ours, theirs, "Optuna {}", optuna["version"]);
    }
    assert_eq!(trials.len(), optuna["trials"].as_array().map_or(0, Vec::len));
    assert_eq!(json!(state.best().and_then(StoredTrial::value)), optuna["best"]);
}

/// A study with a trial in each state, reserved and taken over ones too.
fn study_of_all_states(journal: &Journal) -> Study {
    let mut study = journal.join("a");
    let end = |study: &mut Study, lr: f64, changes: Vec<Change>| {
        let claim = begin(study, lr);
        study.record(&claim, changes).expect("written");
    };
    let report = |step, value| Change::Report { step, value };
    let attribute = Change::Attribute { key: "oomph:measured_peak".into(), value: 1_000_000.into() };
    end(&mut study, 0.01, vec![report(3, 0.9), attribute, Change::Complete { value: 0.5 }]);
    end(&mut study, 0.02, vec![report(3, 0.8), Change::Pause { step: 3, decision: None }]);
    end(&mut study, 0.03, vec![report(3, 1e-300), Change::Prune { reason: "worse".into(), decision: None }]);
    end(&mut study, 0.04, vec![Change::Fail { reason: "it panicked: \"\u{1f4a5}\" \u{7f}".into() }]);
    end(&mut study, 0.05, vec![Change::Infeasible { violation: 0.25, reason: "too large".into() }]);
    end(&mut study, 0.06, vec![Change::Complete { value: f64::NAN }]);
    end(&mut study, 0.07, vec![]);
    study.take(|_, _| Some(Take::Reserve)).expect("written");
    study.enqueue(vec![BTreeMap::from([("optimizer.lr".into(), json!(0.09))])]).expect("written");
    end(&mut study, 0.08, vec![Change::Complete { value: 0.25 }]);
    study
}

#[test]
fn optuna_sees_what_we_see() {
    let Some(python) = python() else { return };
    let journal = Journal::new();
    let study = study_of_all_states(&journal);
    let seen = &ask(command(&python, "show", &[&journal.path]))[0];
    assert_agree(study.state(), seen);
    assert_eq!((&seen["metric"], &seen["user"]["oomph:seed"]), (&json!(["eval loss"]), &json!(7)));
    let states: Vec<_> = study.state().trials().iter().map(StoredTrial::stage).collect();
    use Stage::{Complete, Failed, Infeasible, Paused, Pruned, Running, Waiting};
    assert_eq!(
        states,
        [Complete, Paused, Pruned, Failed, Infeasible, Failed, Running, Running, Waiting, Complete]
    );
    assert_eq!(journal.files(), 1);
}

#[test]
fn a_journal_becomes_a_database() {
    let Some(python) = python() else { return };
    let journal = Journal::new();
    let study = study_of_all_states(&journal);
    let database = journal.folder.path().join("study.db");
    assert_agree(study.state(), &ask(command(&python, "copy", &[&journal.path, &database])));
}

#[test]
fn an_optuna_worker_runs_beside_ours() {
    let Some(python) = python() else { return };
    let journal = Journal::new();
    let mut study = journal.join("a");
    let mut work = command(&python, "work", &[&journal.path]);
    let optuna = work.arg("30").stdout(Stdio::null()).spawn().expect("Python");
    for count in 0..100 {
        let claim = begin(&mut study, 0.001 + f64::from(count) * 1e-4);
        study
            .record(&claim, vec![Change::Report { step: 1, value: 1.0 }, Change::Complete { value: 1.0 }])
            .expect("written");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(optuna.wait_with_output().expect("an end").status.success());
    let state = study.refresh().expect("a whole journal");
    assert_eq!(state.trials().len(), 130);
    assert!(state.trials().iter().all(|trial| trial.stage() == Stage::Complete));
    assert_eq!(state.trials().iter().filter(|trial| trial.lease.is_none()).count(), 30);
    assert_agree(state, &ask(command(&python, "show", &[&journal.path]))[0]);
    assert_eq!(journal.files(), 1);
}

#[test]
fn enqueued_trials_run_in_both_directions() {
    let Some(python) = python() else { return };
    let journal = Journal::new();
    let mut study = journal.join("a");
    ask(command(&python, "enqueue", &[&journal.path]));
    let taken = study.take(|state, _| {
        let waiting = state.trials().iter().find(|trial| trial.stage() == Stage::Waiting);
        waiting.map(|trial| Take::Waiting(trial.number))
    });
    let claim = taken.expect("written").expect("Optuna's trial");
    let fixed = study.state().trials()[claim.number].fixed();
    assert_eq!(
        fixed,
        BTreeMap::from([("optimizer.lr".into(), json!(0.05)), ("optimizer.name".into(), json!("sgd"))])
    );
    let mut whole: Point = point(0.01);
    for (name, value) in fixed {
        let domain = study.setup().parameter(&name).expect("a parameter").domain.clone();
        whole.insert(name, Distribution::Known(domain).internal(&value).expect("a value"));
    }
    let why = decision(DecisionKind::Begin, study.state());
    study.record(&claim, vec![Change::Settle(whole, why), Change::Complete { value: 3.0 }]).expect("written");

    let demands =
        BTreeMap::from([("optimizer.lr".into(), json!(0.07)), ("optimizer.name".into(), json!("adamw"))]);
    let [number] = study.enqueue(vec![demands]).expect("written")[..] else { panic!("one trial") };
    let mut work = command(&python, "work", &[&journal.path]);
    work.arg("1");
    ask(work);
    let trial = &study.refresh().expect("read").trials()[number];
    assert_eq!(
        (trial.stage(), trial.point["optimizer.lr"], trial.point["optimizer.name"]),
        (Stage::Complete, 0.07, 1.0)
    );
    assert_agree(study.state(), &ask(command(&python, "show", &[&journal.path]))[0]);
}

#[test]
fn a_repaired_journal_opens_in_optuna() {
    let Some(python) = python() else { return };
    let journals: Vec<_> = (0..40).map(|_| Journal::new()).collect();
    for (at, journal) in journals.iter().enumerate() {
        let mut study = journal.join("a");
        begin(&mut study, 0.01);
        let text = journal.text();
        let cut = text.len() - 1 - at * (text.len() / 50);
        fs::write(&journal.path, &text[..cut]).expect("torn");
        // Others repair it, and a study that lost more than its tail is completed.
        begin(&mut journal.join("b"), 0.02);
    }
    let paths: Vec<_> = journals.iter().map(|journal| journal.path.as_path()).collect();
    let seen = ask(command(&python, "show", &paths));
    for (journal, seen) in journals.iter().zip(seen.as_array().expect("studies")) {
        assert_agree(&read(&journal.path, Some("digits")).expect("a study"), seen);
    }
}

/// Random records of a study and its few trials, most of them valid.
fn random_journal(seed: u64) -> String {
    let mut random = Generator::at(Key::new(seed));
    let directions = vec![oomph_search::Direction::Minimize];
    let study = |name: &str| {
        Operation::CreateStudy(CreateStudy { study_name: name.into(), directions: directions.clone() })
    };
    let mut operations = vec![study("other"), study("digits")];
    let states = [
        TrialState::Running,
        TrialState::Complete,
        TrialState::Pruned,
        TrialState::Fail,
        TrialState::Waiting,
    ];
    let time = Some("2026-11-22T10:00:00.000000+00:00".to_owned());
    for _ in 0..60 {
        let trial_id = random.below(12) as u64;
        let value = Number(f64::from(random.normal()) / 3.0);
        let key = ["a", "oomph:paused", "constraints"][random.below(3)].to_owned();
        let choice = random.below(2);
        let parameter = if random.chance(0.5) { lr() } else { name() };
        operations.push(match random.below(10) {
            0 => study(["digits", "third"][choice]),
            1..4 => {
                let mut trial = CreateTrial::new(random.below(3) as u64);
                trial.datetime_start = time.clone();
                trial.state = [None, Some(TrialState::Waiting)][choice];
                Operation::CreateTrial(Box::new(trial))
            }
            4 => Operation::Parameter(TrialParameter {
                trial_id,
                // One name for two kinds: the first trial that has it decides.
                param_name: ["x", "y"][choice].into(),
                param_value_internal: Number(if parameter == lr() { 0.01 } else { 1.0 }),
                distribution: Distribution::Known(parameter.domain),
            }),
            5 => {
                let state = states[random.below(5)];
                Operation::TrialState(SetTrialState {
                    trial_id,
                    state,
                    values: (state == TrialState::Complete).then(|| vec![value]),
                    datetime_start: time.clone().filter(|_| state == TrialState::Running),
                    datetime_complete: time.clone().filter(|_| state.is_finished()),
                })
            }
            6 | 7 => {
                let step = random.below(4) as i64;
                Operation::Intermediate(Intermediate { trial_id, step, intermediate_value: value })
            }
            _ => {
                let owner = [Owner::User, Owner::System][choice];
                Operation::TrialAttribute(TrialAttribute { trial_id, owner, key, value: value.0.into() })
            }
        });
    }
    let line = |operation| Record { worker: "w".into(), operation }.to_line().expect("finite") + "\n";
    operations.into_iter().map(line).collect()
}

#[test]
fn random_journals_mean_the_same_to_optuna() {
    let Some(python) = python() else { return };
    let journals: Vec<_> = (0..150).map(|_| Journal::new()).collect();
    for (seed, journal) in (0..).zip(&journals) {
        fs::write(&journal.path, random_journal(seed)).expect("written");
    }
    let paths: Vec<_> = journals.iter().map(|journal| journal.path.as_path()).collect();
    let seen = ask(command(&python, "show", &paths));
    let mut trials = 0;
    for (journal, seen) in journals.iter().zip(seen.as_array().expect("studies")) {
        let state = read(&journal.path, Some("digits")).expect("a study");
        trials += state.trials().len();
        let ours: Vec<_> = state.trials().iter().map(shown).collect();
        assert_eq!(json!(ours), seen["trials"], "{}", journal.text());
    }
    assert!(trials > 500);
}

fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    answer.starts_with("HTTP/1.0 200").then_some(answer)
}

#[test]
fn the_dashboard_follows_a_study() {
    let Some(python) = python() else { return };
    let found = Command::new(&python).args(["-c", "import optuna_dashboard"]).output().expect("Python");
    if !found.status.success() {
        return skip(Missing::Optuna);
    }
    let journal = Journal::new();
    let mut study = study_of_all_states(&journal);
    let mut serve = command(&python, "dashboard", &[&journal.path]);
    let mut dashboard = serve.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Python");
    let mut line = String::new();
    BufReader::new(dashboard.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a port");
    let port = line.trim().parse().expect("a port");
    let page = get(port, "/dashboard/").expect("the page");
    assert!(page.contains("<html") || page.contains("<!DOCTYPE"), "{page}");
    let studies = get(port, "/api/studies").expect("the studies");
    assert!(studies.contains("\"digits\""), "{studies}");
    let body = |path: &str| {
        let answer = get(port, path).expect("a study");
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).expect("a body");
        serde_json::from_str::<Value>(&body).expect("JSON")
    };
    assert_eq!(body("/api/studies/0")["trials"].as_array().map(Vec::len), Some(10));
    begin(&mut study, 0.01);
    // It asks its storage for trials at most every few seconds.
    let start = Instant::now();
    while body("/api/studies/0?after=10")["trials"].as_array().map(Vec::len) != Some(1) {
        assert!(start.elapsed() < Duration::from_secs(60), "the new trial does not appear");
        thread::sleep(Duration::from_millis(200));
    }
    drop(dashboard.stdin.take());
    assert!(dashboard.wait().expect("an end").success());
}
