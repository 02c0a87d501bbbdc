//! How many epochs each rule spends until a trial is within 1 % of the best, on recorded learning curves.
//!
//! The file is JSON: `{"metric": "eval loss", "curves": [{"values": [2.3, 1.9, null]}, …]}`. Each curve has the value after each
//! epoch, small is good, and `null` where it was NaN. A curve that ended early is NaN from there on. `epoch_seconds` is optional: how
//! long its epochs took; without it all take as long. Other fields, such as `point`, are for readers.

use std::path::Path;

use oomph_core::{Generator, Key};
use oomph_search::{Next, Point, Rungs, Trial, TrialState, Verdict};
use oomph_tree::measured::Measured;
use serde::Deserialize;

use crate::{Error, rules::Rule, statistics::median, virtual_time::Workers};

/// Orders in which the configurations are tried.
const SEEDS: u64 = 200;
const WORKERS: [usize; 3] = [1, 4, 16];
/// How much worse than the best is good enough.
const WITHIN: f64 = 0.01;
const ETA: u64 = 3;

/// Recorded learning curves.
#[derive(Debug, Deserialize)]
pub struct Curves {
    /// What the values are.
    pub metric: String,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// One learning curve.
#[derive(Debug, Deserialize)]
pub struct Curve {
    /// The value after each epoch; `None`: NaN.
    pub values: Vec<Option<f64>>,
    /// How long an epoch took.
    pub epoch_seconds: Option<f64>,
}

/// The epochs that one rule spent, over the seeds.
#[derive(Debug)]
pub struct Spent {
    /// The rule.
    pub rule: String,
    /// The workers.
    pub workers: usize,
    /// For each seed the epochs until a trial was within 1 % of the best; infinite if none ever was.
    pub until_good: Vec<f64>,
    /// For each seed the epochs until no worker had anything to do.
    pub until_end: Vec<f64>,
}

/// Plays all rules on the curves of a file.
///
/// # Errors
///
/// If the file is no curves, or the table cannot be saved.
pub fn run(file: &Path, is_saved: bool) -> Result<(), Error> {
    let text = oomph_core::read_text(file)?;
    let curves: Curves =
        serde_json::from_str(&text).map_err(|error| format!("`{}`: {error}", file.display()))?;
    let titles = [
        "rule",
        ">workers",
        ">epochs until within 1 %",
        ">of random search",
        ">seeds that come there",
        ">epochs until all is over",
    ];
    let mut table = Measured::begin("", is_saved, &titles);
    table.data.command =
        format!("cargo run --release -p oomph-search-tools -- curves {} --save", file.display());
    for workers in WORKERS {
        let all = play(&curves, workers, SEEDS)?;
        let random = all.first().map_or(f64::NAN, |spent| median(&spent.until_good));
        for spent in &all {
            let epochs = median(&spent.until_good);
            let reached = spent.until_good.iter().filter(|epochs| epochs.is_finite()).count();
            let share = format!("{:.2}", epochs / random);
            table.add(vec![
                spent.rule.clone(),
                workers.to_string(),
                if epochs.is_finite() { format!("{epochs:.0}") } else { "never".to_owned() },
                if epochs.is_finite() { share.clone() } else { "–".to_owned() },
                format!("{reached} of {SEEDS}"),
                format!("{:.0}", median(&spent.until_end)),
            ]);
            if spent.rule.starts_with("ASHA") {
                table.data.figures.insert(format!("asha-share-{workers}"), share);
            }
        }
    }
    table.end("search-asha")?;
    Ok(())
}

/// Plays all rules; random search comes first.
///
/// # Errors
///
/// If there are no curves, or they have no epochs or no numbers.
pub fn play(curves: &Curves, workers: usize, seeds: u64) -> Result<Vec<Spent>, Error> {
    let epochs = curves.curves.iter().map(|curve| curve.values.len()).max().unwrap_or(0) as u64;
    let numbers = curves.curves.iter().flat_map(|curve| curve.values.iter().flatten().copied());
    let best = numbers.min_by(f64::total_cmp).ok_or("the curves have no numbers")?;
    let target = best + WITHIN * best.abs();
    let rungs = Rungs::new(1, ETA, epochs)?;
    let rules: Vec<(String, Box<dyn Fn() -> Rule>)> = vec![
        ("random search".to_owned(), Box::new(move || Rule::random(epochs))),
        (format!("ASHA by promotion, η = {ETA}"), Box::new(move || Rule::asha(rungs.clone()))),
        ("Ray's, η = 4".to_owned(), Box::new(move || Rule::ray(4, epochs))),
        (format!("Ray's, η = {ETA}"), Box::new(move || Rule::ray(ETA, epochs))),
        ("Optuna's, η = 4".to_owned(), Box::new(move || Rule::optuna(4, epochs))),
        (format!("Optuna's, η = {ETA}"), Box::new(move || Rule::optuna(ETA, epochs))),
    ];
    let spent = rules.into_iter().map(|(rule, make)| {
        let spent = (0..seeds).map(|seed| Study::new(curves, epochs, target, seed).spend(make(), workers));
        let (until_good, until_end) = spent.unzip();
        Spent { rule, workers, until_good, until_end }
    });
    Ok(spent.collect())
}

/// A study that tries each curve once, in a random order.
struct Study<'a> {
    curves: Vec<&'a Curve>,
    epochs: u64,
    target: f64,
    trials: Vec<Trial>,
    lengths: Generator,
}

