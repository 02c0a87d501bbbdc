use oomph_runs::Ended;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU8, Ordering::SeqCst},
};

/// Asks a training to end after its step, or to save, from a signal handler or another thread.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    shared: Arc<StopState>,
}

#[derive(Debug, Default)]
struct StopState {
    reason: AtomicU8,
    save: AtomicBool,
    timeline: AtomicBool,
}

/// Why a training was asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// SIGINT: someone pressed Ctrl-C.
    Interrupt = 1,
    /// SIGTERM: the system or a scheduler wants the process gone.
    Terminate = 2,
}

impl Stop {
    /// No request yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks the training to finish its step, save and end. The first reason counts.
    pub fn request(&self, reason: StopReason) {
        // The first reason stays.
        let _ = self.shared.reason.compare_exchange(0, reason as u8, SeqCst, SeqCst);
    }

    /// Asks the training to save after its step and continue.
    pub fn request_save(&self) {
        self.shared.save.store(true, SeqCst);
    }

    /// Asks the training to write the timeline of its memory after its step and continue.
    pub fn request_timeline(&self) {
        self.shared.timeline.store(true, SeqCst);
    }

    /// The reason to end, if one was given.
    pub fn reason(&self) -> Option<StopReason> {
        match self.shared.reason.load(SeqCst) {
            1 => Some(StopReason::Interrupt),
            2 => Some(StopReason::Terminate),
            _ => None,
        }
    }

    /// Whether a timeline was asked for since the last call.
    pub(crate) fn take_timeline(&self) -> bool {
        self.shared.timeline.swap(false, SeqCst)
    }

    /// Whether a save was asked for since the last call.
    pub(crate) fn take_save(&self) -> bool {
        self.shared.save.swap(false, SeqCst)
    }
}
impl From<StopReason> for Ended {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::Interrupt => Self::Interrupted,
            StopReason::Terminate => Self::Terminated,
        }
    }
}
