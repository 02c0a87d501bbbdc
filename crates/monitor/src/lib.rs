//! The memory of GPUs and host, with the processes that use it.
//!
//! - [`Sampler`] takes a [`Sample`], and remembers earlier ones for rates. [`report()`] is a sample as text.
//!
//! ```
//! use oomph_monitor::{Sampler, report};
//!
//! let sample = Sampler::open(None).sample();
//! assert!(report(&sample).contains("host"));
//! ```
//!
//! It ends no process, and draws no screen: the command does.

mod report;
mod sample;

pub use report::report;
pub use sample::{Sample, Sampler};
