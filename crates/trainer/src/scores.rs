//! What an evaluation tells beside its loss: how right a classifier is with each class, how far off a regression is.

use oomph_core::TargetSpec;
use oomph_data::Targets;
use oomph_engine::{EngineError, ranks::Replicas};
use serde::Serialize;

pub use crate::label_scores::{LabelScore, LabelScores};

/// More classes have no matrix: it would have as many entries as 4,096 × 4,096.
const MOST_CLASSES: usize = 4096;

/// The scores of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub enum Scores {
    /// Of a classification with one class a sample.
    Classes(ClassScores),
    /// Of any number of labels a sample.
    Labels(LabelScores),
    /// Of a regression.
    Values(ValueScores),
}

/// Counts of a classification: row t and column p of the confusion matrix is the number of samples of class t for which class
/// p was predicted.
///
/// Precision, recall and F1 are those of scikit-learn with `zero_division=0`. Averages are over the classes that have samples
/// or predictions.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassScores {
    classes: usize,
    /// The confusion matrix, row after row.
    confusion: Vec<u64>,
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

/// Sums of a regression, for each feature of the target.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueScores {
    samples: u64,
    features: Vec<FeatureSums>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct FeatureSums {
    absolute: f64,
    squared: f64,
    target: f64,
    target_squared: f64,
}

impl Scores {
    /// Whether there are scores for a kind of target: not for tokens, whose perplexity says it, and not for more than 4,096
    /// classes or labels.
    pub(crate) fn exist_for(target: &TargetSpec) -> bool {
        match target {
            TargetSpec::Class { count } | TargetSpec::Labels { count } => *count <= MOST_CLASSES,
            TargetSpec::Values { .. } => true,
            TargetSpec::Tokens { .. } => false,
        }
    }

    /// Empty scores for a kind of target; `None` where none [exist](Self::exist_for).
    pub(crate) fn of(target: &TargetSpec) -> Option<Self> {
        match target {
            _ if !Self::exist_for(target) => None,
            TargetSpec::Class { count } => Some(Self::Classes(ClassScores {
                classes: *count,
                confusion: vec![0; count * count],
                in_top_5: 0,
            })),
            TargetSpec::Labels { count } => Some(Self::Labels(LabelScores::new(*count))),
            TargetSpec::Values { features } => Some(Self::Values(ValueScores {
                samples: 0,
                features: vec![FeatureSums::default(); *features],
            })),
            TargetSpec::Tokens { .. } => None,
        }
    }

    /// Adds a batch: its outputs, sample after sample, and its targets. Outputs of another shape are left out.
    pub(crate) fn add(&mut self, outputs: &[f32], targets: &Targets) {
        match (self, targets) {
            (Self::Classes(scores), Targets::Classes(classes)) => scores.add(outputs, classes),
            (Self::Labels(scores), Targets::Labels { data, .. }) => scores.add(outputs, data),
            (Self::Values(scores), Targets::Values { data, .. }) => scores.add(outputs, data),
            _ => {}
        }
    }

    /// All sums in order, to add those of other ranks.
    pub(crate) fn sums(&self) -> Vec<f64> {
        match self {
            Self::Classes(scores) => {
                // Counts below 2^53 are exact.
                scores.confusion.iter().chain([&scores.in_top_5]).map(|count| *count as f64).collect()
            }
            Self::Labels(scores) => scores.sums(),
            Self::Values(scores) => {
                let of = |it: &FeatureSums| [it.absolute, it.squared, it.target, it.target_squared];
                [scores.samples as f64].into_iter().chain(scores.features.iter().flat_map(of)).collect()
            }
        }
    }

    /// The scores with these [`sums`](Self::sums).
    pub(crate) fn with_sums(mut self, sums: &[f64]) -> Self {
        let mut sums = sums.iter().copied();
        let mut next = || sums.next().unwrap_or(0.0);
        match &mut self {
            Self::Classes(scores) => {
                scores.confusion.iter_mut().chain([&mut scores.in_top_5]).for_each(|it| *it = next() as u64);
            }
            Self::Labels(scores) => scores.set(next),
            Self::Values(scores) => {
                scores.samples = next() as u64;
                for it in &mut scores.features {
                    *it = FeatureSums {
                        absolute: next(),
                        squared: next(),
                        target: next(),
                        target_squared: next(),
                    };
                }
            }
        }
        self
    }

