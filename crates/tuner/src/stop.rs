use std::sync::{
    Arc, Condvar, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering::SeqCst},
};
use std::time::Duration;

/// Asks a running study to pause its trials and end, from a signal handler or another thread.
#[derive(Clone, Debug, Default)]
pub struct TuneStop {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    is_requested: AtomicBool,
    /// How often something happened that a waiting slot may want to know.
    changes: Mutex<u64>,
    changed: Condvar,
}

impl TuneStop {
    /// No request yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks it to end.
    pub fn request(&self) {
        self.shared.is_requested.store(true, SeqCst);
        self.wake();
    }

    /// Whether it was asked to end.
    pub fn is_requested(&self) -> bool {
        self.shared.is_requested.load(SeqCst)
    }

    /// Wakes the slots that wait.
    pub(crate) fn wake(&self) {
        *self.shared.changes.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.shared.changed.notify_all();
    }

    /// Sleeps for a time, or until it is woken.
    pub(crate) fn sleep(&self, time: Duration) {
        let changes = self.shared.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *changes;
        let is_unchanged = |changes: &mut u64| *changes == before;
        drop(self.shared.changed.wait_timeout_while(changes, time, is_unchanged));
    }
}
