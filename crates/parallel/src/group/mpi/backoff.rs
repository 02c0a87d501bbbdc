use std::{
    thread,
    time::{Duration, Instant},
};

/// MPI moves large messages on only while it is asked about them, so for this long it is asked again and again.
const BUSY: Duration = Duration::from_micros(200);
const LONGEST: Duration = Duration::from_millis(1);

/// How long to wait before looking again: not at all at first, then a tenth of the time that nothing came, so that what
/// comes after a long time is seen late by no more than that, and a rank that waits leaves the cores to those that work.
pub(super) struct Backoff {
    since: Instant,
}

impl Backoff {
    pub(super) fn new() -> Self {
        Self { since: Instant::now() }
    }

    /// For how long nothing came.
    pub(super) fn idle(&self) -> Duration {
        self.since.elapsed()
    }

    pub(super) fn pause(&self) {
        let idle = self.idle();
        if idle < BUSY {
            thread::yield_now();
        } else {
            thread::sleep((idle / 10).min(LONGEST));
        }
    }
}
