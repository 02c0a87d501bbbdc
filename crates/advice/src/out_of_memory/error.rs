use std::{fmt, ops::Deref};

use oomph_engine::exhausted::{Exhausted, Shortage};

use super::report::{Advice, OutOfMemoryReport};

/// Memory ran out, or does not suffice by plan, with the report.
#[derive(Clone, Debug, PartialEq)]
pub struct OutOfMemory {
    /// The shortage: where, and how it was detected.
    pub exhausted: Exhausted,
    /// The report. `None` until [`explain`](super::explain) adds it.
    pub report: Option<Box<OutOfMemoryReport>>,
}

impl OutOfMemory {
    /// The best advice that keeps the mathematics. With it a training that ran out of memory can continue in a new
    /// process, to the same result. `None` if there is no such advice, or if the training was refused by plan.
    pub fn goes_on_with(&self) -> Option<&Advice> {
        if matches!(self.shortage, Shortage::Planned { .. }) {
            return None;
        }
        self.report.as_ref()?.levers.iter().find(|advice| advice.keeps_mathematics)
    }
}

impl From<Exhausted> for OutOfMemory {
    fn from(exhausted: Exhausted) -> Self {
        Self { exhausted, report: None }
    }
}

impl Deref for OutOfMemory {
    type Target = Exhausted;

    fn deref(&self) -> &Exhausted {
        &self.exhausted
    }
}

impl std::error::Error for OutOfMemory {}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.exhausted.fmt(f)
    }
}
