use oomph_config::{Config, MicroBatch};

use crate::numbers::grouped;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The batch.
    Batch,
    /// The micro-batch of a batch that stays.
    MicroBatch,
}

impl Subject {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::MicroBatch => "micro-batch",
        }
    }

    /// `batch 64`.
    pub(super) fn label(self, size: usize) -> String {
        format!("{} {}", self.name(), grouped(size))
    }

    /// What is set for one of a size.
    pub(super) fn settings(self, size: usize) -> Vec<(String, String)> {
        let set = |key: &str, value: usize| (key.to_owned(), value.to_string());
        match self {
            Self::Batch => vec![set("train.batch", size)],
            Self::MicroBatch => vec![set("memory.micro_batch", size)],
        }
    }

    /// The smallest that may be: a batch has a micro-batch at least.
    pub(super) fn least(self, config: &Config) -> usize {
        match (self, config.memory.micro_batch) {
            (Self::Batch, Some(MicroBatch::Samples(samples))) => samples,
            _ => 1,
        }
    }

    /// The largest that there can be.
    pub(super) fn most(self, config: &Config, samples: usize) -> usize {
        match self {
            Self::Batch => samples,
            Self::MicroBatch => config.train.batch.min(samples),
        }
    }

    /// Why there are no larger ones.
    pub(super) fn capped(self, there_are: usize) -> String {
        match self {
            Self::Batch => format!("there are only {} samples to train on", grouped(there_are)),
            Self::MicroBatch => format!("a micro-batch is at most the batch of {}", grouped(there_are)),
        }
    }
}
