//! Panics as errors: a bug with a request to report it, or a known failure of the device or the system.

use std::{
    any::Any,
    backtrace::{Backtrace, BacktraceStatus},
    panic::{self, PanicHookInfo},
    sync::{Mutex, PoisonError},
};

use oomph_doctor::{Explanation, explain, is_after_a_failure, without_backtrace};
use oomph_engine::device_failure;
use oomph_trainer::TrainError;

use crate::{error::CliError, stream};

/// A panic that no code caught.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {} ({location})", self.kind(), without_backtrace(message))]
pub struct Bug {
    message: String,
    location: String,
    backtrace: Option<String>,
    /// The earlier panic of another thread that caused this one.
    #[source]
    cause: Option<Box<Self>>,
}

/// The panics of this process that an error message may need.
struct Panics {
    /// The first panic with a known message. Burn's device thread survives its panics.
    known: Option<Bug>,
    last: Option<Bug>,
}

static PANICS: Mutex<Panics> = Mutex::new(Panics { known: None, last: None });

/// Records panics from now on instead of printing them.
///
/// A caught panic becomes an error where it was caught, such as a decoder's on a damaged image. [`last_panic`] returns
/// any other.
pub fn record_panics() {
    panic::set_hook(Box::new(|info| {
        let bug = Bug::of(info);
        device_failure::note_panic(std::thread::current().name(), &bug.message);
        let mut panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
        if panics.known.is_none() && !is_after_a_failure(&bug.message) && bug.explanation().is_some() {
            panics.known = Some(bug.clone());
        }
        panics.last = Some(bug);
    }));
}

/// The error of a command that panicked: the failure of a device, or else a bug.
pub fn error_of(panicked: &(dyn Any + Send)) -> CliError {
    match device_failure::of_panic(panicked) {
        Some(failure) => TrainError::from(failure).into(),
        None => CliError::Bug(last_panic()),
    }
}

/// The last panic of this process, with the panic that caused it.
pub fn last_panic() -> Bug {
    let mut panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
    let last = panics.last.take().unwrap_or_else(|| Bug {
        message: "a panic".into(),
        location: "at an unknown location".into(),
        backtrace: None,
        cause: None,
    });
    let cause = if is_after_a_failure(&last.message) { panics.known.take().map(Box::new) } else { None };
    Bug { cause, ..last }
}

/// The first panic of this process with a known message, such as that of a thread that survived it.
pub fn known_panic() -> Option<Bug> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner).known.take()
}

impl Bug {
    fn of(info: &PanicHookInfo<'_>) -> Self {
        // Captured only if RUST_BACKTRACE is set.
        let backtrace = Backtrace::capture();
        let captured = backtrace.status() == BacktraceStatus::Captured;
        let location = info.location().map(|location| format!("at {location}"));
        Self {
            message: info.payload_as_str().unwrap_or("a panic without a message").trim().to_owned(),
            location: location.unwrap_or_else(|| "at an unknown location".into()),
            backtrace: captured.then(|| backtrace.to_string()),
            cause: None,
        }
    }

    /// The meaning of its message, or of the message of its cause.
    pub fn explanation(&self) -> Option<Explanation> {
        let cause = self.cause.as_ref().and_then(|cause| explain(&cause.message));
        cause.or_else(|| explain(&self.message))
    }

    fn kind(&self) -> &'static str {
        if self.explanation().is_some() { "unexpected failure" } else { "internal error" }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> String {
        let report = "this is a bug in oomph, or in your own model, data source or task; please report it with the \
                      command line and the output with RUST_BACKTRACE=1";
        self.explanation().map_or(report, |explanation| explanation.hint).to_owned()
    }

    /// Prints the backtrace, if `RUST_BACKTRACE` asked for one.
    pub fn show_backtrace(&self) {
        if let Some(backtrace) = &self.backtrace {
            stream::write_line(backtrace);
        }
    }
}
