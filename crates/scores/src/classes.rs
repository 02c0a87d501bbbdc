//! How right a classifier is with each class.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::averages::{Averages, share};

/// Counts of a classification: row t and column p of the confusion matrix is the number of samples of class t for which class
/// p was predicted.
///
/// Precision, recall and F1 are those of scikit-learn with `zero_division=0`. Averages are over the classes that have samples
/// or predictions.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassScores {
    classes: usize,
    /// The entries of the confusion matrix that are not 0, by class and prediction: of many classes there are few.
    confusion: BTreeMap<[usize; 2], u64>,
    /// Samples whose class is among the five likeliest.
    in_top_5: u64,
}

/// One class.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClassScore {
    /// Samples of the class.
    pub samples: u64,
    /// The share of its predictions that are right.
    pub precision: f64,
    /// The share of its samples that are found: the accuracy on them.
    pub recall: f64,
    /// The harmonic mean of both.
    pub f1: f64,
}

impl ClassScores {
    pub(crate) fn new(classes: usize) -> Self {
        Self { classes, confusion: BTreeMap::new(), in_top_5: 0 }
    }

    pub(crate) fn add(&mut self, outputs: &[f32], classes: &[i64]) {
        if outputs.len() != classes.len() * self.classes {
            return;
        }
        for (logits, class) in outputs.chunks_exact(self.classes).zip(classes) {
            let Ok(class) = usize::try_from(*class) else { continue };
            let Some(own) = logits.get(class) else { continue };
            // Of equal logits the first counts, as in `argmax`.
            let is_ahead =
                |(index, logit): (usize, &f32)| logit.total_cmp(own).is_gt() || logit == own && index < class;
            let ahead = logits.iter().enumerate().filter(|it| is_ahead(*it)).count();
            let predicted =
                (0..logits.len()).rev().max_by(|one, other| logits[*one].total_cmp(&logits[*other]));
            *self.confusion.entry([class, predicted.unwrap_or(class)]).or_default() += 1;
            self.in_top_5 += u64::from(ahead < 5);
        }
    }

    /// All counts in order.
    pub(crate) fn sums(&self) -> Vec<f64> {
        let matrix = (0..self.classes).flat_map(|class| self.row(class));
        // Counts below 2^53 are exact.
        matrix.chain([self.in_top_5]).map(|count| count as f64).collect()
    }

    /// Sets the counts to these [`sums`](Self::sums).
    pub(crate) fn set(&mut self, mut next: impl FnMut() -> f64) {
        let all = 0..self.classes;
        let entries = all.clone().flat_map(|class| all.clone().map(move |predicted| [class, predicted]));
        let counted = entries.map(|entry| (entry, next() as u64));
        self.confusion = counted.filter(|(_, count)| *count > 0).collect();
        self.in_top_5 = next() as u64;
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Samples of class `truth` for which class `predicted` was predicted.
    pub fn count(&self, truth: usize, predicted: usize) -> u64 {
        self.confusion.get(&[truth, predicted]).copied().unwrap_or(0)
    }

    /// A row of the confusion matrix: the samples of class `truth`, by prediction.
    pub fn row(&self, truth: usize) -> Vec<u64> {
        let mut row = vec![0; self.classes];
        for ([_, predicted], count) in self.confusion.range([truth, 0]..[truth + 1, 0]) {
            row[*predicted] = *count;
        }
        row
    }

    fn samples(&self) -> u64 {
        self.confusion.values().sum()
    }

    fn share(&self, count: u64) -> f64 {
        share(count, self.samples())
    }

    /// The share of samples whose likeliest class is right. It equals precision, recall and F1 averaged over samples
    /// (micro), as each sample has one class.
    pub fn accuracy(&self) -> f64 {
        self.share((0..self.classes).map(|class| self.count(class, class)).sum())
    }

    /// The share of samples whose class is among the five likeliest; `None` for five classes or fewer.
    pub fn top_5(&self) -> Option<f64> {
        has_top_5(self.classes).then(|| self.share(self.in_top_5))
    }

    /// Each class.
    pub fn of_classes(&self) -> Vec<ClassScore> {
        self.counted().map(|(_, score)| score).collect()
    }

    /// Each class, after the number of its predictions.
    fn counted(&self) -> impl Iterator<Item = (u64, ClassScore)> {
        let [mut samples, mut predictions] = [(); 2].map(|()| vec![0; self.classes]);
        for ([class, predicted], count) in &self.confusion {
            samples[*class] += count;
            predictions[*predicted] += count;
        }
        samples.into_iter().zip(predictions).enumerate().map(|(class, (samples, predicted))| {
            let right = self.count(class, class);
            let score = ClassScore {
                samples,
                precision: share(right, predicted),
                recall: share(right, samples),
                f1: share(2 * right, samples + predicted),
            };
            (predicted, score)
        })
    }

    /// The mean over classes (macro): each class counts the same.
    pub fn averages(&self) -> Averages {
        let is_there = |(predicted, score): &(u64, ClassScore)| score.samples > 0 || *predicted > 0;
        Averages::mean(self.counted().filter(is_there).map(|(_, score)| {
            let ClassScore { precision, recall, f1, .. } = score;
            Averages { precision, recall, f1 }
        }))
    }
}

/// Whether so many classes have a top-5 accuracy: of five or fewer, every class is among the five likeliest.
pub fn has_top_5(classes: usize) -> bool {
    classes > 5
}
