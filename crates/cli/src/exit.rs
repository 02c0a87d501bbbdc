use std::process::ExitCode;

use oomph_trainer::Ended;

/// How a command ended, as its exit code says it. clap ends with 2 where the command line is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Success = 0,
    Failure = 1,
    /// More memory was needed than the device may use: `EX_TEMPFAIL` of sysexits.
    OutOfMemory = 75,
    /// SIGINT, as shells count it: 128 + 2.
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
            Ended::Complete | Ended::EarlyStopping => Self::Success,
            Ended::Interrupted => Self::Interrupted,
            Ended::Terminated => Self::Terminated,
        }
    }
}
