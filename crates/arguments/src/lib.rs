//! Arguments that several commands share, and what they stand for.
//!
//! - [`ConfigArguments`], [`NamedConfigArguments`]: a configuration, by its name and `--set`.
//! - [`CheckpointArguments`]: a trained model, by a run directory or a checkpoint.
//! - [`BatchArguments`], [`DeviceArguments`], [`StrategyArguments`], [`TrainingArguments`], [`WeightsArguments`]: flags
//!   that each set a key.
//! - [`count`]: a parser of counts; [`WrongValue`]: what is wrong with a value.
//! - [`ExportPath`]: what an export writes.
//! - [`Seeds`]: the seeds of `train --seeds`.
//!
//! ```
//! use clap::Parser;
//! use oomph_arguments::{NamedConfigArguments, TrainingArguments};
//!
//! #[derive(Parser)]
//! struct Train {
//!     #[command(flatten)]
//!     config: NamedConfigArguments,
//!     #[command(flatten)]
//!     training: TrainingArguments,
//! }
//!
//! let train = Train::parse_from(["train", "lstm", "--batch", "16", "--set", "train.seed=3"]);
//! let config = train.config.named().load(&train.training.flags())?;
//! assert_eq!((config.name(), config.train.batch, config.train.seed), ("lstm", 16, 3));
//! # Ok::<(), oomph_arguments::ArgumentsError>(())
//! ```
//!
//! It runs no command and prints nothing.

mod checkpoint;
mod config;
mod configs;
mod count;
mod error;
mod export_path;
mod flags;
mod seeds;
mod wrong_value;

pub use checkpoint::CheckpointArguments;
pub use config::{ConfigArguments, NamedConfigArguments, for_shell};
pub use count::count;
pub use error::ArgumentsError;
pub use export_path::ExportPath;
pub use flags::{
    BatchArguments, DeviceArguments, Flag, StrategyArguments, TrainingArguments, WeightsArguments,
};
pub use seeds::Seeds;
pub use wrong_value::WrongValue;
