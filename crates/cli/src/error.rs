use std::{io, path::PathBuf};

use oomph_config::ConfigError;
use oomph_data::DataError;
use oomph_model::ModelError;
use oomph_trainer::{SessionError, TrainError, state::StateError};

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
            Self::Interrupted | Self::EventsUnread(_) | Self::Signals(_) | Self::Output(_) => None,
        }
    }

    /// Whether it is only that nobody reads standard output any more.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
