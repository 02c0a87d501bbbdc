//! What commands show on a terminal: numbers, tables, notices and progress.
//!
//! - [`numbers`]: numbers, durations and bytes as people read them.
//! - [`table`]: [`Table`](table::Table), and pairs of names and values.
//! - [`found_rate`], [`lr_chart`]: a learning-rate range test, and its curve.
//! - [`notices`]: lines on stderr, above the progress bars if there are any.
//! - [`predictions`]: classes or values from outputs.
//! - [`progress`]: bars, lines or JSON of a training, a search or a download.
//! - [`questions`]: questions that a person answers, or nobody.
//! - [`runs`]: runs as a table, and how their configurations differ.
//! - [`screen`]: a report that is drawn over the previous one.
//! - [`scores`]: how right a model is, as rows, tables and a picture.
//! - [`seeds`]: the trainings of several seeds, and mean and standard deviation.
//! - [`sparkline`]: a curve in one line of text.
//! - [`study`]: how far a study is, and what it found.
//! - [`stream`]: stdout and stderr; texts from outside reach a terminal escaped.
//! - [`data`]: what a data source holds.
//! - [`echo`]: the terminal's echo of control keys.
//!
//! ```
//! use oomph_terminal::numbers::{duration, plural};
//!
//! assert_eq!(plural(2, "step"), "2 steps");
//! assert_eq!(duration(75.0), "1:15");
//! ```
//!
//! It decides nothing, and writes results nowhere: those are the commands'.

pub mod data;
pub mod echo;
pub mod found_rate;
pub mod lr_chart;
pub mod notices;
pub mod numbers;
pub mod predictions;
pub mod progress;
pub mod questions;
pub mod runs;
pub mod scores;
pub mod screen;
pub mod seeds;
pub mod sparkline;
pub mod stream;
pub mod study;
pub mod table;
