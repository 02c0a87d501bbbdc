use std::fmt;

use serde::{Deserialize, Serialize};

/// Training or evaluation. It decides whether a layer drops units and which statistics it normalises with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Forward for a training step.
    Train,
    /// Forward for evaluation or prediction.
    Eval,
}

/// A part of a data source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// The training data.
    Train,
    /// The data held out for evaluation.
    Test,
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Train => "train",
            Self::Test => "test",
        })
    }
}

/// The input of one sample, without the batch dimension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InputSpec {
    /// An image of `[channels, height, width]` floats.
    Image {
        /// Number of channels.
        channels: usize,
        /// Number of rows.
        height: usize,
        /// Number of columns.
        width: usize,
    },
    /// A sequence of `[steps, features]` floats.
    Sequence {
        /// Number of time steps.
        steps: usize,
        /// Number of features at each step.
        features: usize,
    },
    /// A vector of `[features]` floats.
    Vector {
        /// Number of features.
        features: usize,
    },
    /// A sequence of `[steps]` token indices.
    Tokens {
        /// Number of time steps.
        steps: usize,
        /// Number of distinct tokens; every index is below it.
        vocabulary: usize,
    },
}

impl InputSpec {
    /// The shape of one sample, without the batch dimension.
    pub fn shape(&self) -> Vec<usize> {
        match *self {
            Self::Image { channels, height, width } => vec![channels, height, width],
            Self::Sequence { steps, features } => vec![steps, features],
            Self::Vector { features } => vec![features],
            Self::Tokens { steps, .. } => vec![steps],
        }
    }

    /// The number of elements of one sample.
    pub fn elements(&self) -> usize {
        self.shape().iter().product()
    }
}

impl InputSpec {
    /// The tokens of a sample; `None` if it has none.
    pub fn tokens(&self) -> Option<usize> {
        match self {
            Self::Tokens { steps, .. } => Some(*steps),
            Self::Image { .. } | Self::Sequence { .. } | Self::Vector { .. } => None,
        }
    }
}

impl fmt::Display for InputSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image { channels, height, width } => write!(f, "image {channels}×{height}×{width}"),
            Self::Sequence { steps, features } => {
                write!(f, "sequence of {steps} steps × {features} features")
            }
            Self::Vector { features } => write!(f, "vector of {features} features"),
            Self::Tokens { steps, vocabulary } => write!(f, "{steps} tokens, vocabulary {vocabulary}"),
        }
    }
}

/// The target of one sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TargetSpec {
    /// One class index, below `count`.
    Class {
        /// Number of classes.
        count: usize,
    },
    /// Any number of labels, such as the tags of an image: each index is below `count`.
    Labels {
        /// Number of different labels.
        count: usize,
    },
    /// A vector of `[features]` floats.
    Values {
        /// Number of values.
        features: usize,
    },
    /// One token per time step, such as the next one.
    Tokens {
        /// Number of time steps.
        steps: usize,
        /// Number of distinct tokens; every index is below it.
        vocabulary: usize,
    },
}

impl TargetSpec {
    /// The number of model outputs per sample; for tokens, per token.
    pub fn outputs(&self) -> usize {
        match *self {
            Self::Class { count } | Self::Labels { count } => count,
            Self::Values { features } => features,
            Self::Tokens { vocabulary, .. } => vocabulary,
        }
    }
}

impl fmt::Display for TargetSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Class { count: 1 } => f.write_str("1 class"),
            Self::Class { count } => write!(f, "{count} classes"),
            Self::Labels { count: 1 } => f.write_str("1 label or none"),
            Self::Labels { count } => write!(f, "any of {count} labels"),
            Self::Values { features: 1 } => f.write_str("1 value"),
            Self::Values { features } => write!(f, "{features} values"),
            Self::Tokens { .. } => f.write_str("next-token prediction"),
        }
    }
}

/// The shape of one sample: the agreement between a data source, a model and a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleSpec {
    /// The input of the model.
    pub input: InputSpec,
    /// The target that the output is compared with.
    pub target: TargetSpec,
}
