//! The training loop of oomph.
//!
//! - [`Registry`]: models, data sources and tasks by name, oomph's own and a user's.
//! - [`Session`]: a validated configuration with its model, data, task and device found and checked;
//!   [`LoadedWeights`]: the file that its model starts from. [`export`] writes one.
//! - [`train`] runs a session and leaves a run directory; [`evaluate`] measures a checkpoint. Both tell an
//!   [`Observer`] what happens, and print nothing.
//! - [`Task`]: how an output is compared with a target. [`Stepper`] is one optimizer step, for loops of your own;
//!   [`LossScale`] is what it multiplies the loss by in half precision.
//! - [`state`]: checkpoints on disk, complete or absent.
//! - [`explain`]: what low-level failures mean; [`installation`]: what of CUDA is missing or wrong.
//!
//! ```
//! use oomph_config::Config;
//! use oomph_trainer::{Quiet, Registry, Session, Stop, TrainOptions, train};
//!
//! let directory = tempfile::tempdir()?;
//! let text = format!(
//!     "model = {{ name = 'lstm', hidden = 8 }}
//!      data = {{ source = 'digits', layout = 'rows', workers = 0 }}
//!      train = {{ steps = 2, batch = 16 }}
//!      run = {{ directory = '{}' }}",
//!     directory.path().join("run").display(),
//! );
//! let session = Session::open(Config::from_toml("example", &text)?, &Registry::builtin())?;
//! let report = train(&session, &TrainOptions::default(), &mut Quiet, &Stop::new())?;
//! assert_eq!(report.step, 2);
//! assert!(report.checkpoint.join("model.safetensors").is_file());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It knows no command line, and does not measure or plan memory itself: that is `oomph-memory`'s.

mod cleanup;
mod clip;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod describe;
mod device;
mod device_failure;
mod device_memory;
mod early_stopping;
mod error;
mod evaluate;
mod event;
mod explain;
mod export;
mod find_batch;
mod forward;
mod generate;
mod gradients;
mod held;
mod installation;
mod last_step;
mod leak_watch;
mod loading;
mod loss_scale;
mod measure;
mod memory_log;
mod micro_batches;
mod optimizer;
mod out_of_memory;
mod parallel;
#[doc(hidden)]
pub mod parsers;
mod parts;
mod planning;
mod predict;
mod profile;
mod progress;
mod registry;
mod resume;
mod run;
mod schedule;
mod segments;
mod session;
pub mod state;
mod step;
mod stop;
mod stretch;
mod task;
mod tensorboard;
mod train;
mod unfinished;
mod upload;
mod watch;
mod weights;

pub use clip::clip;
pub use device::{DeviceError, DeviceInfo, TrialError, find_device, list_devices, open_device, try_device};
pub use device_failure::note_panic;
pub use device_memory::{Boundary, PoolReading, PoolWatch};
pub use error::TrainError;
pub use evaluate::{Evaluation, evaluate, evaluate_checkpoint, evaluate_weights};
pub use event::{
    Adapted, DeviceMetrics, Done, Ended, EvalMetrics, Event, LeakKind, LeakMetrics, LeakPoint, Observer,
    Quiet, Saved, Started, StepMetrics, Tick,
};
pub use explain::{Explanation, explain, is_after_a_failure, is_out_of_memory, without_backtrace};
pub use export::{Exported, Layout, export, export_weights};
pub use find_batch::{BatchSearch, Found, Planned, SearchError, Tried};
pub use generate::{Sampling, continue_text};
pub use installation::{HAS_CUDA, installation};
pub use loss_scale::LossScale;
pub use measure::{
    MeasureError, MeasureOptions, Measurement, PlannedStep, Rehearsal, RehearseOptions, check_alone, measure,
    plan_step, rehearse,
};
pub use oomph_plan::Backend;
pub use optimizer::Optimizer;
pub use out_of_memory::{
    Advice, Advised, Kept, OtherProcess, OutOfMemory, OutOfMemoryReport, ReportFiles, Shortage, Surroundings,
    adapt, advise, check_plan, free_bytes,
};
pub use parallel::{Process, follow};
pub use parts::{Parts, cache_dir};
pub use planning::{
    LargestBatch, PlanOptions, PlannedCut, PlannedPart, backend, fits, largest_batch, plan, plan_cut,
    planned_peak, planned_sum, slowdown,
};
pub use predict::{Predicted, predict_images};
pub use profile::{
    DeviceProfile, Profile, ProfileError, ProfileOptions, ProfiledDevice, profile, profile_device,
};
pub use registry::Registry;
pub use resume::Resume;
pub use run::{RunDirectory, RunError, RunEvaluation, RunStatus, RunSummary};
pub use schedule::Schedule;
pub use session::{Leaves, Session, SessionError, default_limit};
pub use step::{StepOutcome, Stepper};
pub use stop::{Stop, StopReason};
pub use task::{Classification, DeviceTargets, Regression, Task, TaskError};
pub use train::{TrainOptions, train};
pub use watch::Watch;
pub use weights::LoadedWeights;
