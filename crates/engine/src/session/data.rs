use std::fmt;

use oomph_config::Sharing;
use oomph_core::{Split, on_device};
use oomph_data::{SampleOrder, sampling::Sampling};
use oomph_memory::record::{self, StepKind};
use serde::{Deserialize, Serialize};

use super::Session;

/// How an epoch is divided into batches. If one of these fields changes, a position in an epoch is no longer valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochCut {
    /// Samples of a batch.
    pub batch: usize,
    /// Samples of the training set.
    pub samples: usize,
    /// Whether samples keep the order of the data, so that a recurrent model carries its state.
    pub carry: bool,
    /// Whether samples are drawn from balanced classes.
    #[serde(default, skip_serializing_if = "is_false")]
    pub balanced: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl EpochCut {
    /// How an epoch of the session is divided.
    pub fn of(session: &Session) -> Self {
        Self {
            batch: session.config.train.batch,
            samples: session.source.len(Split::Train),
            carry: session.source.is_continuous(),
            balanced: session.loader.sampling != Sampling::Shuffled,
        }
    }
}

impl fmt::Display for EpochCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match (self.carry, self.balanced) {
            (true, _) => "in the order of the data",
            (false, true) => "drawn from balanced classes",
            (false, false) => "shuffled",
        };
        write!(f, "{} samples, {order}, in batches of {}", self.samples, self.batch)
    }
}

/// Samples of the largest batch in training: the configured batch, or the whole training set if that is smaller.
pub fn largest_train_batch(session: &Session) -> usize {
    session.config.train.batch.min(session.source.len(Split::Train).max(1))
}

/// The order in which this rank sees its part of the training set.
pub fn train_order(session: &Session) -> SampleOrder {
    let train = &session.config.train;
    let samples = session.source.len(Split::Train);
    let order = match session.source.is_continuous() {
        true => SampleOrder::streams(samples, train.batch, session.loader.last_batch),
        false => match &session.loader.sampling {
            Sampling::Shuffled => {
                SampleOrder::train(samples, train.batch, train.seed, session.loader.last_batch)
            }
            Sampling::Balanced(members) => SampleOrder::balanced(
                members.clone(),
                samples,
                train.batch,
                train.seed,
                session.loader.last_batch,
            ),
        },
    };
    order.shard(session.replicas.rank(), session.replicas.world_size())
}

/// Optimizer steps of an epoch.
pub fn steps_per_epoch(session: &Session) -> usize {
    train_order(session).batches()
}

/// Optimizer steps of the session's whole run.
pub fn steps(session: &Session) -> usize {
    let length = session.config.train.length;
    let by_epochs = length.epochs.map(|epochs| epochs.saturating_mul(steps_per_epoch(session)));
    // The configuration sets at least one of both.
    by_epochs.into_iter().chain(length.steps).min().unwrap_or(0)
}

/// Marks the start of an optimizer step or an evaluation batch on each device that takes part.
pub fn mark_step(session: &Session, number: u64, kind: StepKind) {
    match (&session.config.device.sharing, kind) {
        // The coordinator evaluates alone.
        (Sharing::Dp { .. }, StepKind::Train) | (Sharing::Model { .. } | Sharing::Pipeline { .. }, _) => {
            let devices = 0..session.config.device.devices.len();
            devices.for_each(|device| on_device(device, || record::mark_step(number, kind)));
        }
        _ => record::mark_step(number, kind),
    }
}
