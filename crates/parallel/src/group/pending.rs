use std::{
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
    time::{Duration, Instant},
};

use super::GroupError;

/// The values of a collective, with its times.
#[derive(Debug)]
pub struct Arrived<T = Vec<f32>> {
    /// The values.
    pub values: T,
    /// The time from the start of the collective until it was complete.
    pub took: Duration,
    /// When it was complete. Collectives complete in the order of starting.
    pub finished: Instant,
    /// The part of `took` in which values were moved and summed. Before it the collective waited for other ranks and for earlier
    /// collectives.
    pub moving: Duration,
    /// How long [`Pending::wait`] blocked. `took - blocked` overlapped with other work of this rank.
    pub blocked: Duration,
}

/// A pending collective of values. Dropping it loses the values; the rank still takes part.
#[derive(Debug)]
#[must_use = "`wait` returns the values"]
pub struct Pending<T = Vec<f32>> {
    started: Instant,
    coming: Receiver<Result<Moved<T>, GroupError>>,
}

/// The values of all ranks, in the order of ranks. Ranks that are threads share them.
pub type Gathered = Arc<[Vec<f32>]>;

/// The answer of the thread that moves values.
#[derive(Debug)]
pub(super) struct Moved<T = Vec<f32>> {
    pub(super) values: T,
    /// When the last rank joined.
    pub(super) met: Instant,
    pub(super) finished: Instant,
}

pub(super) type Answer<T = Vec<f32>> = Sender<Result<Moved<T>, GroupError>>;

impl<T> Pending<T> {
    /// A collective that starts now, with the sender for its answer.
    pub(super) fn new() -> (Answer<T>, Self) {
        let (answer, coming) = channel();
        (answer, Self { started: Instant::now(), coming })
    }

    /// A collective that is complete already.
    pub(super) fn ready(values: T) -> Self {
        let (answer, pending) = Self::new();
        // The receiver is in `pending`.
        _ = answer.send(Ok(Moved { values, met: pending.started, finished: pending.started }));
        pending
    }

    /// Waits for the values.
    ///
    /// # Errors
    /// The group failed before; see [`GroupError`].
    pub fn wait(self) -> Result<Arrived<T>, GroupError> {
        let waits = Instant::now();
        let moved = self.coming.recv().unwrap_or(Err(GroupError::ThreadDied))?;
        Ok(Arrived {
            values: moved.values,
            took: moved.finished.saturating_duration_since(self.started),
            finished: moved.finished,
            moving: moved.finished.saturating_duration_since(moved.met),
            blocked: waits.elapsed(),
        })
    }
}
