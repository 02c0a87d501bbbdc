//! `train.best`.

use serde::{Deserialize, Serialize};

use crate::section::name_of;

/// A measure of evaluations, by which the best one is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum EvalMetric {
    /// `eval loss`: the mean loss over the held-out set.
    #[default]
    #[serde(rename = "eval loss")]
    Loss,
    /// `eval accuracy`: the share of correct predictions; of tokens, for language models.
    #[serde(rename = "eval accuracy")]
    Accuracy,
    /// `perplexity`: the exponential of the loss of a language model.
    #[serde(rename = "perplexity")]
    Perplexity,
    /// `bits per byte`: the loss of a language model in bits for each byte of the held-out text.
    #[serde(rename = "bits per byte")]
    BitsPerByte,
    /// `top-5 accuracy`: the share of samples whose class is among the five likeliest.
    #[serde(rename = "top-5 accuracy")]
    Top5Accuracy,
    /// `macro f1`: F1, averaged over classes or labels.
    #[serde(rename = "macro f1")]
    MacroF1,
    /// `micro f1`: F1 of all labels together.
    #[serde(rename = "micro f1")]
    MicroF1,
    /// `map`: the average precision of labels, averaged over them.
    #[serde(rename = "map")]
    Map,
    /// `mae`: the mean absolute error of a regression.
    #[serde(rename = "mae")]
    Mae,
    /// `rmse`: the root of the mean squared error of a regression.
    #[serde(rename = "rmse")]
    Rmse,
    /// `r2`: the coefficient of determination R² of a regression.
    #[serde(rename = "r2")]
    R2,
}

impl EvalMetric {
    /// All measures with their names, as `train.best` has them.
    pub(crate) const NAMES: [(&'static str, Self); 11] = [
        ("eval loss", Self::Loss),
        ("eval accuracy", Self::Accuracy),
        ("perplexity", Self::Perplexity),
        ("bits per byte", Self::BitsPerByte),
        ("top-5 accuracy", Self::Top5Accuracy),
        ("macro f1", Self::MacroF1),
        ("micro f1", Self::MicroF1),
        ("map", Self::Map),
        ("mae", Self::Mae),
        ("rmse", Self::Rmse),
        ("r2", Self::R2),
    ];

    /// As `train.best` has it.
    pub fn name(self) -> &'static str {
        name_of(&Self::NAMES, &self)
    }

    /// Whether larger values are better.
    pub fn is_maximized(self) -> bool {
        match self {
            Self::Accuracy | Self::Top5Accuracy | Self::MacroF1 | Self::MicroF1 | Self::Map | Self::R2 => {
                true
            }
            Self::Loss | Self::Perplexity | Self::BitsPerByte | Self::Mae | Self::Rmse => false,
        }
    }

    /// By how much `value` is better than `other`; negative if it is worse.
    pub fn gain(self, value: f64, other: f64) -> f64 {
        if self.is_maximized() { value - other } else { other - value }
    }

    /// Whether the values are shares, from 0 to 1.
    pub fn is_share(self) -> bool {
        matches!(self, Self::Accuracy | Self::Top5Accuracy | Self::MacroF1 | Self::MicroF1 | Self::Map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkpoints_have_the_names_of_the_configuration() {
        for (name, metric) in EvalMetric::NAMES {
            assert_eq!(serde_json::to_value(metric).expect("a name"), name);
            assert_eq!(metric.name(), name);
        }
    }

    #[test]
    fn a_higher_accuracy_and_a_lower_loss_are_gains() {
        assert_eq!(EvalMetric::Accuracy.gain(0.75, 0.5), 0.25);
        assert_eq!(EvalMetric::Loss.gain(0.75, 0.5), -0.25);
    }
}
