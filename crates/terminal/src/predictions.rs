//! Predictions of a model: classes, labels or values, from its outputs.

use oomph_core::TargetSpec;
use oomph_data::SourceRecord;
use serde::Serialize;

use crate::numbers::{decimal, percent};

/// The prediction for one input.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The most likely classes, in descending order.
    Classes(Vec<Class>),
    /// All labels, the most likely first.
    Labels(Vec<Label>),
    /// The outputs of a regression model.
    Values(Vec<f32>),
}

/// A label with its probability.
#[derive(Debug, Serialize)]
pub struct Label {
    label: String,
    #[serde(skip)]
    is_named: bool,
    index: usize,
    probability: f64,
    /// Whether the probability is at least ½.
    predicted: bool,
}

/// A class with its probability.
#[derive(Debug, Serialize)]
pub struct Class {
    class: String,
    #[serde(skip)]
    is_named: bool,
    index: usize,
    probability: f64,
}

impl Answer {
    /// Interprets outputs by the target of the source; keeps `top` classes, and all labels.
    pub fn new(outputs: Vec<f32>, source: &SourceRecord, top: usize) -> Self {
        match source.spec.target {
            TargetSpec::Class { .. } => Self::Classes(classes(&outputs, source, top)),
            TargetSpec::Labels { .. } => Self::Labels(labels(&outputs, source)),
            TargetSpec::Values { .. } | TargetSpec::Tokens { .. } => Self::Values(outputs),
        }
    }

    /// In one line.
    pub fn text(&self) -> String {
        let parts: Vec<String> = match self {
            Self::Classes(classes) => {
                let said = |it: &Class| {
                    // A bare number beside a percentage would be read as a value.
                    let class = if it.is_named { it.class.clone() } else { format!("class {}", it.class) };
                    format!("{class} {}", percent(it.probability))
                };
                classes.iter().map(said).collect()
            }
            Self::Labels(labels) => {
                let said = |it: &Label| {
                    let label = if it.is_named { it.label.clone() } else { format!("label {}", it.label) };
                    let mark = if it.predicted { " ✓" } else { "" };
                    format!("{label} {}{mark}", percent(it.probability))
                };
                labels.iter().map(said).collect()
            }
            Self::Values(values) => values.iter().map(|value| decimal(f64::from(*value))).collect(),
        };
        parts.join(", ")
    }
}

fn classes(logits: &[f32], source: &SourceRecord, top: usize) -> Vec<Class> {
    let probabilities = softmax(logits);
    let class = |index: usize| {
        let (class, is_named) = name(index, source);
        Class { class, is_named, index, probability: probabilities[index] }
    };
    descending(logits).into_iter().take(top).map(class).collect()
}

fn labels(logits: &[f32], source: &SourceRecord) -> Vec<Label> {
    let label = |index: usize| {
        let (label, is_named) = name(index, source);
        let probability = 1.0 / (1.0 + (-f64::from(logits[index])).exp());
        Label { label, is_named, index, probability, predicted: probability >= 0.5 }
    };
    descending(logits).into_iter().map(label).collect()
}

/// The name of a class or label, or its index, and whether it is more than a number.
fn name(index: usize, source: &SourceRecord) -> (String, bool) {
    let name = source.class_names.as_ref().and_then(|names| names.get(index));
    let name = name.cloned().unwrap_or_else(|| index.to_string());
    let is_named = name.parse::<f64>().is_err();
    (name, is_named)
}

/// The indices of logits from the greatest on. The order is by logits, which still differ where probabilities round to equal,
/// and stable.
fn descending(logits: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|one, other| logits[*other].total_cmp(&logits[*one]));
    order
}

/// Softmax in 64 bits, so that the sum is 1 to many digits.
fn softmax(logits: &[f32]) -> Vec<f64> {
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f64> =
        logits.iter().map(|logit| (f64::from(*logit) - f64::from(highest)).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

#[cfg(test)]
mod tests {
    use oomph_core::{InputSpec, SampleSpec};

    use super::*;

    fn source(target: TargetSpec, class_names: Option<&[&str]>) -> SourceRecord {
        let spec = SampleSpec { input: InputSpec::Vector { features: 1 }, target };
        let class_names = class_names.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        SourceRecord {
            spec,
            class_names,
            images: None,
            level: None,
            tokenizer: None,
            statistics: None,
            columns: None,
            digest: None,
        }
    }

    #[test]
    fn the_most_likely_classes_come_first_with_names() {
        let source = source(TargetSpec::Class { count: 3 }, Some(&["cat", "dog", "eel"]));
        // Probabilities 0.2, 0.6, 0.2, from logits whose exponential overflows.
        let outputs = vec![1000.0, 1000.0 + 3.0f32.ln(), 1000.0];
        let answer = Answer::new(outputs, &source, 2);
        assert_eq!(answer.text(), "dog 60.0 %, cat 20.0 %");
    }

    #[test]
    fn classes_without_names_have_their_index() {
        let source = source(TargetSpec::Class { count: 2 }, None);
        assert_eq!(Answer::new(vec![0.0, 0.0], &source, 5).text(), "class 0 50.0 %, class 1 50.0 %");
    }

    #[test]
    fn labels_have_probabilities_of_their_own_and_a_mark_from_one_half_on() {
        let spec = TargetSpec::Labels { count: 3 };
        let outputs = vec![-3.0f32.ln(), 200.0, 0.0];
        let answer = Answer::new(outputs.clone(), &source(spec.clone(), Some(&["cat", "dog", "eel"])), 1);
        assert_eq!(answer.text(), "dog 100.0 % ✓, eel 50.0 % ✓, cat 25.0 %");
        let unnamed = Answer::new(outputs, &source(spec, None), 1);
        assert_eq!(unnamed.text(), "label 1 100.0 % ✓, label 2 50.0 % ✓, label 0 25.0 %");
    }

    #[test]
    fn regression_outputs_are_shown_unchanged() {
        let source = source(TargetSpec::Values { features: 2 }, None);
        assert_eq!(Answer::new(vec![0.5, -2.0], &source, 1).text(), "0.5000, -2.0000");
    }
}