    /// The scores with those that need the outputs of all ranks. Each rank calls it.
    ///
    /// # Errors
    /// If another rank failed.
    pub(crate) fn ranked(self, replicas: &Replicas) -> Result<Self, EngineError> {
        Ok(match self {
            Self::Labels(scores) => Self::Labels(scores.ranked(replicas)?),
            scores => scores,
        })
    }
}

impl Averages {
    /// The mean over classes or labels; zeros if there are none.
    pub(crate) fn mean(of: impl Iterator<Item = Self>) -> Self {
        let all: Vec<_> = of.collect();
        let mean = |of: fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / all.len().max(1) as f64;
        Self { precision: mean(|it| it.precision), recall: mean(|it| it.recall), f1: mean(|it| it.f1) }
    }
}

impl ClassScores {
    fn add(&mut self, outputs: &[f32], classes: &[i64]) {
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
            self.confusion[class * self.classes + predicted.unwrap_or(class)] += 1;
            self.in_top_5 += u64::from(ahead < 5);
        }
    }

    /// The number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Samples of class `truth` for which class `predicted` was predicted.
    pub fn count(&self, truth: usize, predicted: usize) -> u64 {
        self.confusion.get(truth * self.classes + predicted).copied().unwrap_or(0)
    }

    fn samples(&self) -> u64 {
        self.confusion.iter().sum()
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
        let mut predictions = vec![0; self.classes];
        for row in self.confusion.chunks_exact(self.classes.max(1)) {
            predictions.iter_mut().zip(row).for_each(|(sum, count)| *sum += count);
        }
        predictions.into_iter().enumerate().map(|(class, predicted)| {
            let right = self.count(class, class);
            let samples = (0..self.classes).map(|predicted| self.count(class, predicted)).sum();
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

impl ValueScores {
    fn add(&mut self, outputs: &[f32], targets: &[f32]) {
        let features = self.features.len();
        if outputs.len() != targets.len() || features == 0 {
            return;
        }
        for (output, target) in outputs.chunks_exact(features).zip(targets.chunks_exact(features)) {
            self.samples += 1;
            for ((sums, output), target) in self.features.iter_mut().zip(output).zip(target) {
                let (output, target) = (f64::from(*output), f64::from(*target));
                sums.absolute += (output - target).abs();
                sums.squared += (output - target).powi(2);
                sums.target += target;
                sums.target_squared += target.powi(2);
            }
        }
    }

    fn mean(&self, of: fn(&FeatureSums) -> f64) -> f64 {
        self.features.iter().map(of).sum::<f64>() / (self.samples as f64 * self.features.len() as f64)
    }

    /// The mean absolute error, in the units of the targets as the model sees them.
    pub fn mae(&self) -> f64 {
        self.mean(|sums| sums.absolute)
    }

    /// The root of the mean squared error, in the same units.
    pub fn rmse(&self) -> f64 {
        self.mean(|sums| sums.squared).sqrt()
    }

    /// The coefficient of determination R², the mean over features: 1 is perfect, and 0 as good as the mean of the targets.
    /// Targets that are all equal give 1 where each output is right, else 0, as in scikit-learn.
    pub fn r2(&self) -> f64 {
        let of = |sums: &FeatureSums| {
            let spread = sums.target_squared - sums.target.powi(2) / self.samples as f64;
            match spread > 0.0 {
                true => 1.0 - sums.squared / spread,
                false => f64::from(sums.squared == 0.0),
            }
        };
        self.features.iter().map(of).sum::<f64>() / self.features.len() as f64
    }
}

/// Whether so many classes have a top-5 accuracy: of five or fewer, every class is among the five likeliest.
pub(crate) fn has_top_5(classes: usize) -> bool {
    classes > 5
}

/// A share, 0 where there is nothing to share.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn classified(classes: usize, outputs: &[f32], truth: &[i64]) -> ClassScores {
        let mut scores = Scores::of(&TargetSpec::Class { count: classes }).expect("scores");
        // In two batches, and by way of the sums of ranks.
        let half = truth.len() / 2;
        scores.add(&outputs[..half * classes], &Targets::Classes(truth[..half].to_vec()));
        scores.add(&outputs[half * classes..], &Targets::Classes(truth[half..].to_vec()));
        let sums = scores.sums();
        match scores.with_sums(&sums) {
            Scores::Classes(scores) => scores,
            _ => unreachable!(),
        }
    }

    /// The metrics that `tools/golden/scores.py` wrote.
    fn golden() -> Value {
        serde_json::from_str(include_str!("../tests/golden/scores.json")).expect("JSON")
    }

    fn floats(value: &Value) -> Vec<f32> {
        let rows = value.as_array().expect("rows").iter();
        rows.flat_map(|row| row.as_array().expect("a row"))
            .map(|it| it.as_f64().expect("a number") as f32)
            .collect()
    }

    fn close(name: &Value, here: f64, there: &Value) {
        let there = there.as_f64().expect("a number");
        assert!((here - there).abs() < 1e-12, "{name}: {here} instead of {there}");
    }

    #[test]
    fn scores_equal_those_of_scikit_learn() {
        let golden = golden();
        for case in golden["classes"].as_array().expect("cases") {
            let name = &case["name"];
            let truth: Vec<_> =
                case["truth"].as_array().expect("truth").iter().filter_map(Value::as_i64).collect();
            let count = case["classes"].as_u64().expect("a number") as usize;
            let scores = classified(count, &floats(&case["outputs"]), &truth);
            close(name, scores.accuracy(), &case["accuracy"]);
            close(name, scores.accuracy(), &case["micro"]);
            assert_eq!(scores.top_5().is_some(), !case["top_5"].is_null());
            scores.top_5().iter().for_each(|top_5| close(name, *top_5, &case["top_5"]));
            let Averages { precision, recall, f1 } = scores.averages();
            [precision, recall, f1]
                .iter()
                .enumerate()
                .for_each(|(it, here)| close(name, *here, &case["macro"][it]));
            for (class, score) in scores.of_classes().into_iter().enumerate() {
                let there = &case["each"][class];
                let here = [score.precision, score.recall, score.f1, score.samples as f64];
                here.iter().enumerate().for_each(|(it, here)| close(name, *here, &there[it]));
                for predicted in 0..count {
                    assert_eq!(
                        Some(scores.count(class, predicted)),
                        case["confusion"][class][predicted].as_u64()
                    );
                }
            }
        }
        for case in golden["values"].as_array().expect("cases") {
            let features = case["features"].as_u64().expect("a number") as usize;
            let mut scores = Scores::of(&TargetSpec::Values { features }).expect("scores");
            scores.add(
                &floats(&case["outputs"]),
                &Targets::Values { data: floats(&case["targets"]), features },
            );
            let Scores::Values(scores) = scores else { unreachable!() };
            close(&case["name"], scores.mae(), &case["mae"]);
            close(&case["name"], scores.rmse(), &case["rmse"]);
            close(&case["name"], scores.r2(), &case["r2"]);
        }
    }

    #[test]
    fn scores_of_labels_equal_those_of_scikit_learn() {
        let golden = golden();
        for case in golden["labels"].as_array().expect("cases") {
            let name = &case["name"];
            let (outputs, data) = (floats(&case["outputs"]), floats(&case["truth"]));
            let count = case["labels"].as_u64().expect("a number") as usize;
            let mut scores = Scores::of(&TargetSpec::Labels { count }).expect("scores");
            // In two batches, and by way of the sums of ranks.
            let (half, targets) = (data.len() / count / 2 * count, |data: &[f32]| Targets::Labels {
                data: data.to_vec(),
                count,
            });
            scores.add(&outputs[..half], &targets(&data[..half]));
            scores.add(&outputs[half..], &targets(&data[half..]));
            let sums = scores.sums();
            let scores = scores.with_sums(&sums).ranked(&Replicas::alone()).expect("no other rank");
            let Scores::Labels(scores) = scores else { unreachable!() };
            close(name, scores.label_accuracy(), &case["label_accuracy"]);
            close(name, scores.mean_average_precision().expect("samples"), &case["map"]);
            for (averages, key) in [(scores.micro(), "micro"), (scores.averages(), "macro")] {
                let here = [averages.precision, averages.recall, averages.f1];
                here.iter().enumerate().for_each(|(it, here)| close(name, *here, &case[key][it]));
            }
            for (label, score) in scores.of_labels().into_iter().enumerate() {
                let here = [score.precision, score.recall, score.f1];
                here.iter().enumerate().for_each(|(it, here)| close(name, *here, &case["each"][label][it]));
                let there = &case["average_precision"][label];
                assert_eq!(score.average_precision.is_none(), there.is_null());
                score.average_precision.iter().for_each(|here| close(name, *here, there));
                let counts = [score.true_positives, score.false_positives, score.false_negatives];
                assert_eq!(serde_json::json!(counts), case["counts"][label]);
            }
        }
    }

    #[test]
    fn counts_are_those_of_a_hand_calculation() {
        // Predictions 0 0 1 2 2 0, and the truth 0 1 1 2 1 0.
        let outputs = [
            [2.0, 1.0, 0.0],
            [2.0, 1.0, 0.0],
            [0.0, 3.0, 1.0],
            [0.0, 1.0, 2.0],
            [0.0, 1.0, 2.0],
            [1.0, 1.0, 0.0],
        ];
        let scores = classified(3, outputs.as_flattened(), &[0, 1, 1, 2, 1, 0]);
        let row = |truth| [0, 1, 2].map(|predicted| scores.count(truth, predicted));
        assert_eq!([row(0), row(1), row(2)], [[2, 0, 0], [1, 1, 1], [0, 0, 1]]);
        assert_eq!((scores.accuracy(), scores.top_5()), (4.0 / 6.0, None));
        let [zero, one, two] = scores.of_classes().try_into().expect("three classes");
        assert_eq!([zero.precision, zero.recall, zero.f1], [2.0 / 3.0, 1.0, 4.0 / 5.0]);
        assert_eq!([one.precision, one.recall, one.f1], [1.0, 1.0 / 3.0, 0.5]);
        assert_eq!([two.precision, two.recall, two.f1], [0.5, 1.0, 2.0 / 3.0]);
        let averages = scores.averages();
        assert!((averages.f1 - (0.8 + 0.5 + 2.0 / 3.0) / 3.0).abs() < 1e-15);
    }

    #[test]
    fn a_class_without_samples_and_predictions_counts_for_no_average() {
        let scores = classified(4, &[9.0, 0.0, 0.0, 0.0, 9.0, 0.0, 0.0, 0.0], &[0, 0]);
        assert_eq!(scores.averages(), Averages { precision: 1.0, recall: 1.0, f1: 1.0 });
        assert_eq!(scores.of_classes()[3], ClassScore { samples: 0, precision: 0.0, recall: 0.0, f1: 0.0 });
    }

    #[test]
    fn the_top_five_have_ties_in_order() {
        let logits = [5.0, 4.0, 3.0, 2.0, 1.0, 1.0, 0.0];
        let top = |truth| classified(7, &logits, &[truth]).top_5();
        assert_eq!([top(3), top(4), top(5), top(6)], [Some(1.0), Some(1.0), Some(0.0), Some(0.0)]);
        // The first of equal logits is the prediction.
        let tied = classified(6, &[0.0, 7.0, 7.0, 0.0, 0.0, 0.0], &[2]);
        assert_eq!((tied.count(2, 1), tied.accuracy(), tied.top_5()), (1, 0.0, Some(1.0)));
    }

    #[test]
    fn outputs_that_are_no_scores_are_left_out() {
        let scores = classified(3, &[f32::NAN, 1.0, 0.0, 0.0, 1.0, f32::NAN], &[0, 2]);
        assert_eq!(scores.accuracy(), 1.0, "NaN is the largest in the total order");
        let mut scores = Scores::of(&TargetSpec::Class { count: 3 }).expect("scores");
        scores.add(&[1.0, 2.0], &Targets::Classes(vec![0]));
        scores.add(&[1.0, 2.0, 3.0], &Targets::Values { data: vec![1.0], features: 1 });
        assert_eq!(scores, Scores::of(&TargetSpec::Class { count: 3 }).expect("scores"));
        assert_eq!(Scores::of(&TargetSpec::Class { count: 5000 }), None);
    }

    #[test]
    fn errors_are_those_of_a_hand_calculation() {
        let mut scores = Scores::of(&TargetSpec::Values { features: 2 }).expect("scores");
        let targets = Targets::Values { data: vec![1.0, 10.0, 2.0, 10.0, 3.0, 10.0], features: 2 };
        scores.add(&[1.5, 10.0, 2.0, 10.0, 2.0, 10.0], &targets);
        let sums = scores.sums();
        let Scores::Values(scores) = scores.with_sums(&sums) else { unreachable!() };
        assert_eq!(scores.mae(), 1.5 / 6.0);
        assert_eq!(scores.rmse(), (1.25f64 / 6.0).sqrt());
        // 1 − 1.25/2 for the first, and all outputs are right for the second, whose targets are equal.
        assert_eq!(scores.r2(), (0.375 + 1.0) / 2.0);
    }
}
