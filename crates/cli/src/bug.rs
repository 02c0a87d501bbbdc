//! A panic is never an answer: it is told as what it is, a bug, and where to report it.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    panic::{self, PanicHookInfo},
    sync::{Mutex, PoisonError},
};

use crate::notices;

/// A panic that nothing caught.
#[derive(Debug, thiserror::Error)]
#[error("internal error: {message} ({place})")]
pub(crate) struct Bug {
    message: String,
    place: String,
    backtrace: Option<String>,
}

static LAST: Mutex<Option<Bug>> = Mutex::new(None);

/// From now on panics are kept instead of printed: those that are caught, as of a decoder on a damaged image, become
/// errors of their own, and any other is told by [`last_panic`].
pub(crate) fn record_panics() {
    panic::set_hook(Box::new(|info| {
        let bug = Bug::of(info);
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(bug);
    }));
}

/// The last panic of this process.
pub(crate) fn last_panic() -> Bug {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).take();
    last.unwrap_or_else(|| Bug {
        message: "a panic".into(),
        place: "at no known place".into(),
        backtrace: None,
    })
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
        }
    }

    pub(crate) fn hint(&self) -> String {
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
