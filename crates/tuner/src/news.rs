//! What a training tells while it trains.

use std::collections::BTreeMap;

use oomph_config::sections::tune::Metric;
use serde::Deserialize;

use crate::length::{Length, Unit};

/// A line of a training, as far as a study needs it: the events of [the log](https://docs.rs/oomph-runs).
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum News {
    Started {
        steps: usize,
        steps_per_epoch: usize,
    },
    Step(Measures),
    Eval(Evaluation),
    Done(Ending),
    Error {
        message: String,
        #[serde(default)]
        causes: Vec<String>,
        #[serde(default)]
        out_of_memory: Option<Shortage>,
    },
    #[serde(other)]
    Other,
}

/// Measures of some steps.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Measures {
    pub(crate) step: usize,
    pub(crate) loss: Option<f64>,
    pub(crate) samples_per_second: Option<f64>,
    pub(crate) peak_in_use_bytes: Option<u64>,
}

/// Measures of an evaluation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Evaluation {
    pub(crate) step: usize,
    #[serde(flatten)]
    pub(crate) evaluated: Evaluated,
}

/// The end of a training, or its pause.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Ending {
    pub(crate) step: usize,
    pub(crate) ended: Ended,
    pub(crate) loss: Option<f64>,
    pub(crate) samples_per_second: Option<f64>,
    pub(crate) peak_in_use_bytes: Option<u64>,
    pub(crate) seconds: Option<f64>,
    #[serde(flatten)]
    pub(crate) evaluated: Evaluated,
}

/// Values of an evaluation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct Evaluated {
    pub(crate) eval_loss: Option<f64>,
    pub(crate) eval_accuracy: Option<f64>,
    pub(crate) eval_perplexity: Option<f64>,
}

/// Why a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ended {
    Complete,
    EarlyStopping,
    Callback,
    Paused,
    Interrupted,
    Terminated,
}

/// What a report about missing memory advises.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct Shortage {
    #[serde(default)]
    pub(crate) levers: Vec<Lever>,
}

/// Settings that would fit.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Lever {
    #[serde(default)]
    pub(crate) settings: Vec<(String, String)>,
    #[serde(default)]
    pub(crate) keeps_mathematics: bool,
}

impl News {
    /// A line of a training's stdout. A user's model may print there too.
    pub(crate) fn read(line: &str) -> Self {
        serde_json::from_str(line).unwrap_or(Self::Other)
    }
}

impl Shortage {
    /// The best settings that keep the mathematics.
    pub(crate) fn settings(&self) -> Option<BTreeMap<String, String>> {
        let lever = self.levers.iter().find(|lever| lever.keeps_mathematics)?;
        Some(lever.settings.iter().cloned().collect())
    }
}

/// Follows the measure of a study through the events of a training.
#[derive(Debug)]
pub(crate) struct Meter {
    metric: Metric,
    unit: Unit,
    steps_per_epoch: usize,
    /// Optimizer steps of the whole training.
    pub(crate) steps: usize,
    /// Optimizer steps done.
    pub(crate) step: usize,
    /// The newest value, and the step that it was measured after.
    latest: Option<Measured>,
    /// The highest peak in use.
    pub(crate) peak_bytes: Option<u64>,
}

/// A value of the measure.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measured {
    step: usize,
    value: f64,
}

impl Meter {
    pub(crate) fn new(metric: Metric, unit: Unit) -> Self {
        Self { metric, unit, steps_per_epoch: 1, steps: 0, step: 0, latest: None, peak_bytes: None }
    }

    /// Takes an event in. Returns the progress and the value that are to be reported, if there is a new one.
    pub(crate) fn hear(&mut self, news: &News) -> Option<(u64, f64)> {
        match news {
            News::Started { steps, steps_per_epoch } => {
                (self.steps, self.steps_per_epoch) = (*steps, (*steps_per_epoch).max(1));
                None
            }
            News::Step(measures) => {
                self.step = measures.step;
                self.peak_bytes = self.peak_bytes.max(measures.peak_in_use_bytes);
                self.note(measures.step, self.of_steps(measures.loss, measures.samples_per_second))
            }
            News::Eval(evaluation) => {
                self.step = evaluation.step;
                // JSON has no NaN.
                let loss = evaluation.evaluated.eval_loss.or(Some(f64::NAN));
                let value = self.of_evaluation(Evaluated { eval_loss: loss, ..evaluation.evaluated });
                self.note(evaluation.step, value)
            }
            News::Done(ending) => {
                self.step = ending.step;
                self.peak_bytes = self.peak_bytes.max(ending.peak_in_use_bytes);
                let value = self.of_steps(ending.loss, ending.samples_per_second);
                // An earlier process may have evaluated, and have been killed before this one had anything left to train.
                let of_earlier = || self.of_evaluation(ending.evaluated).filter(|_| self.latest.is_none());
                self.note(ending.step, value.or_else(of_earlier))
            }
            News::Error { .. } | News::Other => None,
        }
    }

