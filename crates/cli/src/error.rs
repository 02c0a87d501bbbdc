use std::{io, path::PathBuf};

use oomph_config::ConfigError;
use oomph_core::Bytes;
use oomph_data::DataError;
use oomph_memory::gpu::GpuMemoryError;
use oomph_model::ModelError;
use oomph_trainer::{MeasureError, ProfileError, SessionError, TrainError, state::StateError};

use crate::exit::Exit;

/// What can end a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Data(#[from] DataError),
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Train(#[from] TrainError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("evaluation was interrupted")]
    Interrupted,
    #[error("nobody reads the events any more: training ended early, and its state is saved")]
    EventsUnread(#[source] io::Error),
    #[error("nothing was trained in `{}` yet, or nothing was saved", run.display())]
    NothingTrained { run: PathBuf },
    #[error("cannot listen to signals")]
    Signals(#[source] io::Error),
    #[error(transparent)]
    Gpu(#[from] GpuMemoryError),
    #[error("cannot write `{}`", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Profile(ProfileError),
    #[error("`{}` is there already", path.display())]
    OutputExists { path: PathBuf },
    #[error(transparent)]
    Measure(MeasureError),
    #[error(
        "its planned peak of {planned_peak_bytes} is above the {limit_bytes} that this machine leaves, so it was not tried"
    )]
    DoesNotFit { planned_peak_bytes: Bytes, limit_bytes: Bytes },
    #[error("cannot compare `{optimizer}`")]
    Compared { optimizer: String, source: ConfigError },
    #[error("cannot read from standard input what is to be done")]
    Request(#[source] io::Error),
    #[error("cannot write to standard output")]
    Output(#[source] io::Error),
}

impl CliError {
    /// What the user can do about it, where there is something.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Config(error) => error.hint(),
            Self::Data(error) => error.hint(),
            Self::Model(error) => error.hint(),
            Self::Session(error) => error.hint(),
            Self::Train(error) => error.hint(),
            Self::State(error) => error.hint(),
            Self::NothingTrained { .. } => {
                Some("`oomph train` first, with the same config, or name a run with `--checkpoint`".into())
            }
            Self::Gpu(error) => error.hint(),
            Self::Profile(error) => error.hint(),
            Self::Measure(error) => error.hint(),
            Self::Compared { source, .. } => source.hint(),
            Self::DoesNotFit { .. } => {
                Some("lower `train.batch`, or `memory.micro_batch`, which keeps the batch".into())
            }
            Self::Request(_) => None,
            Self::OutputExists { .. } => Some("remove it, or name another".into()),
            Self::File { .. }
            | Self::Interrupted
            | Self::EventsUnread(_)
            | Self::Signals(_)
            | Self::Output(_) => None,
        }
    }

    /// How the program ends with it.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Train(TrainError::OutOfMemory(_)) | Self::DoesNotFit { .. } => Exit::OutOfMemory,
            _ => Exit::Failure,
        }
    }

    /// Whether it is only that nobody reads standard output any more.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<ProfileError> for CliError {
    fn from(error: ProfileError) -> Self {
        match error {
            ProfileError::Train(error) => Self::Train(error),
            error => Self::Profile(error),
        }
    }
}

impl From<MeasureError> for CliError {
    fn from(error: MeasureError) -> Self {
        match error {
            MeasureError::Train(error) => Self::Train(error),
            error => Self::Measure(error),
        }
    }
}
