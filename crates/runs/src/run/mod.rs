//! The directory of a run: who holds it, what is in it.

mod directory;
mod environment;
mod error;
mod summary;

pub use directory::RunDirectory;
pub use error::RunError;
pub use summary::{RunEvaluation, RunStatus, RunSummary};

pub use environment::{WeightsFile, environment, host_name};
