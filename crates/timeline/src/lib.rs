//! Memory timelines: which memory was, or will be, in use at each moment, and for what.
//!
//! - [`Timeline`]: every [`Block`] of memory on one device with its birth, its death and its [`Category`]; the
//!   [`Span`]s of steps, phases and stages; the [`Track`] of what the device did.
//! - [`Draft`]: raw blocks and the known tensors among them. [`Draft::assemble`] classifies the blocks. The planner and
//!   the recorder both produce drafts, so planned and measured timelines follow the same rules.
//! - [`Split`]: bytes by category. [`Timeline::levels`] and [`Timeline::peak`] give them.
//! - [`Holder`]: the largest blocks at a moment, described for a report.
//! - [`export`]: timelines as HTML, SVG, PyTorch snapshot, Perfetto trace and JSON lines.
//!
//! ```
//! use oomph_timeline::{Block, Category, Clock, Origin, Timeline};
//!
//! let mut timeline = Timeline::new(Origin::Planned, Clock::Operations);
//! timeline.times = vec![0, 1, 2];
//! timeline.blocks = vec![
//!     Block { category: Category::Parameters, ..Block::new(0x1000, 4096, 0) },
//!     Block { category: Category::Workspace, died: Some(2), ..Block::new(0x2000, 1024, 1) },
//! ];
//! let peak = timeline.peak();
//! assert_eq!((peak.event, peak.categories.total().get()), (1, 5120));
//! ```
//!
//! It allocates, measures and plans nothing.

mod assemble;
mod block;
mod category;
mod described;
pub mod export;
mod holders;
mod holdings;
mod names;
mod runs;
mod span;
mod split;
mod stages;
mod timeline;
mod track;

pub use assemble::{Draft, TensorLocation};
pub use block::Block;
pub use category::Category;
pub use holders::Holder;
pub use holdings::match_blocks;
pub use names::{Name, Names};
pub use span::{Span, SpanKind};
pub use split::Split;
pub use timeline::{Clock, Origin, Peak, Timeline};
pub use track::{Track, TrackKind, TrackSpan, TrackTimes};
