//! How right the predictions of any number of labels are.

use oomph_engine::{EngineError, ranks::Replicas};
use serde::Serialize;

use crate::{
    average_precision::Ranking,
    averages::{Averages, share},
};

/// Counts of the predictions of labels: a label is predicted where its output is at least 0, a probability of at least ½.
///
/// Precision, recall and F1 are those of scikit-learn with `zero_division=0`. Macro averages are over the labels that have
/// samples or predictions, and the mean average precision over the labels that have samples.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelScores {
    samples: u64,
    counts: Vec<LabelCounts>,
    /// What the average precision is computed from at the end; `None` where that would take too much memory.
    ranking: Option<Ranking>,
    average_precision: Vec<Option<f64>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct LabelCounts {
    true_positives: u64,
    false_positives: u64,
    false_negatives: u64,
}

/// One label.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LabelScore {
    /// Samples with the label.
    pub samples: u64,
    /// Samples with the label for which it is predicted.
    pub true_positives: u64,
    /// Samples without the label for which it is predicted.
    pub false_positives: u64,
    /// Samples with the label for which it is not predicted.
    pub false_negatives: u64,
    /// The share of its predictions that are right.
    pub precision: f64,
    /// The share of its samples that are found.
    pub recall: f64,
    /// The harmonic mean of both.
    pub f1: f64,
    /// The precision, averaged over all thresholds of the output by their steps of recall; `None` for a label without samples.
    pub average_precision: Option<f64>,
}

impl LabelCounts {
    fn samples(self) -> u64 {
        self.true_positives + self.false_negatives
    }

    fn predictions(self) -> u64 {
        self.true_positives + self.false_positives
    }

    fn averages(self) -> Averages {
        Averages {
            precision: share(self.true_positives, self.predictions()),
            recall: share(self.true_positives, self.samples()),
            f1: share(2 * self.true_positives, self.samples() + self.predictions()),
        }
    }
}

impl LabelScores {
    /// The most outputs, over all ranks, of which an average precision is computed. They take 640 MiB of host memory.
    pub const MOST_RANKED: usize = 128 << 20;

    pub(crate) fn new(labels: usize) -> Self {
        Self {
            samples: 0,
            counts: vec![LabelCounts::default(); labels],
            ranking: Some(Ranking::new(labels)),
            average_precision: vec![None; labels],
        }
    }

    /// The scores without an average precision, which needs the outputs of all samples.
    pub fn without_ranking(self) -> Self {
        Self { ranking: None, ..self }
    }

    /// Adds samples: their outputs, and how far they have each label.
    pub(crate) fn add(&mut self, outputs: &[f32], targets: &[f32]) {
        let labels = self.counts.len();
        if outputs.len() != targets.len() || labels == 0 {
            return;
        }
        let is_true = |target: &f32| *target >= 0.5;
        for (outputs, targets) in outputs.chunks_exact(labels).zip(targets.chunks_exact(labels)) {
            self.samples += 1;
            for ((counts, output), target) in self.counts.iter_mut().zip(outputs).zip(targets) {
                match (*output >= 0.0, is_true(target)) {
                    (true, true) => counts.true_positives += 1,
                    (true, false) => counts.false_positives += 1,
                    (false, true) => counts.false_negatives += 1,
                    (false, false) => {}
                }
            }
        }
        self.ranking.iter_mut().for_each(|ranking| ranking.add(outputs, targets.iter().map(is_true)));
    }

    /// All counts in order.
    pub(crate) fn sums(&self) -> Vec<f64> {
        let of = |it: &LabelCounts| [it.true_positives, it.false_positives, it.false_negatives];
        let counts = [self.samples].into_iter().chain(self.counts.iter().flat_map(of));
        // Counts below 2^53 are exact.
        counts.map(|count| count as f64).collect()
    }

    /// Sets the counts to these [`sums`](Self::sums).
    pub(crate) fn set(&mut self, mut next: impl FnMut() -> f64) {
        self.samples = next() as u64;
        for it in &mut self.counts {
            *it = LabelCounts {
                true_positives: next() as u64,
                false_positives: next() as u64,
                false_negatives: next() as u64,
            };
        }
    }

    /// Computes the average precision of all ranks, and drops the outputs. Each rank calls it.
    pub(crate) fn ranked(mut self, replicas: &Replicas) -> Result<Self, EngineError> {
        if let Some(ranking) = self.ranking.take() {
            self.average_precision = ranking.finish(replicas)?;
        }
        Ok(self)
    }

    /// The number of labels.
    pub fn labels(&self) -> usize {
        self.counts.len()
    }

    /// The share of right decisions, over all labels of all samples: 1 less the Hamming loss.
    pub fn label_accuracy(&self) -> f64 {
        let wrong: u64 = self.counts.iter().map(|it| it.false_positives + it.false_negatives).sum();
        let all = self.samples * self.counts.len() as u64;
        share(all.saturating_sub(wrong), all)
    }

    /// Each label.
    pub fn of_labels(&self) -> Vec<LabelScore> {
        let of = |(counts, average_precision): (&LabelCounts, &Option<f64>)| {
            let Averages { precision, recall, f1 } = counts.averages();
            let LabelCounts { true_positives, false_positives, false_negatives } = *counts;
            LabelScore {
                samples: counts.samples(),
                true_positives,
                false_positives,
                false_negatives,
                precision,
                recall,
                f1,
                average_precision: *average_precision,
            }
        };
        self.counts.iter().zip(&self.average_precision).map(of).collect()
    }

    /// All labels together (micro): each decision counts the same.
    pub fn micro(&self) -> Averages {
        let sum = |of: fn(&LabelCounts) -> u64| self.counts.iter().map(of).sum();
        let all = LabelCounts {
            true_positives: sum(|it| it.true_positives),
            false_positives: sum(|it| it.false_positives),
            false_negatives: sum(|it| it.false_negatives),
        };
        all.averages()
    }

    /// The mean over labels (macro): each label counts the same.
    pub fn averages(&self) -> Averages {
        let is_there = |it: &&LabelCounts| it.samples() + it.predictions() > 0;
        Averages::mean(self.counts.iter().filter(is_there).map(|it| it.averages()))
    }

    /// The mean average precision; `None` where no label has samples, or the outputs would take too much memory.
    pub fn mean_average_precision(&self) -> Option<f64> {
        let known = || self.average_precision.iter().flatten();
        let count = known().count();
        (count > 0).then(|| known().sum::<f64>() / count as f64)
    }
}
