//! Keeps the `^C` that a terminal writes for Ctrl-C out of the progress bars: it goes to a line of its own, so that
//! the bars could not be taken away cleanly.

use std::sync::{Mutex, PoisonError};

/// How the terminal was before.
static BEFORE: Mutex<Option<libc::termios>> = Mutex::new(None);

/// Turns the writing of control keys off, where standard error is a terminal with this process in its foreground.
pub(crate) fn hide_control_keys() {
    let Some(mut settings) = settings() else { return };
    BEFORE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(settings);
    settings.c_lflag &= !libc::ECHOCTL;
    apply(&settings);
}

/// Leaves the terminal as it was found.
pub(crate) fn restore() {
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        apply(&before);
    }
}

fn settings() -> Option<libc::termios> {
    // SAFETY: a `termios` of zeros is a valid value of its integers, and the call writes to no other place.
    unsafe {
        let mut settings = std::mem::zeroed();
        (libc::tcgetattr(libc::STDERR_FILENO, &raw mut settings) == 0).then_some(settings)
    }
}

fn apply(settings: &libc::termios) {
    // SAFETY: the calls read a valid `termios` and touch no other memory.
    unsafe {
        // A process in the background would be stopped for this.
        if libc::tcgetpgrp(libc::STDERR_FILENO) == libc::getpgrp() {
            libc::tcsetattr(libc::STDERR_FILENO, libc::TCSANOW, settings);
        }
    }
}
