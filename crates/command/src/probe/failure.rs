use std::{io, process::ExitStatus};

use oomph_advice::out_of_memory::OutOfMemoryReport;
use oomph_core::{
    child::{killed_by, last_line},
    system::ending_signal,
};

use crate::exit::Exit;

/// Why a child has no result.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The child reported an error.
    #[error("{message}")]
    Failed {
        /// What it said.
        message: String,
        /// What the user can do about it.
        hint: Option<String>,
        /// The out-of-memory report, if there is one.
        report: Option<Box<OutOfMemoryReport>>,
        /// Whether it ran out of memory.
        is_out_of_memory: bool,
    },
    /// A signal ended the child.
    #[error("{}", killed_by(*signal, stderr))]
    Killed {
        /// The signal.
        signal: i32,
        /// The end of its stderr.
        stderr: String,
    },
    /// The child exited without a result or an error.
    #[error("its process exited with code {code} and without a result{}", last_line(stderr))]
    Silent {
        /// The exit code.
        code: i32,
        /// The end of its stderr.
        stderr: String,
    },
    /// The system started no child.
    #[error("cannot start a child process: {0}")]
    Start(#[source] io::Error),
}

/// The signal that ends a process at once, on every Unix.
const SIGKILL: i32 = 9;

impl ProbeError {
    /// What the user can do about it, if anything.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Failed { hint, .. } => hint.as_deref(),
            Self::Killed { .. } | Self::Silent { .. } | Self::Start(_) => None,
        }
    }

    /// Whether the child ran out of memory.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Failed { is_out_of_memory: true, .. })
    }

    /// Whether SIGKILL ended the child, which the system sends if the machine runs out of memory.
    pub fn is_killed(&self) -> bool {
        matches!(self, Self::Killed { signal: SIGKILL, .. })
    }

    /// The out-of-memory report, if there is one.
    pub fn report(&self) -> Option<&OutOfMemoryReport> {
        match self {
            Self::Failed { report, is_out_of_memory: true, .. } => report.as_deref(),
            _ => None,
        }
    }
}

/// The failure of a child, from its exit status, the error that it reported, and its stderr. `None` after a success.
pub(super) fn of(
    ended: io::Result<ExitStatus>,
    reported: Option<ProbeError>,
    has_result: bool,
    stderr: &str,
) -> Option<ProbeError> {
    let status = match ended {
        Ok(status) => status,
        Err(error) => return Some(ProbeError::Start(error)),
    };
    let is_out_of_memory = status.code() == Some(Exit::OutOfMemory as i32);
    match (reported, ending_signal(status)) {
        (Some(ProbeError::Failed { message, hint, report, .. }), _) => {
            Some(ProbeError::Failed { message, hint, report, is_out_of_memory })
        }
        (Some(reported), _) => Some(reported),
        (None, Some(signal)) => Some(ProbeError::Killed { signal, stderr: stderr.to_owned() }),
        (None, None) if status.success() && has_result => None,
        (None, None) => {
            Some(ProbeError::Silent { code: status.code().unwrap_or_default(), stderr: stderr.to_owned() })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn reported() -> Option<ProbeError> {
        Some(ProbeError::Failed {
            message: "too much".into(),
            hint: None,
            report: None,
            is_out_of_memory: false,
        })
    }

    #[test]
    fn the_exit_status_decides_the_failure() {
        let exit = |code: i32| Ok(ExitStatus::from_raw(code << 8));
        assert!(of(exit(0), None, true, "").is_none());
        assert!(of(exit(75), reported(), false, "").unwrap().is_out_of_memory());
        assert!(!of(exit(1), reported(), false, "").unwrap().is_out_of_memory());
        let silent = of(exit(0), None, false, "a\nthe last line").unwrap();
        assert_eq!(silent.to_string(), "its process exited with code 0 and without a result (the last line)");
        let killed = of(Ok(ExitStatus::from_raw(SIGKILL)), None, false, "").unwrap();
        assert_eq!(
            killed.to_string(),
            "its process was killed by signal 9, probably because the machine ran out of memory"
        );
    }
}
