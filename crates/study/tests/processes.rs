//! Several processes in one study: appending together, stopped and killed while they hold the lock, and out of disk.

mod support;

use std::{
    env, fs,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use oomph_core::{Generator, Key};
use oomph_search::TrialState as Stage;
use oomph_study::{
    Change, Claim, DecisionKind, Owner, Study, StudyError, StudyState, Take, Worker,
    journal::{Operation, StudyAttribute},
};
use oomph_test_support::{Missing, skip};
use serde_json::Value;
use support::{Journal, decision, point, setup, worker};

/// What a child does, by this variable: its task, its journal, its name, and how often.
const TASK: &str = "OOMPH_STUDY_TASK";
const GRACE: Duration = Duration::from_secs(1);

fn impatient(name: &str) -> Worker {
    Worker { lock_grace: GRACE, ..worker(name) }
}

fn child_worker(task: &str, name: &str) -> Worker {
    match task {
        "search" => Worker { lease: Duration::from_millis(400), ..impatient(name) },
        _ => worker(name),
    }
}

fn process(task: &str, journal: &Path, name: &str, count: usize) -> Command {
    let mut command = Command::new(env::current_exe().expect("this test"));
    command.args(["--exact", "child", "--ignored", "--nocapture"]);
    command.env(TASK, format!("{task}\n{}\n{name}\n{count}", journal.display())).stdout(Stdio::piped());
    command
}

fn attribute(key: &str, value: impl Into<Value>) -> Operation {
    let [key, value] = [Value::from(key), value.into()];
    let key = key.as_str().unwrap_or_default().to_owned();
    Operation::StudyAttribute(StudyAttribute { study_id: 0, owner: Owner::User, key, value })
}

fn count(study: &Study) -> u64 {
    study.state().attribute(Owner::User, "count").and_then(Value::as_u64).unwrap_or(0)
}

/// Counts by one more than whoever counted before: lost where two do it at the same time.
fn count_on(study: &mut Study) -> Result<(), StudyError> {
    study.update(|state| {
        let count = state.attribute(Owner::User, "count").and_then(Value::as_u64).unwrap_or(0);
        Ok(vec![attribute("count", count + 1)])
    })
}

#[test]
#[ignore = "the tests below run it in processes of its own"]
fn child() {
    let Ok(task) = env::var(TASK) else { return };
    let [task, journal, name, count] = task.split('\n').collect::<Vec<_>>()[..] else { panic!("{task}") };
    let count: usize = count.parse().expect("a number");
    let mut study = Study::join(journal.as_ref(), &setup(), child_worker(task, name)).expect("a study");
    match task {
        "append" => (0..count).for_each(|_| count_on(&mut study).expect("written")),
        // Both under the lock.
        "stop" => {
            let stopped = study.update(|_| {
                let this = std::process::id().to_string();
                Command::new("kill").args(["-STOP", &this]).status().expect("stopped");
                // The threads of a process stop one after the other: this one must not write before it does.
                thread::sleep(Duration::from_millis(300));
                Ok(vec![attribute("late", true)])
            });
            println!("stopped: {stopped:?}");
            println!("then: {:?}", study.update(|_| Ok(vec![attribute("later", true)])));
        }
        "hold" => {
            let held = study.update(|_| {
                println!("held");
                loop {
                    thread::sleep(Duration::from_secs(60));
                }
            });
            unreachable!("{held:?}");
        }
        "fill" => loop {
            let before = fs::read(journal).expect("the journal");
            let Err(error) = study.update(|_| Ok(vec![attribute("text", "x".repeat(count)); 3])) else {
                continue;
            };
            assert!(fs::read(journal).expect("the journal") == before, "the journal changed");
            println!("full: {}", std::error::Error::source(&error).expect("a cause"));
            break;
        },
        "search" => search(study, count),
        _ => panic!("{task}"),
    }
}

/// Works on trials until `total` have ended. A trial is five reports, each a function of the trial and the one before.
fn search(mut study: Study, total: usize) {
    loop {
        let taken = study.take(|state, lapsed| match lapsed.first() {
            Some(number) => Some(Take::Lapsed(*number)),
            None if state.trials().len() < total => {
                let lr = 0.001 * (state.trials().len() + 1) as f64;
                Some(Take::Begin(point(lr), decision(DecisionKind::Begin, state)))
            }
            None => None,
        });
        let done = study.state().trials().iter().filter(|trial| trial.state.is_finished()).count();
        match taken {
            Ok(Some(claim)) => drop(work(&mut study, &claim)),
            // Another worker was faster, or this one stood still for too long.
            Err(StudyError::LeaseLost { .. } | StudyError::LockLost { .. }) => {}
            Ok(None) if done == total => return,
            Ok(None) => thread::sleep(Duration::from_millis(10)),
            Err(error) => panic!("{error}"),
        }
    }
}

fn work(study: &mut Study, claim: &Claim) -> Result<(), StudyError> {
    let before = study.state().trials()[claim.number].clone();
    let lr = before.point["optimizer.lr"];
    for step in before.intermediate.len() as u64..5 {
        thread::sleep(Duration::from_millis(5));
        study.record(claim, vec![Change::Report { step, value: lr * step as f64 }])?;
    }
    study.record(claim, vec![Change::Complete { value: lr }])
}

fn end(mut child: Child) -> String {
    let mut text = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut text).expect("text");
    assert!(child.wait().expect("an end").success(), "{text}");
    text
}

