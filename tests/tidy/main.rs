//! Lints the tree itself: what a reviewer would otherwise say again and again.
//!
//! Every rule lists all that breaks it, as `file:line: what is wrong; what to do`.

mod configs;
mod crates;
mod documents;
mod functions;
mod repository;
mod rust_file;
mod tokens;
mod tree;

use std::fmt;

/// One place that breaks a rule.
pub(crate) struct Finding {
    place: String,
    line: usize,
    says: String,
}

impl Finding {
    pub(crate) fn new(place: impl Into<String>, line: usize, says: impl Into<String>) -> Self {
        Self { place: place.into(), line, says: says.into() }
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
