//! Opening a study, and changing it under the lock.

mod changes;
mod claims;
mod decision;
mod leases;
mod setup;

use std::{path::Path, time::Duration};

pub use changes::Change;
pub(crate) use claims::stage_name;
pub use claims::{Claim, Take};
pub(crate) use decision::DECISION;
pub use decision::{Decision, DecisionKind, Outcome};
use leases::Leases;
pub use setup::Setup;

use crate::{
    clock::Clock,
    error::StudyError,
    journal::{CreateTrial, Log, Operation, TrialState},
    lock::{self, Guard, Lock},
    process::ProcessName,
    state::StudyState,
};

/// The attribute of a trial that says why it ended as it did.
pub(crate) const REASON: &str = "oomph:reason";

/// Who opens a study, and how long a trial stays a worker's without a sign of life.
#[derive(Clone, Debug)]
pub struct Worker {
    /// A name that no other worker has, not even this one after a restart.
    pub name: String,
    /// How long a lease holds.
    pub lease: Duration,
    /// Its process: others on the same machine do not wait for the end of a lease whose process is gone.
    pub process: Option<ProcessName>,
    /// The clocks.
    pub clock: Clock,
    /// After which time without a change the lock is taken over. Optuna's workers wait 30 s.
    pub lock_grace: Duration,
}

impl Worker {
    /// A worker with a name that nobody else has: `prefix` and a random UUID.
    pub fn new(prefix: &str, lease: Duration) -> Self {
        Self {
            name: format!("{prefix}-{}", lock::unique_name()),
            lease,
            process: ProcessName::own(),
            clock: Clock::system(),
            lock_grace: lock::GRACE,
        }
    }
}

/// A study on disk, opened by one worker.
///
/// Every change is a transaction: it takes the lock, reads what others wrote, decides, appends, and releases the lock. Records
/// are on the disk when a change returns. A record is either whole or repaired away; of a transaction that a kill cuts
/// short, the first records may stay. Each order of records is chosen so that every such beginning is a valid study.
#[derive(Debug)]
pub struct Study {
    log: Log,
    lock: Lock,
    worker: Worker,
    setup: Setup,
    state: StudyState,
    leases: Leases,
}

impl Study {
    /// Creates a study, and the journal if it is missing.
    ///
    /// # Errors
    /// The study exists, or the journal cannot be written.
    pub fn create(path: &Path, setup: &Setup, worker: Worker) -> Result<Self, StudyError> {
        Self::start(path, setup, worker, false)
    }

    /// Joins a study that has the same setup, or creates it.
    ///
    /// # Errors
    /// The study has another direction, metric, seed, setting or parameter, or the journal cannot be written.
    pub fn join(path: &Path, setup: &Setup, worker: Worker) -> Result<Self, StudyError> {
        Self::start(path, setup, worker, true)
    }

    fn start(path: &Path, setup: &Setup, worker: Worker, joins: bool) -> Result<Self, StudyError> {
        let log = Log::new(path);
        log.create()?;
        let mut study = Self::new(log, setup.clone(), worker);
        study.transact(|state, _| {
            if state.exists() && !joins {
                return Err(StudyError::Exists { path: path.to_owned(), name: setup.name.clone() });
            }
            setup.complete(state).map(|operations| (operations, ()))
        })?;
        Ok(study)
    }

    /// Opens a study that oomph created, with the setup that the journal has. Without a name: the journal's first study.
    ///
    /// # Errors
    /// The journal has no such study, or another program created it.
    pub fn open(path: &Path, name: Option<&str>, worker: Worker) -> Result<Self, StudyError> {
        let state = read(path, name)?;
        let setup = Setup::read(&state)?;
        let mut study = Self::new(Log::new(path), setup, worker);
        study.refresh()?;
        Ok(study)
    }

    fn new(log: Log, setup: Setup, worker: Worker) -> Self {
        let lock = Lock::new(log.path(), worker.lock_grace);
        let state = StudyState::new(&setup.name);
        Self { log, lock, worker, setup, state, leases: Leases::default() }
    }

    /// What the study was begun with.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The name of this worker.
    pub fn worker(&self) -> &str {
        &self.worker.name
    }

    /// The study as it was last read.
    pub fn state(&self) -> &StudyState {
        &self.state
    }

