//! The directory of a run: who holds it, what is in it.

mod directory;
mod environment;
mod error;

pub use directory::RunDirectory;
pub use error::RunError;

pub(crate) use environment::environment;
