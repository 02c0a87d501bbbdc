//! A hyperparameter study on disk, in Optuna's journal format.
//!
//! Many workers, on one or several machines, search together: each opens the same file and joins the study. A worker may be
//! killed at any moment. Optuna's own tools open the file meanwhile, and Optuna's workers may take part.
//!
//! - [`Study`]: the study as one worker opens it. Every change is a transaction under the lock.
//! - [`Setup`]: what a study is begun with. A worker that joins with another is refused.
//! - [`Take`], [`Claim`], [`Change`]: taking a trial, the right to change it, and the changes.
//! - [`StudyState`], [`StoredTrial`]: what the journal tells; [`StudyState::view`] is what samplers and schedulers see.
//! - [`replay()`]: makes each [`Decision`] again.
//! - [`Summary`]: a study in short.
//!
//! ```
//! use std::{collections::BTreeMap, time::Duration};
//!
//! use oomph_search::{Direction, Domain, Parameter, Point};
//! use oomph_study::{Change, Decision, DecisionKind, Setup, Study, Take, Worker};
//!
//! let folder = tempfile::tempdir()?;
//! let lr = Domain::Float { low: 1e-4, high: 0.1, step: None, log: true };
//! let setup = Setup {
//!     name: "digits".into(),
//!     direction: Direction::Minimize,
//!     metric: "eval loss".into(),
//!     seed: 1,
//!     space: vec![Parameter { name: "optimizer.lr".into(), domain: lr, when: None }],
//!     settings: BTreeMap::new(),
//! };
//! let worker = Worker::new("here", Duration::from_secs(120));
//! let mut study = Study::join(&folder.path().join("study.log"), &setup, worker)?;
//! let claim = study.take(|state, _| {
//!     let seen = state.seen(state.jobs().count(), None);
//!     let decision = Decision { kind: DecisionKind::Begin, seen, rule: "fixed".into(), rank: 0, rounds: 0 };
//!     Some(Take::Begin(Point::from([("optimizer.lr".into(), 0.01)]), decision))
//! })?;
//! let claim = claim.ok_or("no trial")?;
//! study.record(&claim, vec![Change::Report { step: 10, value: 0.7 }, Change::Complete { value: 0.5 }])?;
//! assert_eq!(study.state().best().and_then(|trial| trial.value()), Some(0.5));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # On disk
//!
//! The journal is a file of JSON lines that is only appended to. Attributes of oomph start with `oomph:`.
//! Each transaction is flushed (`fdatasync`) before the lock is released. Reading takes no lock.
//!
//! It knows no trainer, no sampler and no scheduler.

mod clock;
mod error;
mod fuzzing;
pub mod journal;
mod lock;
mod process;
mod replay;
mod state;
mod study;
mod summary;

pub use clock::Clock;
pub use error::StudyError;
pub use fuzzing::{Parsed, parse_journal};
pub use journal::{Attributes, Distribution, Owner};
pub use process::ProcessName;
pub use replay::{Difference, Question, Report, replay};
pub use state::{Job, JobOutcome, Jobs, Lease, Seen, StoredTrial, StudyState};
pub use study::{Change, Claim, Decision, DecisionKind, Outcome, Setup, Study, Take, Worker, read};
pub use summary::{Best, Progress, RungCount, Summary};
