//! The scores of any kind of target.

use oomph_core::TargetSpec;
use oomph_data::Targets;
use oomph_engine::{EngineError, ranks::Replicas};

use crate::{classes::ClassScores, labels::LabelScores, values::ValueScores};

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

impl Scores {
    /// Whether there are scores for a kind of target: not for tokens, whose perplexity says it, and not for more than 4,096
    /// classes or labels.
    pub fn exist_for(target: &TargetSpec) -> bool {
        match target {
            TargetSpec::Class { count } | TargetSpec::Labels { count } => *count <= MOST_CLASSES,
            TargetSpec::Values { .. } => true,
            TargetSpec::Tokens { .. } => false,
        }
    }

    /// Empty scores for a kind of target; `None` where none [exist](Self::exist_for).
    pub fn of(target: &TargetSpec) -> Option<Self> {
        match target {
            _ if !Self::exist_for(target) => None,
            TargetSpec::Class { count } => Some(Self::Classes(ClassScores::new(*count))),
            TargetSpec::Labels { count } => Some(Self::Labels(LabelScores::new(*count))),
            TargetSpec::Values { features } => Some(Self::Values(ValueScores::new(*features))),
            TargetSpec::Tokens { .. } => None,
        }
    }

    /// Adds a batch: its outputs, sample after sample, and its targets. Outputs of another shape are left out.
    pub fn add(&mut self, outputs: &[f32], targets: &Targets) {
        match (self, targets) {
            (Self::Classes(scores), Targets::Classes(classes)) => scores.add(outputs, classes),
            (Self::Labels(scores), Targets::Labels { data, .. }) => scores.add(outputs, data),
            (Self::Values(scores), Targets::Values { data, .. }) => scores.add(outputs, data),
            _ => {}
        }
    }

    /// All sums in order, to add those of other ranks.
    pub fn sums(&self) -> Vec<f64> {
        match self {
            Self::Classes(scores) => scores.sums(),
            Self::Labels(scores) => scores.sums(),
            Self::Values(scores) => scores.sums(),
        }
    }

    /// The scores with these [`sums`](Self::sums).
    pub fn with_sums(mut self, sums: &[f64]) -> Self {
        let mut sums = sums.iter().copied();
        let next = || sums.next().unwrap_or(0.0);
        match &mut self {
            Self::Classes(scores) => scores.set(next),
            Self::Labels(scores) => scores.set(next),
            Self::Values(scores) => scores.set(next),
        }
        self
    }

    /// The scores of the samples of all ranks. Each rank calls it.
    ///
    /// # Errors
    /// If another rank failed.
    pub fn ranked(self, replicas: &Replicas) -> Result<Self, EngineError> {
        let mut summed = self;
        // The scores of many classes have many sums.
        if !replicas.is_alone() {
            let sums = replicas.sum(&summed.sums())?;
            summed = summed.with_sums(&sums);
        }
        Ok(match summed {
            Self::Labels(scores) => Self::Labels(scores.ranked(replicas)?),
            scores => scores,
        })
    }
}
