//! Advice about memory before a run: plans, the choices of `auto`, and settings that make a training fit.
//!
//! - [`planning`]: records the engine's steps on a capture device, and replays the allocator over the recording.
//! - [`out_of_memory`]: the out-of-memory report, and the levers with the bytes that each saves and the time that it
//!   costs.
//! - [`BatchSearch`]: the batch that `find-batch` probes next.
//! - [`check_training`]: checks that only training needs.
//!
//! ```
//! use oomph_advice::{BatchSearch, Planned, Tried};
//! use oomph_core::Bytes;
//!
//! /// Every sample needs 10 bytes.
//! struct Line;
//!
//! impl Planned for Line {
//!     fn peak(&mut self, batch: usize) -> Option<Bytes> {
//!         Some(Bytes::new(10 * batch as u64))
//!     }
//!
//!     fn is_allowed(&mut self, _batch: usize) -> bool {
//!         true
//!     }
//! }
//!
//! let mut search = BatchSearch::new(1, 512, 1, Some(Bytes::new(1000)), 6)?;
//! assert_eq!(search.next(&mut Line), Some(100));
//! search.tell(100, Tried::Fits { of_planned: 1.0 });
//! # Ok::<(), oomph_advice::SearchError>(())
//! ```
//!
//! This crate does not execute training steps. `oomph-trainer` has the training loop.

mod check;
mod error;
mod find_batch;
pub mod out_of_memory;
pub mod planning;
mod varied;

pub use check::{check_training, eval_order};
pub use error::{Leaves, PlanError};
pub use find_batch::{BatchSearch, Found, Planned, SearchError, Tried};
pub use planning::describe_policy;
pub use varied::varied;
