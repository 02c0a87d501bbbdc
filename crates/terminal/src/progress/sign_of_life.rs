//! Lines for whoever waits for a slow step and sees none.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{notices::Notices, numbers::elapsed};

/// Nobody waits longer for a line.
const SILENCE: Duration = Duration::from_secs(20);

/// A thread that writes what is being done after [`SILENCE`] without a line, however long a single step takes. It ends with
/// this value.
pub(super) struct SignOfLife {
    shared: Arc<Shared>,
    writer: Option<JoinHandle<()>>,
}

struct Shared {
    life: Mutex<Life>,
    changed: Condvar,
}

impl Shared {
    fn life(&self) -> MutexGuard<'_, Life> {
        // No holder of the lock can panic halfway.
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Life {
    /// When the last line was written.
    line: Instant,
    /// What is being done, and since when.
    doing: Option<(String, Instant)>,
    is_over: bool,
}

impl Life {
    /// How long nothing has to be said at `now`.
    fn rest(&self, now: Instant) -> Duration {
        SILENCE.saturating_sub(now.duration_since(self.line))
    }

    /// The line that is due at `now`.
    fn due(&self, now: Instant) -> Option<String> {
        let (doing, since) = self.doing.as_ref().filter(|_| self.rest(now).is_zero())?;
        let took = now.duration_since(*since);
        // A quick step is one of many since the last line.
        let is_slow = took >= SILENCE / 2;
        Some(if is_slow {
            format!("{doing}, for {} so far", elapsed(took.as_secs_f64()))
        } else {
            doing.clone()
        })
    }
}

impl SignOfLife {
    /// Starts the thread. Where the system refuses one, slow steps stay silent.
    pub(super) fn start() -> Self {
        let life = Life { line: Instant::now(), doing: None, is_over: false };
        let shared = Arc::new(Shared { life: Mutex::new(life), changed: Condvar::new() });
        let of_thread = shared.clone();
        let writer = thread::Builder::new().name("sign of life".to_owned()).spawn(move || write(&of_thread));
        Self { shared, writer: writer.ok() }
    }

    /// A line was written.
    pub(super) fn line(&self) {
        self.shared.life().line = Instant::now();
    }

    /// From now on this is being done; `None`: nothing that one waits for.
    pub(super) fn doing(&self, what: Option<String>) {
        self.shared.life().doing = what.map(|what| (what, Instant::now()));
    }
}

impl Drop for SignOfLife {
    fn drop(&mut self) {
        self.shared.life().is_over = true;
        self.shared.changed.notify_all();
        if let Some(writer) = self.writer.take() {
            // It neither panics nor returns a value.
            let _ = writer.join();
        }
    }
}

fn write(shared: &Shared) {
    let mut life = shared.life();
    while !life.is_over {
        let now = Instant::now();
        if let Some(line) = life.due(now) {
            Notices::default().line(line);
            life.line = now;
        }
        // Without anything to say it looks again later.
        let rest = Some(life.rest(now)).filter(|rest| !rest.is_zero()).unwrap_or(SILENCE);
        life = shared.changed.wait_timeout(life, rest).unwrap_or_else(PoisonError::into_inner).0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_broken_by_what_is_being_done() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut life = Life { line: start, doing: None, is_over: false };
        assert_eq!(life.due(after(60)), None, "nothing is being done");
        life.doing = Some(("step 2/9".to_owned(), start));
        assert_eq!((life.due(after(19)), life.rest(after(19))), (None, Duration::from_secs(1)));
        assert_eq!(life.due(after(25)).as_deref(), Some("step 2/9, for 25.0 s so far"));
        life.line = after(25);
        assert_eq!(life.due(after(44)), None);
        assert_eq!(life.due(after(95)).as_deref(), Some("step 2/9, for 1:35 so far"));
        // One of many quick steps.
        life.doing = Some(("step 7/9".to_owned(), after(50)));
        assert_eq!(life.due(after(51)).as_deref(), Some("step 7/9"));
    }

    #[test]
    fn it_ends_at_once() {
        let life = SignOfLife::start();
        life.doing(Some("step 1/2".to_owned()));
        life.line();
        let begun = Instant::now();
        drop(life);
        assert!(begun.elapsed() < SILENCE / 2);
    }
}
