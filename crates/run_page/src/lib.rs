//! One interactive HTML page of one or several runs.
//!
//! A [`RunsPage`] names the runs. [`write()`] makes one file of them, which needs neither network nor other files. The
//! page shows:
//!
//! | part | what it answers |
//! |---|---|
//! | head | how many runs there are, and which has the best evaluation |
//! | curves | loss, accuracy, perplexity, learning rate, speed and bytes in use over steps or time, all runs overlaid |
//! | runs | status, steps, best and last evaluation, peak, speed and time of each run |
//! | differing keys | which settings of the runs differ |
//!
//! All curves share one position: the step under the pointer is marked in each of them. Curves that no run has are left
//! out.
//!
//! ```
//! use oomph_run_page::{RunsPage, write};
//!
//! let mut page = Vec::new();
//! write(&RunsPage { runs: &[], made: "2026-11-26 01:30".into() }, &mut page)?;
//! assert!(page.starts_with(b"<!doctype html>"));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! It finds no runs, and reads and writes no files.

mod data;
mod head;
mod tables;
mod write;

pub use write::{RunsPage, write};
