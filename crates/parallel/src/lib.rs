//! What several devices do together, without tensors.
//!
//! - [`best_cut`] and [`cut_by_names`]: where a chain of stages is cut, so that each device has a run of them.
//!
//! It knows nothing of Burn, of models or of the trainer, which brings tensors and stages to it.

mod buckets;
mod cut;
mod shares;

pub use buckets::buckets;
pub use cut::{CutError, best_cut, cut_by_names};
pub use shares::{rows, rows_with_coordinator};
