//! A panic is never an answer: it is told as what it is, a bug, and where to report it; or a failure of the device or
//! the system, where its message is known.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    panic::{self, PanicHookInfo},
    sync::{Mutex, PoisonError},
};

use oomph_trainer::{Explanation, explain, is_after_a_failure, note_panic, without_backtrace};

use crate::notices;

/// A panic that nothing caught.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {} ({place})", self.kind(), without_backtrace(message))]
pub(crate) struct Bug {
    message: String,
    place: String,
    backtrace: Option<String>,
    /// The panic of another thread that this one only follows.
    #[source]
    cause: Option<Box<Self>>,
}

/// The panics of this process that are worth telling.
struct Panics {
    /// The first whose message is known: Burn's thread of the device panics, and goes on.
    known: Option<Bug>,
    last: Option<Bug>,
}

static PANICS: Mutex<Panics> = Mutex::new(Panics { known: None, last: None });

/// From now on panics are kept instead of printed: those that are caught, as of a decoder on a damaged image, become
/// errors of their own, and any other is told by [`last_panic`].
pub(crate) fn record_panics() {
    panic::set_hook(Box::new(|info| {
        let bug = Bug::of(info);
        note_panic(std::thread::current().name(), &bug.message);
        let mut panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
        if panics.known.is_none() && !is_after_a_failure(&bug.message) && bug.explanation().is_some() {
            panics.known = Some(bug.clone());
        }
        panics.last = Some(bug);
    }));
}

/// The last panic of this process, with the one that it follows.
pub(crate) fn last_panic() -> Bug {
    let mut panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
    let last = panics.last.take().unwrap_or_else(|| Bug {
        message: "a panic".into(),
        place: "at no known place".into(),
        backtrace: None,
        cause: None,
    });
    let cause = if is_after_a_failure(&last.message) { panics.known.take().map(Box::new) } else { None };
    Bug { cause, ..last }
}

/// The first panic of this process whose message is known, as of a thread that went on after it.
pub(crate) fn known_panic() -> Option<Bug> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner).known.take()
}

impl Bug {
    fn of(info: &PanicHookInfo<'_>) -> Self {
        // Captured only where RUST_BACKTRACE asks for it.
        let backtrace = Backtrace::capture();
        let captured = backtrace.status() == BacktraceStatus::Captured;
        Self {
            message: info.payload_as_str().unwrap_or("a panic without a message").trim().to_owned(),
            place: info.location().map_or_else(|| "at no known place".into(), |place| format!("at {place}")),
            backtrace: captured.then(|| backtrace.to_string()),
            cause: None,
        }
    }

    /// What its message, or that of the panic which it follows, means.
    pub(crate) fn explanation(&self) -> Option<Explanation> {
        let cause = self.cause.as_ref().and_then(|cause| explain(&cause.message));
        cause.or_else(|| explain(&self.message))
    }

    fn kind(&self) -> &'static str {
        if self.explanation().is_some() { "unexpected failure" } else { "internal error" }
    }

    pub(crate) fn hint(&self) -> String {
        if let Some(explanation) = self.explanation() {
            return explanation.hint.to_owned();
        }
        "this is a bug in oomph, or in a model, data source or task of your own; please report it with the command \
         and with what RUST_BACKTRACE=1 shows"
            .to_owned()
    }

    pub(crate) fn show_backtrace(&self) {
        if let Some(backtrace) = &self.backtrace {
            notices::write_line(backtrace);
        }
    }
}
