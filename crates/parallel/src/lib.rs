//! How several devices divide and order their work, without tensors.
//!
//! - [`best_cut`] and [`cut_by_names`]: where a chain of stages is cut into one run of stages per device.
//! - [`PipelineOrder`]: the order in which the devices of a pipeline work. [`PipelineTrace`] simulates it and gives the
//!   idle time; [`diagram`] draws the trace for a terminal.
//! - [`rows`] and [`rows_with_coordinator`]: the rows of a batch that each rank has.
//! - [`shard`]: the elements of a tensor that each rank holds.
//! - [`buckets`]: the gradients that are reduced together.
//! - [`group`]: ranks that train together, as threads or processes, and their all-reduce.
//!
//! ```
//! use oomph_parallel::{PipelineTrace, CutError, PipelineOrder, Work, best_cut};
//!
//! // Four stages with these times, over two devices.
//! let milliseconds = [5, 3, 2, 2];
//! let mut cost = |run: std::ops::Range<usize>, _device| Ok::<u64, CutError>(milliseconds[run].iter().sum());
//! assert_eq!(best_cut(4, 2, &mut cost)?, [0..1, 1..4]);
//!
//! // Two equal devices are idle for a fifth of a step of four micro-batches.
//! let trace = PipelineTrace::play(PipelineOrder::OneForwardOneBackward, 2, 4, |_, _| 1.0, 0.0);
//! assert_eq!(trace.bubble(), 0.2);
//! # Ok::<(), CutError>(())
//! ```
//!
//! It knows nothing of Burn or models. Its callers bring tensors and stages.

mod buckets;
mod cut;
mod diagram;
pub mod group;
#[doc(hidden)]
pub mod parsers;
mod pipeline_order;
mod pipeline_trace;
mod shards;
mod shares;

pub use buckets::buckets;
pub use cut::{CutError, best_cut, cut_by_names};
pub use diagram::{Diagram, DiagramLine, DiagramPiece, DrawnAs, diagram};
pub use group::{Group, GroupError};
pub use pipeline_order::{PipelineOrder, Work};
pub use pipeline_trace::{PipelineTrace, Span};
pub use shards::shard;
pub use shares::{rows, rows_with_coordinator};