    fn of_steps(&self, loss: Option<f64>, samples_per_second: Option<f64>) -> Option<f64> {
        match self.metric {
            Metric::TrainLoss => loss,
            Metric::SamplesPerSecond => samples_per_second,
            Metric::PeakInUse => self.peak_bytes.map(|bytes| bytes as f64),
            Metric::EvalLoss | Metric::EvalAccuracy | Metric::Perplexity => None,
        }
    }

    fn of_evaluation(&self, evaluated: Evaluated) -> Option<f64> {
        match self.metric {
            Metric::EvalLoss => evaluated.eval_loss,
            Metric::EvalAccuracy => evaluated.eval_accuracy,
            // Of tasks without a perplexity it is e to the loss all the same.
            Metric::Perplexity => evaluated.eval_perplexity.or(evaluated.eval_loss.map(f64::exp)),
            Metric::TrainLoss | Metric::SamplesPerSecond | Metric::PeakInUse => None,
        }
    }

    fn note(&mut self, step: usize, value: Option<f64>) -> Option<(u64, f64)> {
        let value = value?;
        self.latest = Some(Measured { step, value });
        Some((self.progress(step)?, value)).filter(|(progress, _)| *progress > 0)
    }

    /// Whole units after some steps; `None` in the middle of one.
    fn progress(&self, step: usize) -> Option<u64> {
        match self.unit {
            Unit::Steps => Some(step as u64),
            Unit::Epochs if step.is_multiple_of(self.steps_per_epoch) => {
                Some((step / self.steps_per_epoch) as u64)
            }
            Unit::Epochs => None,
        }
    }

    /// The value at the end, or at a rung after `at`. `None` where the last value was measured before.
    pub(crate) fn value(&self, at: Option<Length>) -> Option<f64> {
        let measured = self.latest?;
        let least = at.map_or(0, |length| length.steps(self.steps_per_epoch));
        (measured.step >= least).then_some(measured.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(meter: &mut Meter, line: &str) -> Option<(u64, f64)> {
        meter.hear(&News::read(line))
    }

    #[test]
    fn a_loss_is_reported_at_the_ends_of_epochs() {
        let mut meter = Meter::new(Metric::EvalLoss, Unit::Epochs);
        assert_eq!(
            heard(&mut meter, r#"{"event":"started","steps":30,"steps_per_epoch":10,"model":"x"}"#),
            None
        );
        assert_eq!(heard(&mut meter, r#"{"event":"eval","step":5,"eval_loss":2.0}"#), None);
        assert_eq!(heard(&mut meter, r#"{"event":"eval","step":10,"eval_loss":1.5}"#), Some((1, 1.5)));
        let rung = |count| Some(Length { unit: Unit::Epochs, count });
        assert_eq!((meter.value(rung(1)), meter.value(rung(2))), (Some(1.5), None));
        assert_eq!((meter.steps, meter.step), (30, 10));
    }

    #[test]
    fn a_peak_is_the_highest_that_was_told() {
        let mut meter = Meter::new(Metric::PeakInUse, Unit::Steps);
        let step = r#"{"event":"step","step":3,"loss":1.0,"samples_per_second":9.0,"peak_in_use_bytes":700}"#;
        assert_eq!(heard(&mut meter, step), Some((3, 700.0)));
        let done = r#"{"event":"done","step":4,"ended":"complete","loss":1,"samples_per_second":9,"peak_in_use_bytes":600,"seconds":1}"#;
        assert_eq!(heard(&mut meter, done), Some((4, 700.0)));
    }

    #[test]
    fn a_training_that_has_nothing_left_tells_what_an_earlier_process_measured() {
        let done = r#"{"event":"done","step":10,"ended":"paused","eval_loss":0.5,"eval_accuracy":0.9}"#;
        let mut meter = Meter::new(Metric::EvalLoss, Unit::Epochs);
        heard(&mut meter, r#"{"event":"started","steps":30,"steps_per_epoch":10}"#);
        assert_eq!(heard(&mut meter, done), Some((1, 0.5)));
        assert_eq!(meter.value(Some(Length { unit: Unit::Epochs, count: 1 })), Some(0.5));
    }

    #[test]
    fn what_is_no_event_is_nothing() {
        for line in
            ["", "hello", "[1]", r#"{"event":"new"}"#, r#"{"event":"eval"}"#, r#"{"event":"done","step":1}"#]
        {
            assert_eq!(News::read(line), News::Other, "{line}");
        }
    }

    #[test]
    fn advice_that_keeps_the_mathematics_is_taken() {
        let line = r#"{"event":"error","message":"m","out_of_memory":{"levers":[
            {"settings":[["memory.precision","bf16"]],"keeps_mathematics":false},
            {"settings":[["memory.micro_batch","8"]],"keeps_mathematics":true}]}}"#;
        let News::Error { out_of_memory: Some(shortage), .. } = News::read(line) else { panic!("{line}") };
        assert_eq!(shortage.settings(), Some([("memory.micro_batch".to_owned(), "8".to_owned())].into()));
    }
}
