//! Keeps the terminal from echoing `^C` into the progress bars. The echo adds a line, and the bars could no longer be
//! erased cleanly.

/// Stops the echo of control keys if stderr is a terminal with this process in its foreground. The console of Windows echoes
/// none.
pub fn hide_control_keys() {
    #[cfg(unix)]
    own::hide();
}

/// Restores the original settings of the terminal.
pub fn restore() {
    #[cfg(unix)]
    own::restore();
}

#[cfg(unix)]
mod own {
    use std::sync::{Mutex, PoisonError};

    /// The original settings of the terminal.
    static BEFORE: Mutex<Option<libc::termios>> = Mutex::new(None);

    pub(super) fn hide() {
        let Some(mut settings) = settings() else { return };
        BEFORE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(settings);
        settings.c_lflag &= !libc::ECHOCTL;
        apply(&settings);
    }

    pub(super) fn restore() {
        if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
            apply(&before);
        }
    }

    fn settings() -> Option<libc::termios> {
        // SAFETY: a `termios` of zeros is a valid value of its integers, and the call writes to nothing else.
        unsafe {
            let mut settings = std::mem::zeroed();
            (libc::tcgetattr(libc::STDERR_FILENO, &raw mut settings) == 0).then_some(settings)
        }
    }

    fn apply(settings: &libc::termios) {
        // SAFETY: the calls read a valid `termios` and touch no other memory.
        unsafe {
            // The system stops a background process that does this.
            if libc::tcgetpgrp(libc::STDERR_FILENO) == libc::getpgrp() {
                libc::tcsetattr(libc::STDERR_FILENO, libc::TCSANOW, settings);
            }
        }
    }
}
