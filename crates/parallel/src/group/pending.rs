use std::{
    sync::mpsc::{Receiver, Sender, channel},
    time::{Duration, Instant},
};

use super::GroupError;

/// A sum over all ranks, with its times.
#[derive(Debug)]
pub struct Reduced {
    /// The sums, in the order of the values given.
    pub values: Vec<f32>,
    /// The time from [`start_all_reduce`](super::Group::start_all_reduce) until the sums were complete.
    pub took: Duration,
    /// When the sums were complete. Sums complete in the order of starting.
    pub finished: Instant,
    /// The part of `took` in which values were moved and summed. Before it the sum waited for other ranks and for earlier
    /// collectives.
    pub moving: Duration,
    /// How long [`Pending::wait`] blocked. `took - blocked` overlapped with other work of this rank.
    pub blocked: Duration,
}

/// A pending sum. Dropping it loses the sums; the rank still takes part.
#[derive(Debug)]
#[must_use = "`wait` returns the sums"]
pub struct Pending {
    started: Instant,
    coming: Receiver<Result<Summed, GroupError>>,
}

/// The answer of the thread that moves values.
#[derive(Debug)]
pub(super) struct Summed {
    pub(super) values: Vec<f32>,
    /// When the last rank joined.
    pub(super) met: Instant,
    pub(super) finished: Instant,
}

pub(super) type Answer = Sender<Result<Summed, GroupError>>;

impl Pending {
    /// A sum that starts now, with the sender for its answer.
    pub(super) fn new() -> (Answer, Self) {
        let (answer, coming) = channel();
        (answer, Self { started: Instant::now(), coming })
    }

    /// A sum that is complete already.
    pub(super) fn ready(values: Vec<f32>) -> Self {
        let (answer, pending) = Self::new();
        // The receiver is in `pending`.
        _ = answer.send(Ok(Summed { values, met: pending.started, finished: pending.started }));
        pending
    }

    /// Waits for the sums.
    ///
    /// # Errors
    /// The group failed before; see [`GroupError`].
    pub fn wait(self) -> Result<Reduced, GroupError> {
        let waits = Instant::now();
        let summed = self.coming.recv().unwrap_or(Err(GroupError::ThreadDied))?;
        Ok(Reduced {
            values: summed.values,
            took: summed.finished.saturating_duration_since(self.started),
            finished: summed.finished,
            moving: summed.finished.saturating_duration_since(summed.met),
            blocked: waits.elapsed(),
        })
    }
}