/// A trial is one epoch further.
struct Epoch {
    number: usize,
    epoch: u64,
    until: u64,
}

impl<'a> Study<'a> {
    fn new(curves: &'a Curves, epochs: u64, target: f64, seed: u64) -> Self {
        let mut curves: Vec<_> = curves.curves.iter().collect();
        Generator::at(Key::new(seed).with_name("curves")).shuffle(&mut curves);
        let lengths = Generator::at(Key::new(seed).with_name("lengths"));
        Self { curves, epochs, target, trials: Vec::new(), lengths }
    }

    /// The epochs until a value is within the target, and until nothing is left to do, of all workers together. The length of an
    /// epoch varies by half, so that trials overtake each other.
    fn spend(mut self, mut rule: Rule, count: usize) -> (f64, f64) {
        let mut workers = Workers::new(count);
        let [mut spent, mut until_good] = [0.0, f64::INFINITY];
        loop {
            while workers.has_free()
                && let Some(work) = self.begin(&rule)
            {
                workers.begin(self.length(work.number), work);
            }
            let Some(Epoch { number, epoch, until }) = workers.end() else { return (until_good, spent) };
            spent += 1.0;
            let value =
                self.curves[number].values.get(epoch as usize - 1).copied().flatten().unwrap_or(f64::NAN);
            if value <= self.target {
                until_good = until_good.min(spent);
            }
            self.trials[number].steps.insert(epoch, value);
            if let Some(until) = self.verdict(&mut rule, number, epoch, until, value) {
                workers.begin(self.length(number), Epoch { number, epoch: epoch + 1, until });
            }
        }
    }

    fn length(&mut self, number: usize) -> f64 {
        let mean = self.curves.get(number).and_then(|curve| curve.epoch_seconds).unwrap_or(1.0);
        mean * f64::from(self.lengths.uniform_in(0.5, 1.5))
    }

    fn begin(&mut self, rule: &Rule) -> Option<Epoch> {
        let new = (self.trials.len() < self.curves.len()).then_some(self.trials.len());
        match rule.next(&self.trials, new) {
            Next::Begin { until } => {
                let number = new?;
                self.trials.push(Trial::new(number, Point::new()));
                Some(Epoch { number, epoch: 1, until })
            }
            Next::Resume { number, until } => {
                let trial = &mut self.trials[number];
                trial.state = TrialState::Running;
                let epoch = trial.steps.last_key_value().map_or(1, |(epoch, _)| epoch + 1);
                Some(Epoch { number, epoch, until })
            }
            Next::Wait | Next::Finished => None,
        }
    }

    /// Until where a trial continues; otherwise its state changes.
    fn verdict(&mut self, rule: &mut Rule, number: usize, epoch: u64, until: u64, value: f64) -> Option<u64> {
        let verdict = rule.at_epoch(&self.trials, number, epoch, value);
        let state = match verdict {
            Verdict::Continue { until } if epoch < self.epochs => return Some(until),
            Verdict::Continue { .. } => TrialState::Complete,
            // It continues up to its rung, whatever is said before.
            Verdict::Pause if epoch < until => return Some(until),
            Verdict::Pause => TrialState::Paused,
            Verdict::Stop => TrialState::Pruned,
        };
        self.trials[number].state = state;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Curves like those of trainings: they fall towards a limit, good ones not always faster, and some diverge.
    fn synthetic(count: usize, epochs: u32) -> Curves {
        let mut generator = Generator::at(Key::new(3));
        let curve = |_| {
            let limit = 0.1 + 2.0 * f64::from(generator.uniform()).powi(2);
            let rate = 0.15 + 0.5 * f64::from(generator.uniform());
            let diverges = generator.chance(0.1);
            let value = |epoch| {
                let noise = 1.0 + 0.02 * f64::from(generator.normal());
                let value = (limit + 2.0 * (-rate * f64::from(epoch)).exp()) * noise;
                (!diverges || epoch < 3).then_some(value)
            };
            Curve { values: (1..=epochs).map(value).collect(), epoch_seconds: None }
        };
        Curves { metric: "eval loss".to_owned(), curves: (0..count).map(curve).collect() }
    }

    #[test]
    fn asha_needs_less_than_half_of_random_searchs_epochs() {
        let curves = synthetic(200, 27);
        for workers in WORKERS {
            let all = play(&curves, workers, 30).unwrap();
            let epochs = |name: &str| {
                let spent = all.iter().find(|spent| spent.rule.starts_with(name)).unwrap();
                median(&spent.until_good)
            };
            assert!(epochs("ASHA") < 0.5 * epochs("random"), "{workers} workers: {all:?}");
            // Random search tries all of all curves.
            assert!(all[0].until_end.iter().all(|epochs| *epochs == 200.0 * 27.0));
            assert!(all[0].until_good.iter().all(|epochs| epochs.is_finite()));
        }
    }

    #[test]
    fn curves_are_read_with_their_gaps() {
        let text = r#"{"metric": "eval loss", "curves": [{"point": {"lr": 1}, "values": [2.0, null]}, {"values": [1.5]}]}"#;
        let curves: Curves = serde_json::from_str(text).unwrap();
        let all = play(&curves, 1, 4).unwrap();
        assert!(all.iter().all(|spent| spent.until_good.iter().all(|epochs| *epochs <= 4.0)), "{all:?}");
        assert!(play(&Curves { metric: String::new(), curves: vec![] }, 1, 1).is_err());
    }
}
