use oomph_config::MicroBatch;
use oomph_trainer::Session;

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

    /// The smallest that may be: a batch has a micro-batch at least, and of replicas a sample for each.
    pub(super) fn least(self, session: &Session) -> usize {
        match (self, session.config.memory.micro_batch) {
            (Self::MicroBatch, _) => 1,
            (Self::Batch, Some(MicroBatch::Samples(samples))) => samples.max(session.world_size()),
            (Self::Batch, _) => session.world_size(),
        }
    }

    /// The largest that there can be.
    pub(super) fn most(self, session: &Session, samples: usize) -> usize {
        match self {
            Self::Batch => samples,
            Self::MicroBatch => session.share_of(session.config.train.batch.min(samples)),
        }
    }

    /// Why there are no larger ones.
    pub(super) fn capped(self, there_are: usize) -> String {
        match self {
            Self::Batch => format!("there are only {} samples to train on", grouped(there_are)),
            Self::MicroBatch => {
                format!("a micro-batch is at most what a device has of the batch, {}", grouped(there_are))
            }
        }
    }
}
