//! Lints the tree itself, so that reviewers need not.
//!
//! A rule lists every place that breaks it, as `file:line: what is wrong; what to do`. `exceptions.rs` has the exceptions
//! with their reasons.

mod configs;
mod crates;
mod documents;
mod exceptions;
mod functions;
#[allow(dead_code)] // The file that some trainings read.
#[path = "../../tools/src/gpu/kernels/grid.rs"]
mod grid;
mod measured;
mod opening;
mod packages;
mod repository;
mod shape;
mod tokens;
mod tree;
mod words;

use std::fmt;

/// One place that breaks a rule.
pub(crate) struct Finding {
    place: String,
    line: usize,
    says: String,
    /// What breaks the rule, for the list of exceptions.
    name: String,
}

impl Finding {
    pub(crate) fn new(place: impl Into<String>, line: usize, says: impl Into<String>) -> Self {
        Self { place: place.into(), line, says: says.into(), name: String::new() }
    }

    /// With what breaks the rule.
    pub(crate) fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.place, self.line, self.says)
    }
}

/// Fails with all findings, one a line.
#[track_caller]
pub(crate) fn report(rule: &str, findings: Vec<Finding>) {
    let lines: Vec<_> = findings.iter().map(Finding::to_string).collect();
    assert!(lines.is_empty(), "{rule}\n\n{}\n", lines.join("\n"));
}
