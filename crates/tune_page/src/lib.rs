//! One interactive HTML page of a hyperparameter study.
//!
//! A [`StudyPage`] is the plain content of the page: parameters, and one [`PageTrial`] per trial. [`write()`] makes one
//! file of it, which needs neither network nor other files. The page shows:
//!
//! | part | what it answers |
//! |---|---|
//! | head | how many trials are in which state, which is the best, and how to train with its values |
//! | best value | when the search found something better |
//! | learning curves | how trials compare at the lengths at which the scheduler compares them |
//! | parallel coordinates | which values good trials share |
//! | importance | which parameters explain the differences, by functional ANOVA |
//! | memory | what a better value costs in peak memory, and which trials did not fit |
//! | lengths | how many trials reached each length, and how many continued |
//! | trials | everything about each trial, sortable |
//!
//! All parts share one selection: a trial under the pointer is highlighted everywhere, and a range brushed in the
//! parallel coordinates filters everything.
//!
//! ```
//! use oomph_tune_page::{Goal, PageParameter, PageTrial, ParameterKind, StudyPage, TrialStatus, write};
//!
//! let kind = ParameterKind::Float { low: 1e-4, high: 0.1, log: true };
//! let study = StudyPage {
//!     name: "digits".into(),
//!     metric: "eval loss".into(),
//!     goal: Goal::Minimize,
//!     unit: "epochs".into(),
//!     levels: vec![1, 3, 9],
//!     parameters: vec![PageParameter { name: "optimizer.lr".into(), kind, when: None }],
//!     trials: vec![PageTrial {
//!         parameters: [("optimizer.lr".into(), 0.003.into())].into(),
//!         value: Some(0.12),
//!         ..PageTrial::new(0, TrialStatus::Complete)
//!     }],
//!     limit_bytes: None,
//!     made: "2026-11-24 18:30 UTC".into(),
//! };
//! let mut page = Vec::new();
//! write(&study, &mut page)?;
//! assert!(page.starts_with(b"<!doctype html>"));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! It knows no study files, samplers, schedulers or trainers, and reads and writes no files.

mod data;
mod head;
mod importance;
mod lengths;
mod study;
mod write;

pub use study::{Goal, PageParameter, PageTrial, ParameterKind, ParameterValue, StudyPage, TrialStatus};
pub use write::write;
