//! The word itself is the core's: model and trainer say whom they allocate for, the allocator here asks.

pub use oomph_core::{Account, charge};
pub(crate) use oomph_core::{charge_thread, charged_account as current};
