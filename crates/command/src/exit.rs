use std::process::ExitCode;

use oomph_runs::Ended;

/// The exit code of a command. clap exits with 2 if it cannot parse the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command did what it was asked.
    Success = 0,
    /// An error.
    Failure = 1,
    /// A device ran out of memory, or would have: `EX_TEMPFAIL` of sysexits.
    OutOfMemory = 75,
    /// SIGINT, by the convention of shells: 128 + 2.
    Interrupted = 130,
    /// SIGTERM: 128 + 15.
    Terminated = 143,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<Ended> for Exit {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Complete | Ended::EarlyStopping | Ended::Callback | Ended::Paused => Self::Success,
            Ended::Interrupted => Self::Interrupted,
            Ended::Terminated => Self::Terminated,
        }
    }
}
