//! Checkpoints: a training state on disk, complete or absent.
//!
//! A checkpoint is a directory with `model.safetensors`, `optimizer.safetensors`, the resolved `config.toml`,
//! `average.safetensors` (the average of the weights, if there is one), `source.json` (the record of the data that predictions need) and `state.json`, which holds the progress and the
//! SHA-256 of all files, its own included. A checkpoint is written under a temporary name, flushed to disk and renamed.
//! Only then `best` and `latest` move. A crash at any moment leaves the checkpoint before, and readers verify every file.

mod checkpoint;
mod cleaning;
mod consistency;
mod disk;
mod error;
mod listing;
mod manifest;
mod store;
pub mod weight_file;

pub use checkpoint::{About, AverageState, Checkpoint, TrainState};
pub(crate) use disk::sync_entry;
pub use disk::write_file;
pub use error::StateError;
pub use manifest::{EarlyStopping, StepSums, TrainProgress};
pub use store::{CheckpointStore, FoundCheckpoint, NotAChoice, SavedCheckpoint, Which};

pub(crate) use listing::place;
pub(crate) use manifest::{FORMAT_VERSION, Manifest, sha256};
