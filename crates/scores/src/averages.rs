//! Means over classes or labels.

use serde::Serialize;

/// Precision, recall and F1, averaged over classes or labels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Averages {
    /// Mean precision.
    pub precision: f64,
    /// Mean recall.
    pub recall: f64,
    /// Mean F1.
    pub f1: f64,
}

impl Averages {
    /// The mean over classes or labels; zeros if there are none.
    pub(crate) fn mean(of: impl Iterator<Item = Self>) -> Self {
        let all: Vec<_> = of.collect();
        let mean = |of: fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / all.len().max(1) as f64;
        Self { precision: mean(|it| it.precision), recall: mean(|it| it.recall), f1: mean(|it| it.f1) }
    }
}

/// A share, 0 where there is nothing to share.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
