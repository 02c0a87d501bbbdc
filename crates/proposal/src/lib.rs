//! A config for data that somebody has.
//!
//! - [`Facts`]: what the data says about its training: sizes, samples, classes.
//! - [`Proposal`]: a model and its settings for these facts, with the [`Wishes`] of the user.
//! - [`FittingBatch`]: a batch that fits the memory of a machine or a GPU, by a plan.
//! - [`config_text`]: the config file, with a comment for each choice.
//!
//! ```
//! use oomph_data::detect::detect;
//! use oomph_proposal::{Facts, FittingBatch, Proposal, Wishes, config_text};
//! use oomph_trainer::Registry;
//!
//! let folder = tempfile::tempdir()?;
//! std::fs::write(folder.path().join("story.txt"), "Once upon a time. ".repeat(100))?;
//! let (detected, registry) = (detect(folder.path())?, Registry::builtin());
//! let facts = Facts::of(&detected, &registry)?;
//! let proposal = Proposal::new(detected, facts, Wishes::default());
//! let batch = FittingBatch::find(&proposal, "story.toml", &registry)?;
//! assert!(config_text(&proposal, "story.toml", &batch).contains("name = \"lstm-lm\""));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It asks nobody and writes no file: `oomph-cli` does.

mod batch;
mod error;
mod facts;
mod here;
mod proposal;
mod text;

pub use batch::FittingBatch;
pub use error::ProposalError;
pub use facts::Facts;
pub use here::refuse_classes_here;
pub use proposal::{Proposal, Wishes};
pub use text::config_text;
