use std::{fmt, io, os::unix::process::ExitStatusExt, process::ExitStatus};

use oomph_trainer::OutOfMemoryReport;

use crate::exit::Exit;

/// Why a child has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeError {
    /// It needed more memory than the device may use.
    #[error("{message}")]
    OutOfMemory {
        /// The child's own message.
        message: String,
        /// What it says that can be done.
        hint: Option<String>,
        /// What it found out, where it was asked to.
        report: Option<Box<OutOfMemoryReport>>,
    },
    /// It ended in another error.
    #[error("{message}")]
    Failed {
        /// The child's own message.
        message: String,
        /// What it says that can be done.
        hint: Option<String>,
        /// What it found out, where memory ran out.
        report: Option<Box<OutOfMemoryReport>>,
    },
    /// A signal ended it.
    #[error("its process was killed by signal {signal}{}{}", reason(*signal), Said(said))]
    Killed {
        /// The signal.
        signal: i32,
        /// The end of what it wrote to standard error.
        said: String,
    },
    /// It ended by itself and did not say why.
    #[error("its process ended with exit code {code} and no result{}", Said(said))]
    Silent {
        /// The exit code.
        code: i32,
        /// The end of what it wrote to standard error.
        said: String,
    },
    /// There was none.
    #[error("cannot run it in a process of its own: {0}")]
    Start(#[source] io::Error),
}

impl ProbeError {
    /// What the user can do about it, where there is something.
    pub(crate) fn hint(&self) -> Option<&str> {
        match self {
            Self::OutOfMemory { hint, .. } | Self::Failed { hint, .. } => hint.as_deref(),
            Self::Killed { .. } | Self::Silent { .. } | Self::Start(_) => None,
        }
    }

    /// Whether it was for want of memory.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::OutOfMemory { .. })
    }

    /// Whether it was the system that ended it, as it does where the machine runs out of memory.
    pub(crate) fn is_killed(&self) -> bool {
        matches!(self, Self::Killed { signal: libc::SIGKILL, .. })
    }

    /// What it found out, where memory ran out and it was asked to.
    pub(crate) fn report(&self) -> Option<&OutOfMemoryReport> {
        match self {
            Self::OutOfMemory { report, .. } => report.as_deref(),
            _ => None,
        }
    }
}

/// What ended a child, from how it ended and what it told before. `None` where all is well.
pub(super) fn of(
    ended: io::Result<ExitStatus>,
    told: Option<ProbeError>,
    has_result: bool,
    said: &str,
) -> Option<ProbeError> {
    let status = match ended {
        Ok(status) => status,
        Err(error) => return Some(ProbeError::Start(error)),
    };
    let is_out_of_memory = status.code() == Some(Exit::OutOfMemory as i32);
    match (told, status.signal()) {
        (Some(ProbeError::Failed { message, hint, report }), _) if is_out_of_memory => {
            Some(ProbeError::OutOfMemory { message, hint, report })
        }
        (Some(told), _) => Some(told),
        (None, Some(signal)) => Some(ProbeError::Killed { signal, said: said.to_owned() }),
        (None, None) if status.success() && has_result => None,
        (None, None) => {
            Some(ProbeError::Silent { code: status.code().unwrap_or_default(), said: said.to_owned() })
        }
    }
}

fn reason(signal: i32) -> &'static str {
    if signal == libc::SIGKILL { ", as the system does where the machine runs out of memory" } else { "" }
}

/// The last line of what a child said, in brackets.
struct Said<'a>(&'a str);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.lines().last() {
            Some(line) => write!(f, " ({line})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> Option<ProbeError> {
        Some(ProbeError::Failed { message: "too much".into(), hint: None, report: None })
    }

    #[test]
    fn how_a_child_ended_says_what_failed() {
        let exit = |code: i32| Ok(ExitStatus::from_raw(code << 8));
        assert!(of(exit(0), None, true, "").is_none());
        assert!(of(exit(75), told(), false, "").unwrap().is_out_of_memory());
        assert!(!of(exit(1), told(), false, "").unwrap().is_out_of_memory());
        let silent = of(exit(0), None, false, "a\nthe last line").unwrap();
        assert_eq!(silent.to_string(), "its process ended with exit code 0 and no result (the last line)");
        let killed = of(Ok(ExitStatus::from_raw(libc::SIGKILL)), None, false, "").unwrap();
        assert_eq!(
            killed.to_string(),
            "its process was killed by signal 9, as the system does where the machine runs out of memory"
        );
    }
}
