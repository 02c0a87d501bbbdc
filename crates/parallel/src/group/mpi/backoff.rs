use std::{
    thread,
    time::{Duration, Instant},
};

const LONGEST: Duration = Duration::from_millis(1);
/// Between two looks there is less, unless this process was stopped, or its machine suspended.
const STOPPED: Duration = Duration::from_secs(1);

/// How long to wait before looking again: not at all at first, then a tenth of the time that nothing came, so that what
/// comes after a long time is seen late by no more than that, and a rank that waits leaves the cores to those that work.
#[derive(Debug)]
pub(super) struct Backoff {
    since: Instant,
    looked: Instant,
    busy: Duration,
}

impl Backoff {
    /// For ranks that come when they come.
    pub(super) fn for_ranks() -> Self {
        Self::busy_for(Duration::from_micros(200))
    }

    /// For values that are moving. Where no network card and no system call moves them at a stroke, MPI moves a little
    /// each time it is asked: with pauses from 200 µs on, 100 MB between two processes took 985 ms in place of 124 ms.
    pub(super) fn for_values() -> Self {
        Self::busy_for(Duration::from_millis(20))
    }

    fn busy_for(busy: Duration) -> Self {
        let now = Instant::now();
        Self { since: now, looked: now, busy }
    }

    /// Something came.
    pub(super) fn reset(&mut self) {
        self.since = Instant::now();
        self.looked = self.since;
    }

    /// For how long nothing came while this process looked. The time in which it was stopped itself is not held against
    /// the others.
    pub(super) fn idle(&mut self) -> Duration {
        if self.looked.elapsed() > STOPPED {
            self.since = Instant::now();
        }
        self.looked = Instant::now();
        self.since.elapsed()
    }

    pub(super) fn pause(&self) {
        match self.since.elapsed().checked_sub(self.busy) {
            None => thread::yield_now(),
            Some(over) => thread::sleep((over / 10).min(LONGEST)),
        }
    }
}
