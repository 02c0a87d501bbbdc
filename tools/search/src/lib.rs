//! Measures the samplers and schedulers of `oomph-search`.
//!
//! ```text
//! cargo run --release -p oomph-search-tools -- regret target/regret --save       # writes docs/tables/search-regret.json
//! cargo run --release -p oomph-search-tools -- record tunes/digits CURVES.json   # writes learning curves
//! cargo run --release -p oomph-search-tools -- curves CURVES.json --save         # writes docs/tables/search-asha.json
//! ```
//!
//! `regret` searches 12 functions of the sigopt set and 8 tables, beside what `tools/search/regret.py` found with Optuna.
//! `record` takes learning curves from the trials of a study. `curves` plays ASHA and the rules of Ray and Optuna on them, in
//! virtual time.

pub mod curves;
mod functions;
mod problem;
pub mod record;
pub mod regret;
mod rules;
mod statistics;
mod virtual_time;

/// Anything that ends a tool.
pub type Error = Box<dyn std::error::Error>;
