//! Reads, layers and validates oomph's configuration.
//!
//! - [`file::resolve`] finds a config file by name. [`Sources`] layers `--set key=value` and flags over it; each value
//!   keeps its [`Origin`].
//! - [`Config`] is the validated result, with one type a section: [`Train`], [`Optimizer`], [`Schedule`], [`Memory`],
//!   [`DeviceConfig`], [`Run`]. [`Config::changed`] applies typed [`Change`]s to it.
//! - [`Tune`] is the section of a search: [`Config::space`] gives the keys that it searches, [`Config::at_point`] the
//!   configuration of one point.
//! - [`Section`] is an open table, `[model]` or `[data]`. Whoever knows its keys reads it: oomph's models and sources,
//!   or a user's.
//! - [`assumed`]: values in place of defaults, from a file that a key names.
//! - [`ConfigError`] names the place, the value and what was expected, in one line; its
//!   [`hint`](ConfigError::hint) says what to do.
//!
//! ```
//! use oomph_config::{Change, Config, ConfigFile, Sources};
//!
//! let file = ConfigFile::from_text("my.toml", "[model]\nname = 'resnet18'\n[train]\nbatch = 64");
//! let config = Config::load(&Sources::new(file).set("optimizer.name=adam")?)?;
//! assert_eq!(config.model.string("name", "resnet50")?, "resnet18");
//! assert_eq!(config.optimizer.lr, 1e-3);
//!
//! let smaller = config.changed(&[Change::Batch(32)])?;
//! assert_eq!((config.train.batch, smaller.train.batch), (64, 32));
//!
//! // An unknown key is an error that names the line.
//! let error = Config::from_toml("my.toml", "[train]\nbacth = 64").unwrap_err();
//! assert_eq!(error.to_string(), "my.toml:2: `train.bacth` is not a known key");
//! assert_eq!(error.hint().as_deref(), Some("did you mean `train.batch`?"));
//! # Ok::<(), oomph_config::ConfigError>(())
//! ```
//!
//! It knows files, keys and lines. It knows nothing of Burn, models or data. It does not look whether devices or paths
//! exist, reads no environment variables and prints nothing.

pub mod assumed;
mod change;
mod config;
pub mod device_name;
mod edit;
pub mod error;
pub mod file;
pub mod interval;
mod ledger;
mod nearest;
mod origin;
mod parse;
mod precedence;
pub mod range;
mod report;
mod retired;
mod section;
mod section_names;
pub mod sections;
pub mod setting;
mod sources;
mod space_check;
mod study;
mod synonyms;
mod value;

pub use change::Change;
pub use config::Config;
pub use device_name::DeviceName;
pub use error::ConfigError;
pub use file::ConfigFile;
pub use interval::Interval;
pub use origin::Origin;
pub use report::values;
pub use section::Section;
pub use sections::{
    device::DeviceConfig,
    memory::{Cleanup, Memory, MicroBatch, OnOom, Pool, Precision, Recompute},
    optimizer::{Clip, Moments, Optimizer, OptimizerKind, OptimizerName},
    run::Run,
    schedule::{Anneal, Drops, Schedule, ScheduleKind, Warmup},
    sharing::{Balance, Cut, Ddp, PipelineSchedule, Sharing, Strategy},
    train::Train,
    tune::Tune,
};
pub use setting::{Difference, Entry};
pub use sources::Sources;
pub use value::Value;
