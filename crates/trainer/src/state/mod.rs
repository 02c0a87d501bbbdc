//! Checkpoints: a training state on disk, complete or absent.
//!
//! A checkpoint is a directory with `model.safetensors`, `optimizer.safetensors`, the resolved `config.toml`,
//! `source.json` (what is needed of the data to ask the model) and `state.json`, which holds the progress and the SHA-256 of all files, its own included. It is written beside its
//! final name, flushed to disk, and renamed; only then `latest` moves. So a crash at any moment leaves the checkpoint
//! before, and a reader takes none that does not verify.

mod checkpoint;
mod disk;
mod error;
mod host_tensor;
mod manifest;
mod record;
mod store;
pub(crate) mod tensor_file;

pub(crate) use checkpoint::encode_source;
pub use checkpoint::{About, Checkpoint};
pub use error::StateError;
pub use host_tensor::HostTensor;
pub use manifest::{EpochCut, Progress};
pub use record::{OptimizerRecord, Scalar, TrainState, model_record, restore_model};
pub use store::{CheckpointStore, Found, Which};

pub(crate) use disk::write_file;
pub(crate) use manifest::{FORMAT_VERSION, Manifest, sha256};
