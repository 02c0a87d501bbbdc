//! What the seeds of a training found: each of them, and mean and standard deviation.

use std::{collections::BTreeMap, path::PathBuf};

use serde::Serialize;
use serde_json::Value;

use crate::{
    numbers::{decimal, elapsed, grouped, percent, plural},
    table::{
        Column::{Left, Right},
        Table, pairs,
    },
};

/// A measure of a training.
struct Measure {
    /// Its key in the events.
    key: &'static str,
    /// Its name in the table.
    name: &'static str,
    shown: fn(f64) -> String,
}

/// The measures of trainings that are summed up.
const MEASURES: [Measure; 12] = [
    Measure { key: "loss", name: "train loss", shown: decimal },
    Measure { key: "eval_loss", name: "eval loss", shown: decimal },
    Measure { key: "eval_perplexity", name: "perplexity", shown: decimal },
    Measure { key: "eval_bits_per_byte", name: "bits per byte", shown: decimal },
    Measure { key: "eval_accuracy", name: "eval accuracy", shown: percent },
    Measure { key: "eval_top_5_accuracy", name: "top-5 accuracy", shown: percent },
    Measure { key: "eval_macro_f1", name: "macro F1", shown: percent },
    Measure { key: "eval_micro_f1", name: "micro F1", shown: percent },
    Measure { key: "eval_map", name: "mAP", shown: percent },
    Measure { key: "eval_mae", name: "MAE", shown: decimal },
    Measure { key: "eval_rmse", name: "RMSE", shown: decimal },
    Measure { key: "eval_r2", name: "R²", shown: decimal },
];

/// A seed whose training ended.
#[derive(Debug, Serialize)]
pub struct SeedResult {
    /// The seed.
    pub seed: u64,
    /// The run directory.
    pub run_dir: PathBuf,
    /// Why it failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Why it ended otherwise: `complete`, `early_stopping`, `interrupted` or `terminated`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// Optimizer steps done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Seconds of its process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Its last values, by key.
    #[serde(flatten)]
    pub measures: BTreeMap<&'static str, f64>,
}

impl SeedResult {
    /// A seed before its training.
    pub fn new(seed: u64, run_dir: PathBuf) -> Self {
        Self { seed, run_dir, error: None, ended: None, step: None, seconds: None, measures: BTreeMap::new() }
    }

    /// Takes in an event of the training.
    pub fn hear(&mut self, event: &Value) {
        match event["event"].as_str() {
            Some("eval") => self.measure(event),
            Some("done") => {
                self.measure(event);
                self.ended = event["ended"].as_str().map(str::to_owned);
                self.step = event["step"].as_u64();
                self.seconds = event["seconds"].as_f64();
            }
            Some("error") => {
                let causes = event["causes"].as_array().into_iter().flatten();
                let texts = [&event["message"]].into_iter().chain(causes).filter_map(Value::as_str);
                self.error = Some(texts.collect::<Vec<_>>().join(": "));
            }
            _ => {}
        }
    }

    fn measure(&mut self, event: &Value) {
        let values = MEASURES.iter().filter_map(|Measure { key, .. }| Some((*key, event[*key].as_f64()?)));
        self.measures.extend(values);
    }

    /// Whether the training came to its end.
    fn is_complete(&self) -> bool {
        matches!(self.ended.as_deref(), Some("complete" | "early_stopping")) && self.error.is_none()
    }
}

/// Mean and standard deviation of a measure over the seeds that came to their end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard deviation of the sample: divided by n − 1. `None` for one seed.
    pub std: Option<f64>,
}

impl Spread {
    /// `None` without values.
    fn of(values: &[f64]) -> Option<Self> {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let std = (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt());
        (!values.is_empty()).then_some(Self { mean, std })
    }
}

/// All seeds, as the last line of JSON.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename = "seeds")]
pub struct SeedResults {
    /// The seeds, in the order in which they trained.
    pub seeds: Vec<SeedResult>,
    /// The spread of each measure, by key.
    pub spread: BTreeMap<&'static str, Spread>,
}

impl SeedResults {
    /// Sums up seeds.
    pub fn new(seeds: Vec<SeedResult>) -> Self {
        let values = |key: &str| -> Vec<f64> {
            let complete = seeds.iter().filter(|seed| seed.is_complete());
            complete.filter_map(|seed| seed.measures.get(key).copied()).collect()
        };
        let spread =
            MEASURES.iter().filter_map(|measure| Some((measure.key, Spread::of(&values(measure.key))?)));
        Self { spread: spread.collect(), seeds }
    }

