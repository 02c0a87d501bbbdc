//! Reads, layers and validates oomph's configuration.
//!
//! - [`resolve`] finds a config file by name; [`Sources`] layers it under `--set key=value` and flags, each value with
//!   its [`Origin`].
//! - [`Config`] is the validated result, with one type a section: [`Train`], [`Optimizer`], [`Schedule`], [`Memory`],
//!   [`DeviceConfig`], [`Run`].
//! - [`Section`] is an open table, `[model]` or `[data]`, read by whoever knows its keys: oomph's own models and
//!   sources, or a user's.
//! - [`ConfigError`] names the place, the value and what was expected, in one line; its
//!   [`hint`](ConfigError::hint) says what to do.
//!
//! ```
//! use oomph_config::{Config, ConfigFile, Sources};
//!
//! let file = ConfigFile::from_text("my.toml", "[model]\nname = 'resnet18'\n[train]\nbatch = 64");
//! let config = Config::load(&Sources::new(file).set("optimizer.name=adam")?)?;
//! assert_eq!(config.model.string("name", "resnet50")?, "resnet18");
//! assert_eq!(config.optimizer.lr, 1e-3);
//!
//! // A key that nobody knows is an error that names the line.
//! let error = Config::from_toml("my.toml", "[train]\nbacth = 64").unwrap_err();
//! assert_eq!(error.to_string(), "my.toml:2: `train.bacth` is not a known key");
//! assert_eq!(error.hint().as_deref(), Some("did you mean `train.batch`?"));
//! # Ok::<(), oomph_config::ConfigError>(())
//! ```
//!
//! It knows files, keys and lines. It knows nothing of Burn, of models or of data, does not look whether devices or
//! paths exist, reads no environment variables and prints nothing.

mod config;
mod device_name;
mod edit;
mod error;
mod file;
mod interval;
mod nearest;
mod origin;
mod parse;
mod precedence;
mod range;
mod report;
mod section;
mod sections;
mod setting;
mod sources;
mod value;

pub use config::Config;
pub use device_name::{DeviceName, ParseDeviceError};
pub use error::{ConfigError, Forbidden};
pub use file::{ConfigFile, DEFAULT_CONFIG, Embedded, resolve};
pub use interval::{Interval, ParseIntervalError};
pub use origin::Origin;
pub use report::{Difference, Entry, SetAside, values};
pub use section::Section;
pub use sections::{
    device::{DeviceConfig, Strategy},
    memory::{Cleanup, Memory, MicroBatch, OnOom, Pool, Precision, Recompute},
    optimizer::{Clip, Moments, Optimizer, OptimizerKind},
    run::Run,
    schedule::{Anneal, Drops, Schedule, ScheduleKind, Warmup},
    sharing::{Balance, Cut, Ddp, PipelineSchedule, Sharing},
    train::{Length, Train},
};
pub use setting::Setting;
pub use sources::Sources;
pub use value::Value;
