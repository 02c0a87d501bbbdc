//! The errors of a table in a few figures.

use std::{collections::BTreeMap, fmt};

/// The errors of all predictions, as shares of what was measured.
pub(crate) struct Summary {
    predictions: usize,
    pub(crate) median: f64,
    pub(crate) p95: f64,
    pub(crate) worst_under: f64,
    pub(crate) worst_over: f64,
}

impl Summary {
    pub(crate) fn of(errors: &[f64]) -> Option<Self> {
        let mut sizes: Vec<f64> = errors.iter().map(|error| error.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let index = (sizes.len() as f64 * share) as usize;
            sizes.get(index.min(sizes.len().saturating_sub(1))).copied()
        };
        Some(Self {
            predictions: errors.len(),
            median: at(0.5)?,
            p95: at(0.95)?,
            worst_under: -errors.iter().copied().fold(0.0, f64::min),
            worst_over: errors.iter().copied().fold(0.0, f64::max),
        })
    }

    pub(crate) fn figures(&self) -> BTreeMap<String, String> {
        let percent = |share: f64| format!("{:.2} %", 100.0 * share);
        let figures = [
            ("predictions", self.predictions.to_string()),
            ("median", percent(self.median)),
            ("p95", percent(self.p95)),
            ("worst_under", percent(self.worst_under)),
            ("worst_over", percent(self.worst_over)),
        ];
        figures.map(|(name, value)| (name.to_owned(), value)).into()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = self.figures();
        write!(
            f,
            "{} predictions: median error {}, 95th percentile {}, worst under-prediction {}, worst over-prediction {}",
            figures["predictions"],
            figures["median"],
            figures["p95"],
            figures["worst_under"],
            figures["worst_over"],
        )
    }
}
