//! What the tests of studies share. Each test target uses a part of it.
#![allow(dead_code, reason = "each test target uses a part")]

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use oomph_search::{Choice, Direction, Domain, Parameter, Point};
use oomph_study::{Claim, Clock, Decision, DecisionKind, Setup, Study, StudyState, Take, Worker};

pub(crate) const LEASE: Duration = Duration::from_secs(120);

pub(crate) fn lr() -> Parameter {
    let domain = Domain::Float { low: 1e-4, high: 0.1, step: None, log: true };
    Parameter { name: "optimizer.lr".into(), domain, when: None }
}

pub(crate) fn name() -> Parameter {
    let domain = Domain::Choice(vec![Choice::Text("sgd".into()), Choice::Text("adamw".into())]);
    Parameter { name: "optimizer.name".into(), domain, when: None }
}

pub(crate) fn setup() -> Setup {
    let width = Domain::Integer { low: 8, high: 64, step: 8, log: false };
    Setup {
        name: "digits".into(),
        direction: Direction::Minimize,
        metric: "eval loss".into(),
        seed: 7,
        space: vec![Parameter { name: "model.width".into(), domain: width, when: None }, lr(), name()],
        settings: BTreeMap::from([("scheduler".into(), "asha".into()), ("eta".into(), 3.into())]),
    }
}

pub(crate) fn point(lr: f64) -> Point {
    Point::from([("model.width".into(), 16.0), ("optimizer.lr".into(), lr), ("optimizer.name".into(), 1.0)])
}

pub(crate) fn decision(kind: DecisionKind, state: &StudyState) -> Decision {
    Decision { kind, seen: state.seen(state.trials().len(), None), rule: "test".into(), rank: 2, rounds: 1 }
}

/// A journal in a folder of its own.
pub(crate) struct Journal {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

impl Journal {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("study.log");
        Self { folder, path }
    }

    pub(crate) fn text(&self) -> String {
        std::fs::read_to_string(&self.path).expect("the journal")
    }

    pub(crate) fn join(&self, worker: &str) -> Study {
        Study::join(&self.path, &setup(), self::worker(worker)).expect("a study")
    }

    /// The names in the folder: only the journal, unless a lock was left.
    pub(crate) fn files(&self) -> usize {
        std::fs::read_dir(self.folder.path()).expect("the folder").count()
    }
}

pub(crate) fn worker(name: &str) -> Worker {
    Worker { name: name.into(), ..Worker::new("", LEASE) }
}

/// A clock that stands still until a test moves it.
#[derive(Clone, Default)]
pub(crate) struct Hand(Arc<AtomicU64>);

impl Hand {
    pub(crate) fn pass(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }

    pub(crate) fn worker(&self, name: &str) -> Worker {
        let [elapsed, date] = [self.0.clone(), self.0.clone()];
        let clock = Clock::new(
            move || Duration::from_secs(elapsed.load(Ordering::Relaxed)),
            move || SystemTime::UNIX_EPOCH + Duration::from_secs(date.load(Ordering::Relaxed)),
        );
        Worker { clock, ..worker(name) }
    }

    pub(crate) fn join(&self, path: &Path, name: &str) -> Study {
        Study::join(path, &setup(), self.worker(name)).expect("a study")
    }
}

/// Begins a trial.
pub(crate) fn begin(study: &mut Study, lr: f64) -> Claim {
    let claim = study.take(|state, _| Some(Take::Begin(point(lr), decision(DecisionKind::Begin, state))));
    claim.expect("written").expect("a trial")
}
