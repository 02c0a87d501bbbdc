use std::{io, path::PathBuf, sync::Arc};

use oomph_config::ConfigError;
use oomph_core::{Bytes, InputSpec};
use oomph_data::DataError;
use oomph_memory::gpu::GpuMemoryError;
use oomph_model::ModelError;
use oomph_trainer::{
    MeasureError, OutOfMemory, OutOfMemoryReport, ProfileError, RunError, SearchError, SessionError,
    TrainError,
    state::{Found, StateError},
};

use crate::{exit::Exit, probe::ProbeError};

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
    #[error(
        "the model cannot be asked about {}: its input is {input}",
        if *has_texts { "files" } else { "this" }
    )]
    NothingToAsk { input: InputSpec, has_texts: bool },
    #[error("cannot read the folder `{}`", path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("{unreadable} of {count} files cannot be read")]
    Unreadable { unreadable: usize, count: usize },
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("nothing was trained in `{}` yet, or nothing was saved", run.display())]
    NothingTrained { run: PathBuf },
    #[error("cannot listen to signals")]
    Signals(#[source] io::Error),
    #[error(transparent)]
    Gpu(#[from] GpuMemoryError),
    #[error("a model that is cut over devices is planned for one batch at a time")]
    SeveralBatches,
    #[error("cannot write `{}`", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Profile(ProfileError),
    #[error("`{}` is there already", path.display())]
    OutputExists { path: PathBuf },
    #[error("`{}` is there already", path.display())]
    FileExists { path: PathBuf },
    #[error(transparent)]
    Measure(MeasureError),
    #[error(
        "its planned peak of {planned_peak_bytes} is above the {limit_bytes} that this machine leaves, so it was not tried"
    )]
    DoesNotFit { planned_peak_bytes: Bytes, limit_bytes: Bytes },
    #[error("cannot compare `{optimizer}`")]
    Compared { optimizer: String, source: ConfigError },
    #[error(transparent)]
    Search(#[from] SearchError),
    #[error("{what} fails, and not for want of memory")]
    Tried { what: String, source: Arc<ProbeError> },
    #[error("not even {what} fits")]
    NothingFits { what: String, source: Arc<ProbeError> },
    #[error(
        "{what} runs out of memory where the plan says that it fits, with a planned peak of {planned_peak_bytes} of \
         {limit_bytes}"
    )]
    FailsAgainstThePlan {
        what: String,
        planned_peak_bytes: Bytes,
        limit_bytes: Bytes,
        source: Arc<ProbeError>,
    },
    #[error("cannot start a fresh process to go on with `{}`", run.display())]
    Again { run: PathBuf, error: Box<OutOfMemory>, source: io::Error },
    #[error(
        "{world_size} processes were started, which need MPI to train together, and this build of oomph has none"
    )]
    NoMpiInBuild { world_size: usize },
    #[error("{world_size} processes were started, and only `oomph train` is for several")]
    OnlyTrain { world_size: usize },
    #[cfg(feature = "mpi")]
    #[error("{launched} processes were started, and of them MPI knows {found}")]
    Launcher { launched: usize, found: usize },
    #[cfg(feature = "mpi")]
    #[error("{rank} failed")]
    Rank { rank: oomph_parallel::group::Member, source: Box<CliError> },
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
            Self::Run(error) => error.hint(),
            Self::NothingTrained { .. } => {
                Some("`oomph train` first, with the same config, or name a run or a checkpoint".into())
            }
            Self::Gpu(error) => error.hint(),
            Self::Profile(error) => error.hint(),
            Self::Measure(error) => error.hint(),
            Self::Compared { source, .. } => source.hint(),
            Self::DoesNotFit { .. } => {
                Some("lower `train.batch`, or `memory.micro_batch`, which keeps the batch".into())
            }
            Self::Search(_) => {
                Some("lower `--min`, or raise `--max`; a batch is at least `memory.micro_batch`".into())
            }
            Self::Tried { source, .. } | Self::NothingFits { source, .. } => source.hint().map(str::to_owned),
            Self::FailsAgainstThePlan { .. } => Some(
                "something holds memory that no tensor operation made, or never lets go of it: `oomph profile` with \
                 the same settings shows what; if it is no model or task of your own, please report it"
                    .into(),
            ),
            Self::NoMpiInBuild { .. } => Some(
                "build with `--features mpi`, as in `cargo build --release --features mpi`, or start it without a \
                 launcher: `--devices` names several devices of one process"
                    .into(),
            ),
            Self::OnlyTrain { .. } => Some("start it without mpirun or srun".into()),
            #[cfg(feature = "mpi")]
            Self::Launcher { .. } => Some(
                "launcher and MPI library have to fit each other: under Slurm `srun --mpi=list` names what there is, such \
                 as `srun --mpi=pmix`; mpirun has to be of the library that oomph was built with"
                    .into(),
            ),
            #[cfg(feature = "mpi")]
            Self::Rank { source, .. } => source.hint(),
            Self::Request(_) => None,
            Self::Again { run, .. } => Some(format!("`oomph train --resume {}` goes on", run.display())),
            Self::SeveralBatches => Some("name one batch with `--batch`, or none for that of the config".into()),
            Self::FileExists { .. } => Some("`--force` writes over it".into()),
            Self::OutputExists { .. } => Some("remove it, or name another".into()),
            Self::NothingToAsk { has_texts: true, .. } => {
                Some("`--prompt` has a language model continue a text".into())
            }
            Self::NothingToAsk { input: InputSpec::Image { .. }, .. } => {
                Some("name image files, or folders of them".into())
            }
            Self::NothingToAsk { .. } => {
                Some("`oomph predict` takes models that were trained on images or texts".into())
            }
            Self::Folder { .. } => Some("name a folder of run directories, or a run directory".into()),
            Self::File { .. }
            | Self::Unreadable { .. }
            | Self::Interrupted
            | Self::EventsUnread(_)
            | Self::Signals(_)
            | Self::Output(_) => None,
        }
    }

    /// The checkpoint of a run that a config names, or that there is none yet.
    pub(crate) fn of_run(found: Result<Found, StateError>) -> Result<Found, Self> {
        found.map_err(|error| match error {
            StateError::NotACheckpoint { path: run } => Self::NothingTrained { run },
            error => Self::State(error),
        })
    }

    /// What is known of it, where memory ran out.
    pub(crate) fn out_of_memory(&self) -> Option<&OutOfMemoryReport> {
        match self {
            Self::Train(error) => error.out_of_memory()?.report.as_deref(),
            Self::Again { error, .. } => error.report.as_deref(),
            #[cfg(feature = "mpi")]
            Self::Rank { source, .. } => source.out_of_memory(),
            Self::NothingFits { source, .. } | Self::FailsAgainstThePlan { source, .. } => source.report(),
            _ => None,
        }
    }

    /// How the program ends with it.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Train(error) if error.out_of_memory().is_some() => Exit::OutOfMemory,
            Self::Train(TrainError::TooLarge { .. })
            | Self::Again { .. }
            | Self::DoesNotFit { .. }
            | Self::NothingFits { .. } => Exit::OutOfMemory,
            #[cfg(feature = "mpi")]
            Self::Rank { source, .. } => source.exit(),
            _ => Exit::Failure,
        }
    }

    /// Whether every process that a launcher started has it, before any of them did anything.
    pub(crate) fn is_of_all_ranks(&self) -> bool {
        matches!(self, Self::OnlyTrain { .. })
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