/// Whether a process is stopped, as the kernel says.
fn is_stopped(child: &Child) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    status.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
}

fn wait_until(what: &str, is: impl Fn() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

const OPTUNA_WORKER: &str = "
import sys, optuna
optuna.logging.set_verbosity(optuna.logging.ERROR)
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
study = optuna.load_study(study_name='digits', storage=JournalStorage(JournalFileBackend(sys.argv[1])))
for count in range(int(sys.argv[2])):
    study.set_user_attr('optuna', count + 1)
";

/// Several processes append to one study; with Python one of them is Optuna's.
fn append_together(processes: usize, each: usize, python: Option<&str>) {
    let journal = Journal::new();
    let mut study = journal.join("a");
    let ours = processes - usize::from(python.is_some());
    let mut children: Vec<_> = (0..ours)
        .map(|at| process("append", &journal.path, &format!("w{at}"), each).spawn().expect("a process"))
        .collect();
    children.extend(python.map(|python| {
        let mut optuna = Command::new(python);
        optuna.args(["-c", OPTUNA_WORKER]).arg(&journal.path).arg(each.to_string()).stdout(Stdio::piped());
        optuna.spawn().expect("a process")
    }));
    children.into_iter().for_each(|child| drop(end(child)));
    study.refresh().expect("a whole journal");
    assert_eq!(count(&study), (ours * each) as u64);
    let optuna = study.state().attribute(Owner::User, "optuna").and_then(Value::as_u64);
    assert_eq!(optuna, python.map(|_| each as u64));
    assert_eq!(study.state().records(), 5 + (processes * each) as u64);
    assert_eq!(journal.files(), 1);
}

#[test]
fn eight_processes_append_a_thousand_records_each() {
    append_together(8, 1000, None);
}

#[test]
fn optunas_own_worker_appends_among_ours() {
    match env::var("OOMPH_OPTUNA_PYTHON") {
        Ok(python) => append_together(8, 1000, Some(&python)),
        Err(_) => skip(Missing::Optuna),
    }
}

#[test]
fn a_holder_that_was_stopped_beyond_its_time_writes_nothing() {
    let journal = Journal::new();
    let mut study = Study::join(&journal.path, &setup(), impatient("a")).expect("a study");
    let stopped = process("stop", &journal.path, "stopped", 0).spawn().expect("a process");
    wait_until("it stops", || is_stopped(&stopped));
    let start = Instant::now();
    count_on(&mut study).expect("the lock is taken over");
    assert!(start.elapsed() >= GRACE);
    let between = journal.text();
    Command::new("kill").args(["-CONT", &stopped.id().to_string()]).status().expect("continued");
    let says = end(stopped);
    assert!(says.contains("stopped: Err(LockLost") && says.contains("then: Ok"), "{says}");
    assert_eq!(study.refresh().expect("read").attribute(Owner::User, "late"), None);
    assert!(study.state().attribute(Owner::User, "later").is_some());
    assert!(journal.text().starts_with(&between) && journal.files() == 1);
}

#[test]
fn the_lock_of_a_killed_process_is_taken_over() {
    let journal = Journal::new();
    let mut study = Study::join(&journal.path, &setup(), impatient("a")).expect("a study");
    for _ in 0..3 {
        let mut holder = process("hold", &journal.path, "killed", 0).spawn().expect("a process");
        let mut lines = BufReader::new(holder.stdout.as_mut().expect("a pipe")).lines();
        assert!(lines.any(|line| line.expect("text").ends_with("held")));
        holder.kill().expect("killed");
        holder.wait().expect("an end");
        assert_eq!(journal.files(), 2);
        count_on(&mut study).expect("written");
        assert_eq!(journal.files(), 1);
    }
    assert_eq!(count(&study), 3);
}

#[test]
fn a_record_that_the_disk_has_no_space_for_leaves_the_journal_whole() {
    for length in [100, 1234, 3000] {
        let journal = Journal::new();
        let mut study = journal.join("a");
        let fill = process("fill", &journal.path, "b", length);
        // A limit of 16 KiB or more; without the handler it would be a signal.
        let mut limited = Command::new("sh");
        limited.args(["-c", "trap '' XFSZ; ulimit -f 32; exec \"$@\"", "sh"]).arg(fill.get_program());
        limited.args(fill.get_args()).stdout(Stdio::piped());
        for (name, value) in fill.get_envs() {
            limited.env(name, value.unwrap_or_default());
        }
        let says = end(limited.spawn().expect("a process"));
        assert!(says.contains("full: File too large"), "{says}");
        assert!(journal.text().ends_with("}\n") && journal.files() == 1);
        count_on(&mut study).expect("written");
    }
}

#[test]
fn a_search_whose_workers_are_killed_at_random_loses_no_trial() {
    let journal = Journal::new();
    let total = 60;
    let mut study = journal.join("watching");
    let mut random = Generator::at(Key::new(23));
    let mut names = 0;
    let mut start = || {
        names += 1;
        process("search", &journal.path, &format!("w{names}"), total).spawn().expect("a process")
    };
    let mut workers: Vec<_> = (0..4).map(|_| start()).collect();
    let mut kills = 0;
    let ended = |state: &StudyState| state.trials().iter().filter(|trial| trial.state.is_finished()).count();
    while kills < 80 && ended(study.refresh().expect("a whole journal")) < total {
        thread::sleep(Duration::from_millis(20 + random.below(100) as u64));
        let victim = &mut workers[random.below(4)];
        victim.kill().expect("killed");
        victim.wait().expect("an end");
        *victim = start();
        kills += 1;
    }
    workers.into_iter().for_each(|worker| drop(end(worker)));
    study.refresh().expect("a whole journal");
    assert_eq!(study.state().trials().len(), total);
    let mut lost = 0;
    for trial in study.state().trials() {
        let lr = 0.001 * (trial.number + 1) as f64;
        assert_eq!((trial.stage(), trial.value()), (Stage::Complete, Some(lr)));
        assert_eq!(trial.intermediate, (0..5).map(|step| (step, lr * step as f64)).collect());
        lost += trial.lease.as_ref().map_or(0, |lease| lease.lost);
    }
    // A quick machine is done after a few kills.
    assert!(kills > 5 && lost > 0, "{kills} kills cost {lost} trials a worker");
}