    /// The number of seeds that failed.
    pub fn failed(&self) -> usize {
        self.seeds.iter().filter(|seed| seed.error.is_some()).count()
    }

    /// A table of the seeds, and the spread of each measure.
    pub fn report(&self) -> String {
        let mut table = Table::new([
            Right("seed"),
            Left("ended"),
            Right("steps"),
            Right("train loss"),
            Right("eval loss"),
            Right("eval accuracy"),
            Right("time"),
            Left("run directory"),
        ]);
        for seed in &self.seeds {
            let shown = |key: &str, shown: fn(f64) -> String| {
                seed.measures.get(key).map(|value| shown(*value)).unwrap_or_default()
            };
            let ended = seed.ended.as_deref().filter(|_| seed.error.is_none()).unwrap_or("failed");
            table.row([
                seed.seed.to_string(),
                ended.replace('_', " "),
                seed.step.map(|step| grouped(step as usize)).unwrap_or_default(),
                shown("loss", decimal),
                shown("eval_loss", decimal),
                shown("eval_accuracy", percent),
                seed.seconds.map(elapsed).unwrap_or_default(),
                seed.run_dir.display().to_string(),
            ]);
        }
        let table = table.without_empty_columns();
        let complete = self.seeds.iter().filter(|seed| seed.is_complete()).count();
        if complete == 0 {
            return table.to_string();
        }
        let rows = MEASURES.iter().filter_map(|Measure { key, name, shown }| {
            let Spread { mean, std } = self.spread.get(key)?;
            let std = std.map(|std| format!(" ± {}", shown(std))).unwrap_or_default();
            Some((*name, Some(format!("{}{std}", shown(*mean)))))
        });
        let of = if complete == 1 { "value" } else { "mean ± standard deviation (n − 1)" };
        format!("{table}\n{of} of {}\n{}", plural(complete, "seed"), pairs(rows))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn done(seed: u64, accuracy: f64) -> SeedResult {
        let mut result = SeedResult::new(seed, format!("runs/a-seed{seed}").into());
        result.hear(&json!({ "event": "eval", "eval_loss": 9.0, "eval_macro_f1": accuracy / 2.0 }));
        result.hear(&json!({
            "event": "done", "step": 6, "loss": 0.5, "eval_loss": 0.25, "eval_accuracy": accuracy,
            "seconds": 1.0, "ended": "complete",
        }));
        result
    }

    #[test]
    fn the_standard_deviation_is_that_of_a_sample() {
        // statistics.stdev([0.5, 0.7, 0.9]) of Python.
        let spread = Spread::of(&[0.5, 0.7, 0.9]).expect("values");
        assert!((spread.mean - 0.7).abs() < 1e-12 && (spread.std.expect("three values") - 0.2).abs() < 1e-12);
        assert_eq!(Spread::of(&[2.0]), Some(Spread { mean: 2.0, std: None }));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn seeds_that_failed_or_were_stopped_do_not_count() {
        let mut failed = SeedResult::new(2, "runs/a-seed2".into());
        failed.hear(&json!({ "event": "eval", "eval_loss": 100.0, "eval_accuracy": 0.0 }));
        failed.hear(&json!({ "event": "error", "message": "the loss is NaN", "causes": ["of a reason"] }));
        let mut stopped = done(3, 0.0);
        stopped.ended = Some("interrupted".to_owned());
        let results = SeedResults::new(vec![done(0, 0.5), done(1, 0.75), failed, stopped]);
        assert_eq!(results.failed(), 1);
        assert_eq!(results.seeds[2].error.as_deref(), Some("the loss is NaN: of a reason"));
        let accuracy = results.spread["eval_accuracy"];
        assert_eq!((accuracy.mean, accuracy.std.map(|std| (std * 1e6).round())), (0.625, Some(176_777.0)));
        assert_eq!(results.spread["eval_macro_f1"].mean, 0.3125);
        let report = results.report();
        assert!(report.contains("mean ± standard deviation (n − 1) of 2 seeds"), "{report}");
        assert!(report.contains("62.5 % ± 17.7 %"), "{report}");
    }
}
