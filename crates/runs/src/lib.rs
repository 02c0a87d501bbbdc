//! The state of a run on disk.
//!
//! - [`state`]: checkpoints. On disk they are complete or absent.
//! - [`RunDirectory`]: the directory of a run, locked by one process. [`RunSummary`]: a run with its
//!   [curves](RunCurves), read from its log; [`differences()`]: how the configurations of runs differ.
//! - [`Event`]: an event of a run, a line of `metrics.jsonl`.
//! - [`tensorboard`]: event files that TensorBoard reads. [`mlflow`]: runs in MLflow's file store.
//!
//! ```
//! use oomph_runs::RunDirectory;
//!
//! let folder = tempfile::tempdir()?;
//! let run = RunDirectory::create(&folder.path().join("digits"))?;
//! assert!(run.checkpoints().newest()?.is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate trains nothing and prints nothing.

mod event;
pub mod mlflow;
#[doc(hidden)]
pub mod parsers;
mod run;
mod scalars;
pub mod state;
pub mod tensorboard;

pub use event::{
    Adapted, DeviceMetrics, Done, Ended, EvalMetrics, EvalScores, Event, Fitted, LeakKind, LeakMetrics,
    LeakPoint, Observer, Quiet, Saved, Started, StepMetrics, StepNorms, Throughput, Tick,
};
pub use run::{
    Difference, EvaluationPoint, RunCurves, RunDirectory, RunError, RunEvaluation, RunStatus, RunSummary,
    TrainingPoint, ValueRuns, WeightsFile, differences, environment, host_name,
};
pub use state::EarlyStopping;
