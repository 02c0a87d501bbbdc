//! What several devices do together, without tensors.
//!
//! It knows nothing of Burn, of models or of the trainer, which brings tensors and stages to it.

pub mod group;

pub use group::{Group, GroupError};
