//! Compares the batch that `oomph find-batch` finds on simulated cards with the largest batch that trains there.
//!
//! ```text
//! cargo xtask gpu find-batch-truth --save
//! cargo xtask gpu find-batch-truth --only "ResNet-18 4090"    # the rows that contain all words
//! ```
//!
//! A batch trains if three steps and an evaluation come to their end on a card that counts launches. The largest one is
//! found by bisection. Rows are padded and allocations rounded, so a larger batch may need less: the tool also tries the
//! batches right above, and above them those that are multiples of 8. It fails where the batch found is less than 97 % of the
//! largest, or does not train.

use std::{error::Error, process::ExitCode};

use serde_json::Value;

use super::{
    Simulation,
    pages::{
        cell::Trained,
        grid::{CARDS, Card, MODELS, Model},
    },
};
use crate::{
    Outcome,
    measured::{Measured, without_save},
};

/// The cards, by their number in the grid: those of 8, 24 and 80 GiB.
const ON: [usize; 3] = [0, 2, 3];

/// Batches right above the largest of a bisection that are tried, and multiples of 8 above them.
const ABOVE: usize = 4;

/// Runs the tool.
pub(super) fn run(simulation: &Simulation, arguments: &[String]) -> Outcome {
    let (arguments, is_saved) = without_save(arguments);
    let (only, _) = super::read_jobs(&arguments)?;
    let titles = ["model", "card", ">found", ">largest", ">share", ">probes"];
    let mut table = Measured::begin("gpu find-batch-truth", is_saved, &titles);
    let mut least = 1.0f64;
    for model in &MODELS {
        for card in ON.map(|index| &CARDS[index]) {
            let label = format!("{} {}", model.name, card.name);
            if !only.split_whitespace().all(|word| label.contains(word)) {
                continue;
            }
            let searched = Searched { simulation, model, card };
            let (found, probes) = searched.found()?;
            let largest = searched.largest(found)?;
            let share = if found <= largest { found as f64 / largest as f64 } else { 0.0 };
            least = least.min(share);
            table.add(vec![
                model.name.to_owned(),
                card.name.to_owned(),
                found.to_string(),
                largest.to_string(),
                format!("{:.2} %", 100.0 * share),
                probes.to_string(),
            ]);
        }
    }
    table.data.figures.insert("least_share".into(), format!("{:.2} %", 100.0 * least));
    table.end("gpu-find-batch-truth")?;
    Ok(if least >= 0.97 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A model on a card.
struct Searched<'a> {
    simulation: &'a Simulation<'a>,
    model: &'a Model,
    card: &'a Card,
}

impl Searched<'_> {
    /// The batch that oomph finds, and the number of its probes.
    fn found(&self) -> Result<(usize, usize), Box<dyn Error>> {
        /// More than any card holds.
        const SAMPLES: usize = 100_000;
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("case.toml");
        std::fs::write(&config, self.model.config(SAMPLES))?;
        let mut command = self.card.command(self.simulation);
        command.args(["find-batch", "--json", "--devices", "cuda:0", "--max"]).arg(SAMPLES.to_string());
        let output = command.arg("--config").arg(config).current_dir(folder.path()).output()?;
        let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let batch = found["largest_batch"].as_u64();
        let batch = batch.ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        let probes = found["probes"].as_array().map_or(0, Vec::len);
        Ok((batch as usize, probes))
    }

    /// The largest batch that trains, near one that should.
    fn largest(&self, near: usize) -> Result<usize, Box<dyn Error>> {
        let (mut low, mut high) = (0, None);
        let mut guess = near;
        while high.is_none() {
            if self.trains(guess)? {
                low = guess;
                guess += (near / 50).max(1);
            } else if low > 0 {
                high = Some(guess);
            } else if guess > 1 {
                // The batch found does not train.
                guess -= (near / 50).max(1).min(guess - 1);
            } else {
                return Ok(0);
            }
        }
        let mut high = high.unwrap_or(guess);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.trains(middle)? { low = middle } else { high = middle }
        }
        let multiples = (1..=ABOVE).map(|index| (high / 8 + index) * 8);
        for batch in (high + 1..=high + ABOVE).chain(multiples) {
            if batch > low && self.trains(batch)? {
                low = batch;
            }
        }
        Ok(low)
    }

    /// Whether a batch comes to the end of a training.
    fn trains(&self, batch: usize) -> Result<bool, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        match Trained::of(self.simulation, self.card, &self.model.config(batch), folder.path()) {
            Ok(_) => Ok(true),
            Err(error) if error.to_string().contains("out of memory") => Ok(false),
            Err(error) => Err(error),
        }
    }
}
