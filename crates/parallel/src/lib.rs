//! What several devices do together, without tensors.
//!
//! - [`best_cut`] and [`cut_by_names`]: where a chain of stages is cut, so that each device has a run of them.
//! - [`Schedule`]: in which order the devices of a pipeline work; [`Course`] plays it and says how long they are idle,
//!   and [`diagram`] draws that for a terminal.
//! - [`rows`] and [`rows_with_coordinator`]: which rows of a batch a rank has.
//! - [`buckets`]: which gradients are reduced together.
//! - [`group`]: ranks that train together, as threads or as processes, and their all-reduce.
//!
//! ```
//! use oomph_parallel::{Course, CutError, Schedule, Work, best_cut};
//!
//! // Four stages that take so long, over two devices.
//! let milliseconds = [5, 3, 2, 2];
//! let mut cost = |run: std::ops::Range<usize>, _device| Ok::<u64, CutError>(milliseconds[run].iter().sum());
//! assert_eq!(best_cut(4, 2, &mut cost)?, [0..1, 1..4]);
//!
//! // Two equal devices are idle for a fifth of a step of four micro-batches.
//! let course = Course::play(Schedule::OneForwardOneBackward, 2, 4, |_, _| 1.0, 0.0);
//! assert_eq!(course.bubble(), 0.2);
//! # Ok::<(), CutError>(())
//! ```
//!
//! It knows nothing of Burn, of models or of the trainer, which brings tensors and stages to it.

mod buckets;
mod course;
mod cut;
mod diagram;
pub mod group;
mod schedule;
mod shares;

pub use buckets::buckets;
pub use course::{Course, Span};
pub use cut::{CutError, best_cut, cut_by_names};
pub use diagram::{Diagram, Drawn, Line, Piece, diagram};
pub use group::{Group, GroupError};
pub use schedule::{Schedule, Work};
pub use shares::{rows, rows_with_coordinator};
