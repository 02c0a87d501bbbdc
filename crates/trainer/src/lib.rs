//! The training loop of oomph: sessions, the registry, training, evaluation, measurements.
//!
//! - [`Registry`]: models, data sources and tasks by name, oomph's own and a user's.
//! - [`open`]: turns a validated configuration into a [`Session`] with model, data, task and device.
//! - [`train`] trains a session into a run directory. [`evaluate`] evaluates a model. Both report to an
//!   [`Observer`](oomph_runs::Observer) and print nothing.
//! - [`train_with`] trains with a [`Callback`](callback::Callback): a learning rate, measures and an end of your own.
//! - [`new_stepper`]: one optimizer step at a time, for loops of your own.
//! - [`measure`], [`profile`]: some steps under the meter.
//! - [`predict`], [`export`], [`onnx`]: the uses of a trained model.
//! - [`device`]: opens, lists and tries devices.
//!
//! ```
//! use oomph_config::Config;
//! use oomph_runs::Quiet;
//! use oomph_trainer::{Registry, Stop, TrainOptions, open, train};
//!
//! let directory = tempfile::tempdir()?;
//! let text = format!(
//!     "model = {{ name = 'lstm', hidden = 8 }}
//!      data = {{ source = 'digits', layout = 'rows', workers = 0 }}
//!      train = {{ steps = 2, batch = 16 }}
//!      run = {{ directory = '{}' }}",
//!     directory.path().join("run").display(),
//! );
//! let session = open(Config::from_toml("example", &text)?, &Registry::builtin())?;
//! let report = train(&session, &TrainOptions::default(), &mut Quiet, &Stop::new())?;
//! assert_eq!(report.step, 2);
//! assert!(report.checkpoint.join("model.safetensors").is_file());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The trainer leaves the step to `oomph-engine`, plans to `oomph-advice`, files on disk to `oomph-runs` and the command
//! line to `oomph-cli`.

mod batches;
pub mod callback;
mod cleanup;
pub mod device;
mod device_memory;
mod driver;
mod error;
mod eval_metric;
mod evaluate;
pub mod export;
pub mod fit;
mod leak_watch;
pub mod lr_range;
mod lr_schedule;
pub mod measure;
mod memory_log;
mod merge;
pub mod onnx;
mod open;
#[doc(hidden)]
pub mod parsers;
pub mod predict;
pub mod profile;
mod progress;
mod ranks;
mod restore;
mod resume;
mod steadier;
mod stop;
mod tensor_log;
mod train;

pub use device_memory::{Boundary, PoolReading, PoolWatch};
pub use error::TrainError;
pub use eval_metric::eval_metrics;
pub use evaluate::{Evaluation, evaluate, evaluate_checkpoint, evaluate_weights, open_to_evaluate};
pub use lr_schedule::{LrSchedule, lr_schedule};
pub use oomph_engine::session::{Session, steps, steps_per_epoch};
pub use open::{
    Components, LoadedWeights, RankProcess, Registry, SessionError, cache_dir, check_weights, default_limit,
    initial_model, limit_of, new_stepper, open, open_layout, open_on, open_to_plan, open_together,
};
pub use ranks::follow;
pub use resume::Resume;
pub use steadier::Steadier;
pub use stop::{Stop, StopReason};
pub use train::{TrainOptions, adapt, train, train_with};