    /// Reads what others wrote, without the lock.
    ///
    /// # Errors
    /// The journal is damaged or was replaced, or the study was deleted.
    pub fn refresh(&mut self) -> Result<&StudyState, StudyError> {
        self.read()?;
        if self.state.exists() { Ok(&self.state) } else { Err(self.missing()) }
    }

    /// Reads what others wrote, decides on it and appends records, all under the lock. Nothing is written where `decide` fails.
    ///
    /// # Errors
    /// That of `decide`; the journal is damaged, or cannot be written; another process took the lock over.
    pub fn update(
        &mut self,
        decide: impl FnOnce(&StudyState) -> Result<Vec<Operation>, StudyError>,
    ) -> Result<(), StudyError> {
        self.transact_existing(|state, _| decide(state).map(|operations| (operations, ())))
    }

    /// Adds trials that are to run with some values, in configuration terms, as Optuna's `enqueue_trial` does. Parameters without
    /// a value are sampled. Any worker of the study may take them, Optuna's too. Returns their numbers.
    ///
    /// # Errors
    /// A parameter or value is not in the space, or the journal cannot be written.
    pub fn enqueue(&mut self, points: Vec<crate::journal::Attributes>) -> Result<Vec<usize>, StudyError> {
        for (name, value) in points.iter().flatten() {
            let domain = self.setup.parameter(name)?.domain.clone();
            if crate::Distribution::Known(domain).internal(value).is_none() {
                return Err(StudyError::OutsideDomain { name: name.clone(), value: value.to_string() });
            }
        }
        self.transact_existing(|state, _| {
            let study_id = state.id().unwrap_or_default();
            let first = state.trials().len();
            let numbers = (first..first + points.len()).collect();
            let enqueue = |point: crate::journal::Attributes| {
                let mut trial = CreateTrial::new(study_id);
                trial.state = Some(TrialState::Waiting);
                trial.system_attrs.insert("fixed_params".into(), serde_json::Value::from_iter(point));
                Operation::CreateTrial(Box::new(trial))
            };
            Ok((points.into_iter().map(enqueue).collect(), numbers))
        })
    }

    /// [`transact`](Self::transact) on a study that must exist.
    fn transact_existing<T>(
        &mut self,
        decide: impl FnOnce(&StudyState, &Leases) -> Result<(Vec<Operation>, T), StudyError>,
    ) -> Result<T, StudyError> {
        let path = self.log.path().to_owned();
        self.transact(
            |state, leases| {
                if state.exists() { decide(state, leases) } else { Err(missing(state, &path)) }
            },
        )
    }

    /// A transaction. What `decide` returns beside the records is the result.
    fn transact<T>(
        &mut self,
        decide: impl FnOnce(&StudyState, &Leases) -> Result<(Vec<Operation>, T), StudyError>,
    ) -> Result<T, StudyError> {
        let guard: Guard = self.lock.acquire()?;
        let tail = self.read()?;
        let (operations, result) = decide(&self.state, &self.leases)?;
        if operations.is_empty() {
            return Ok(result);
        }
        let mut lines = String::new();
        for operation in &operations {
            let line = operation.to_line(&self.worker.name);
            lines.push_str(&line.map_err(|error| StudyError::Unwritable(error.to_string()))?);
            lines.push('\n');
        }
        self.log.append(&guard, &lines, tail)?;
        self.read()?;
        Ok(result)
    }

    /// Reads new records, and returns how many bytes follow the last whole one.
    fn read(&mut self) -> Result<u64, StudyError> {
        let tail = self.log.read(|record| self.state.apply(record))?;
        self.leases.observe(&self.state, self.worker.clock.elapsed());
        Ok(tail)
    }

    fn missing(&self) -> StudyError {
        missing(&self.state, self.log.path())
    }
}

fn missing(state: &StudyState, path: &Path) -> StudyError {
    StudyError::NoStudy { path: path.to_owned(), name: state.name().to_owned(), there: state.studies() }
}

/// Reads a study of any program, without the lock. Without a name: the first study of the journal.
///
/// # Errors
/// The journal cannot be read, or has no such study.
pub fn read(path: &Path, name: Option<&str>) -> Result<StudyState, StudyError> {
    let mut state = StudyState::new(name.unwrap_or_default());
    Log::new(path).read(|record| state.apply(record))?;
    if state.exists() { Ok(state) } else { Err(missing(&state, path)) }
}
