use oomph_config::{Change, MicroBatch};
use oomph_trainer::Session;

use crate::numbers::grouped;

/// The size that the search looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The batch.
    Batch,
    /// The micro-batch of a fixed batch.
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

    /// The change that sets a size.
    pub(super) fn change(self, size: usize) -> Change {
        match self {
            Self::Batch => Change::Batch(size),
            Self::MicroBatch => Change::MicroBatch(MicroBatch::Samples(size)),
        }
    }

    /// The smallest possible size: a batch has at least one micro-batch, and one sample per replica.
    pub(super) fn least(self, session: &Session) -> usize {
        match (self, session.config.memory.micro_batch) {
            (Self::MicroBatch, _) => 1,
            (Self::Batch, Some(MicroBatch::Samples(samples))) => samples.max(session.world_size()),
            (Self::Batch, _) => session.world_size(),
        }
    }

    /// The largest possible size with `samples` training samples.
    pub(super) fn most(self, session: &Session, samples: usize) -> usize {
        match self {
            Self::Batch => samples,
            Self::MicroBatch => session.share_of(session.config.train.batch.min(samples)),
        }
    }

    /// Why no size is larger than `most`.
    pub(super) fn capped(self, most: usize) -> String {
        match self {
            Self::Batch => format!("there are only {} training samples", grouped(most)),
            Self::MicroBatch => format!("a device gets only {} samples of the batch", grouped(most)),
        }
    }
}
