use std::{
    sync::mpsc::{Receiver, Sender, channel},
    time::{Duration, Instant},
};

use super::GroupError;

/// A sum over all ranks, and how long it took.
#[derive(Debug)]
pub struct Reduced {
    /// The sums, in the order of the values given.
    pub values: Vec<f32>,
    /// From [`start_all_reduce`](super::Group::start_all_reduce) until the sums were there.
    pub took: Duration,
    /// When the sums were there. What is started one after the other ends one after the other.
    pub finished: Instant,
    /// The part of `took` in which all ranks were there and values were moved and summed. What is before it is waiting:
    /// for other ranks to come, and for collectives that were started earlier.
    pub moving: Duration,
    /// How long [`Pending::wait`] stood still. `took - blocked` was hidden behind what this rank did meanwhile.
    pub blocked: Duration,
}

/// A sum that is under way. Dropping it does not take the rank out of it; the sums are lost.
#[derive(Debug)]
#[must_use = "the sums come by `wait`"]
pub struct Pending {
    started: Instant,
    coming: Receiver<Result<Summed, GroupError>>,
}

/// What the thread that moves values answers.
#[derive(Debug)]
pub(super) struct Summed {
    pub(super) values: Vec<f32>,
    /// When all ranks were there.
    pub(super) met: Instant,
    pub(super) finished: Instant,
}

pub(super) type Answer = Sender<Result<Summed, GroupError>>;

impl Pending {
    /// One that was started just now, and to whom its sums are told.
    pub(super) fn new() -> (Answer, Self) {
        let (answer, coming) = channel();
        (answer, Self { started: Instant::now(), coming })
    }

    /// One that is there already.
    pub(super) fn ready(values: Vec<f32>) -> Self {
        let (answer, pending) = Self::new();
        // The receiver is in `pending`.
        _ = answer.send(Ok(Summed { values, met: pending.started, finished: pending.started }));
        pending
    }

    /// Waits for the sums.
    ///
    /// # Errors
    /// Where the group failed before they were there; see [`GroupError`].
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
