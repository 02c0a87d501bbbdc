//! Planned against measured memory of every device, for features that change a step with each strategy.

use std::error::Error;

use super::{
    drift_grid::{DriftCase, FEATURES, STRATEGIES},
    in_a_process,
    measure::{Outcome, device_errors},
    summary::Summary,
};
use crate::measured::Measured;

/// Measures the devices of a case.
pub(super) const CASE: &str = "--devices";

/// The largest error.
const MOST: f64 = 0.015;

/// Measures the features whose names contain all words. Gives whether all errors are in bounds.
pub(super) fn run(words: &[String], is_saved: bool) -> Result<bool, Box<dyn Error>> {
    let strategies: Vec<String> = STRATEGIES.iter().map(|strategy| format!(">{}", strategy.name)).collect();
    let columns: Vec<&str> =
        std::iter::once("feature").chain(strategies.iter().map(String::as_str)).collect();
    let mut table = Measured::begin("plan-accuracy drift", is_saved, &columns);
    let (mut all, mut failures) = (Vec::new(), Vec::new());
    for feature in FEATURES.iter().filter(|feature| words.iter().all(|word| feature.name.contains(&**word))) {
        let mut row = vec![feature.name.to_owned()];
        for strategy in &STRATEGIES {
            let case = DriftCase { feature: *feature, strategy: *strategy };
            if !case.is_possible() {
                row.push("—".into());
                continue;
            }
            match in_a_process::<Vec<Outcome>>(CASE, &case.config()) {
                Ok(outcomes) => {
                    let errors = device_errors(&outcomes);
                    let worst = errors.iter().copied().max_by(|one, other| one.abs().total_cmp(&other.abs()));
                    row.push(format!("{:+.2} %", 100.0 * worst.unwrap_or_default()));
                    all.extend(errors);
                }
                Err(error) => {
                    row.push("failed".into());
                    failures.push(format!("{}: {error}", case.label()));
                }
            }
        }
        table.add(row);
    }
    let Some(summary) = Summary::of(&all) else { return Err("no feature has these words".into()) };
    println!("\n{summary}");
    failures.iter().for_each(|failure| eprintln!("{failure}"));
    table.data.figures = summary.figures();
    table.end("plan-accuracy-devices")?;
    Ok(failures.is_empty() && summary.worst_over.max(summary.worst_under) <= MOST)
}
