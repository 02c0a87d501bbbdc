use std::{io, path::PathBuf, sync::Arc};

use oomph_advice::{
    PlanError, SearchError,
    out_of_memory::{OutOfMemory, OutOfMemoryReport},
};
use oomph_arguments::{ArgumentsError, for_shell};
use oomph_config::ConfigError;
use oomph_core::{Bytes, InputSpec};
use oomph_data::DataError;
use oomph_memory::gpu::GpuMemoryError;
use oomph_model::ModelError;
use oomph_preview::PreviewError;
use oomph_proposal::ProposalError;
use oomph_runs::RunError;
use oomph_runs::state::StateError;
use oomph_study::StudyError;
use oomph_trainer::{
    SessionError, TrainError, measure::MeasureError, onnx::OnnxExportError, profile::ProfileError,
};
use oomph_tuner::TuneError;

use crate::{bug::Bug, exit::Exit, probe::failure::ProbeError};

/// The errors of all commands.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The preview of the data cannot be drawn.
    #[error(transparent)]
    Preview(#[from] PreviewError),
    /// The model refuses its input.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The session cannot be opened.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The training failed.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A checkpoint cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
    /// The model cannot become an ONNX file.
    #[error(transparent)]
    Onnx(#[from] OnnxExportError),
    /// The hyperparameter search failed.
    #[error(transparent)]
    Tune(#[from] TuneError),
    /// The study cannot be used.
    #[error(transparent)]
    Study(#[from] StudyError),
    /// No configuration can be proposed for the data.
    #[error(transparent)]
    Proposal(#[from] ProposalError),
    /// A panic that no code caught.
    #[error(transparent)]
    Bug(Bug),
    /// A signal ended an evaluation.
    #[error("evaluation was interrupted")]
    Interrupted,
    /// Nobody reads the events of `--json` any more.
    #[error("the reader of the events closed stdout: training stopped early and saved a checkpoint")]
    EventsUnread(#[source] io::Error),
    /// The model predicts from another kind of input.
    #[error(
        "the model cannot predict from {}: its input is {input}",
        if *takes_text { "files" } else { "this input" }
    )]
    UnsupportedInput {
        /// What the model takes.
        input: InputSpec,
        /// Whether that is a text.
        takes_text: bool,
    },
    /// The range of learning rates is empty.
    #[error("`--from {from}` must be less than `--to {to}`")]
    NoRange {
        /// The least.
        from: f64,
        /// The greatest.
        to: f64,
    },
    /// A layout of tensors is named for an ONNX file or a folder.
    #[error(
        "`--layout` names the tensors of a safetensors file, but `{}` is {}",
        path.display(),
        if *is_folder { "a folder for Hugging Face" } else { "an ONNX file" }
    )]
    LayoutOfOther {
        /// The path.
        path: PathBuf,
        /// Whether it is a folder.
        is_folder: bool,
    },
    /// The model has no confusion matrix.
    #[error("there is no confusion matrix: the model does not predict one class of at most 4,096")]
    NoConfusion,
    /// Both a text and files are given.
    #[error("a model predicts from images or from a text, not from both")]
    TextAndFiles,
    /// Neither files nor a text is given.
    #[error("there is nothing to predict from: the model takes {}", if *takes_text { "a text" } else { "images" })]
    NothingToPredict {
        /// Whether the model takes a text.
        takes_text: bool,
    },
    /// A run, a checkpoint or a config behind the first path.
    #[error("`{}` is a model, and only the first path names a model", path.display())]
    ModelBehind {
        /// Its path.
        path: PathBuf,
    },
    /// A folder of runs cannot be read.
    #[error("cannot read the folder `{}`", path.display())]
    Folder {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Files to predict from cannot be read.
    #[error("{unreadable} of {count} files cannot be read")]
    Unreadable {
        /// Files that cannot be read.
        unreadable: usize,
        /// All of them.
        count: usize,
    },
    /// A run directory cannot be used.
    #[error(transparent)]
    Run(#[from] RunError),
    /// An argument cannot be used.
    #[error(transparent)]
    Arguments(ArgumentsError),
    /// The system refuses signal handlers.
    #[error("cannot install the signal handlers")]
    Signals(#[source] io::Error),
    /// The text of `--gpu` is no GPU.
    #[error("--gpu: {0}")]
    Gpu(GpuMemoryError),
    /// A split model is planned for several batches.
    #[error("`plan` takes only one batch for a model that is split over devices")]
    SeveralBatches,
    /// A file cannot be written.
    #[error("cannot write `{}`", path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The profile failed.
    #[error(transparent)]
    Profile(ProfileError),
    /// A path to write to is a folder, a link, a pipe or a device.
    #[error("`{}` is {found}; a file was expected, or a new name", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// A path to write to is a file of a checkpoint.
    #[error("`{}` is a file of a checkpoint", path.display())]
    InCheckpoint {
        /// The path.
        path: PathBuf,
    },
    /// A path to write to exists already.
    #[error("`{}` already exists", path.display())]
    FileExists {
        /// The path.
        path: PathBuf,
    },
    /// The measurement failed.
    #[error(transparent)]
    Measure(MeasureError),
    /// A plan exceeds the memory of this machine.
    #[error(
        "not tried: the planned peak of {planned_peak_bytes} exceeds the {limit_bytes} available on this machine"
    )]
    DoesNotFit {
        /// The planned peak.
        planned_peak_bytes: Bytes,
        /// The limit.
        limit_bytes: Bytes,
    },
    /// A variant of a comparison is invalid.
    #[error("cannot compare `{optimizer}`")]
    Compared {
        /// The variant.
        optimizer: String,
        /// The cause.
        source: ConfigError,
    },
    /// No variant of a comparison has a result.
    #[error("none of the {count} variants could be compared")]
    NothingCompared {
        /// All of them.
        count: usize,
    },
    /// No batch is in the range of a search.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// A try of a search failed for another reason than memory.
    #[error("{what} failed for another reason than memory")]
    TryFailed {
        /// The try, such as `batch 8`.
        what: String,
        /// The cause.
        source: Arc<ProbeError>,
    },
    /// Not even the smallest try of a search fits.
    #[error("not even {what} fits")]
    NothingFits {
        /// The try, such as `batch 8`.
        what: String,
        /// The cause.
        source: Arc<ProbeError>,
    },
    /// The smallest try of a search ran out of memory, and its plan fits.
    #[error(
        "{what} ran out of memory although its planned peak of {planned_peak_bytes} fits the limit of {limit_bytes}"
    )]
    PlanTooLow {
        /// The try, such as `batch 8`.
        what: String,
        /// The planned peak.
        planned_peak_bytes: Bytes,
        /// The limit.
        limit_bytes: Bytes,
        /// The cause.
        source: Arc<ProbeError>,
    },
    /// A training that ran out of memory cannot be started again.
    #[error("cannot start a new process to continue `{}`", run.display())]
    Restart {
        /// The run directory.
        run: PathBuf,
        /// Why it has to start again.
        error: Box<OutOfMemory>,
        /// The cause.
        source: io::Error,
    },
    /// The run of a seed exists already.
    #[error("the run `{}` exists already", run.display())]
    SeedExists {
        /// The run directory.
        run: PathBuf,
    },
    /// A single run is resumed for several seeds.
    #[error("`--resume {}` names one run, and `--seeds` has a run for each seed", run.display())]
    SeedsOfOneRun {
        /// The run directory.
        run: PathBuf,
    },
    /// Trainings of seeds failed.
    #[error("{failed} of {count} seeds failed")]
    SeedsFailed {
        /// Those that failed.
        failed: usize,
        /// All of them.
        count: usize,
    },
    /// A launcher started a command that starts the processes of seeds itself.
    #[cfg(feature = "mpi")]
    #[error("{world_size} processes were started, but `--seeds` starts a process for each seed itself")]
    SeedsOnRanks {
        /// The number of processes.
        world_size: usize,
    },
    /// A launcher started several processes of a build without MPI.
    #[error("{world_size} processes were started, but this build of oomph does not include MPI")]
    NoMpiInBuild {
        /// The number of processes.
        world_size: usize,
    },
    /// A launcher started several processes of a command that runs alone.
    #[error("{world_size} processes were started, but only `oomph train` supports several")]
    OnlyTrain {
        /// The number of processes.
        world_size: usize,
    },
    /// The launcher and MPI disagree about the number of processes.
    #[cfg(feature = "mpi")]
    #[error("the launcher started {launched} processes, but MPI reports {found}")]
    Launcher {
        /// By the launcher.
        launched: usize,
        /// What is there.
        found: usize,
    },
    /// Another rank failed.
    #[cfg(feature = "mpi")]
    #[error("{rank} failed")]
    Rank {
        /// The rank.
        rank: oomph_parallel::group::Member,
        /// The cause.
        source: Box<CliError>,
    },
    /// A child process got no request.
    #[error("cannot read the request from stdin")]
    Request(#[source] io::Error),
    /// Stdout cannot be written to.
    #[error("cannot write to stdout")]
    Output(#[source] io::Error),
}

impl CliError {
    /// What the user can do about it, if anything.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Config(error) => error.hint(),
            Self::Data(error) => error.hint(),
            Self::Model(error) => error.hint(),
            Self::Session(error) => error.hint(),
            Self::Train(error) => error.hint(),
            Self::State(error) => error.hint(),
            Self::Run(error) => error.hint(),
            Self::Onnx(error) => error.hint(),
            Self::Tune(error) => error.hint(),
            Self::Proposal(error) => error.hint(),
            Self::Bug(bug) => Some(bug.hint()),
            Self::Arguments(error) => error.hint(),
            Self::Gpu(error) => error.hint(),
            Self::Profile(error) => error.hint(),
            Self::Measure(error) => error.hint(),
            Self::Compared { source, .. } => source.hint(),
            Self::DoesNotFit { .. } => {
                Some("lower `train.batch`; or lower `memory.micro_batch`, which keeps the batch".into())
            }
            Self::Search(_) => {
                Some("lower `--min` or raise `--max`; a batch is at least `memory.micro_batch`".into())
            }
            Self::TryFailed { source, .. } | Self::NothingFits { source, .. } => source.hint().map(str::to_owned),
            Self::PlanTooLow { .. } => Some(
                "some memory is allocated outside of tensor operations, or is never freed: `oomph profile` with the \
                 same settings shows it; if it is not your own model or task, please report it"
                    .into(),
            ),
            #[cfg(feature = "mpi")]
            Self::Rank { source, .. } => source.hint(),
            Self::Restart { run, .. } => Some(format!("`oomph train --resume {}` continues it", run.display())),
            Self::SeveralBatches => {
                Some("name one batch with `--batch`, or leave it out to plan the config's batch".into())
            }
            Self::SeedExists { .. } => Some(
                "`--resume` continues the runs of all seeds; `--set run.directory=runs/NAME` names new ones".into(),
            ),
            Self::SeedsOfOneRun { .. } => Some("`--resume` without a run continues all of them".into()),
            Self::FileExists { .. } => Some("`--force` overwrites it; or choose another path".into()),
            Self::NotAFile { .. } | Self::InCheckpoint { .. } => Some("choose another path".into()),
            Self::UnsupportedInput { .. }
            | Self::NothingToPredict { .. }
            | Self::ModelBehind { .. }
            | Self::TextAndFiles => self.hint_of_prediction(),
            // The only thread of a command that starts before the compute threads.
            Self::Signals(_) => Some("raise the limit of processes, `ulimit -u`; `oomph doctor` shows it".into()),
            Self::Folder { .. } => Some("name a folder of run directories, or a run directory".into()),
            Self::Preview(_)
            | Self::File { .. }
            | Self::Unreadable { .. }
            | Self::Interrupted
            | Self::Study(_)
            | Self::EventsUnread(_)
            | Self::Request(_)
            | Self::NothingCompared { .. }
            | Self::SeedsFailed { .. }
            | Self::NoConfusion
            | Self::NoRange { .. }
            | Self::Output(_) => None,
            launch => launch.hint_of_launch(),
        }
    }

    /// The hint for what is predicted from.
    fn hint_of_prediction(&self) -> Option<String> {
        let hint = match self {
            Self::ModelBehind { path } => {
                let path = for_shell(&path.to_string_lossy());
                return Some(format!("name the model, then images: `oomph predict {path} …`"));
            }
            Self::UnsupportedInput { takes_text: true, .. } | Self::NothingToPredict { takes_text: true } => {
                "`--prompt` gives a language model a text to continue"
            }
            Self::TextAndFiles => "leave out the files, or `--prompt`",
            Self::UnsupportedInput { input: InputSpec::Image { .. }, .. } | Self::NothingToPredict { .. } => {
                "name image files, or folders of them"
            }
            Self::UnsupportedInput { .. } => {
                "`oomph predict` supports models that were trained on images or text"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }

    /// The hint for processes of a launcher.
    fn hint_of_launch(&self) -> Option<String> {
        match self {
            Self::NoMpiInBuild { .. } => Some(
                "build with `cargo build --release --features mpi`; or start one process without a launcher and name \
                 its devices with `--devices`"
                    .into(),
            ),
            #[cfg(feature = "mpi")]
            Self::SeedsOnRanks { .. } => Some("start the command without mpirun or srun".into()),
            Self::OnlyTrain { .. } => Some("start the command without mpirun or srun".into()),
            #[cfg(feature = "mpi")]
            Self::Launcher { .. } => Some(
                "use the mpirun of the MPI library that oomph was built with; under Slurm, `srun --mpi=list` lists the \
                 choices, such as `srun --mpi=pmix`"
                    .into(),
            ),
            _ => None,
        }
    }

    /// The report of an out-of-memory error.
    pub fn out_of_memory(&self) -> Option<&OutOfMemoryReport> {
        match self {
            Self::Train(error) => error.out_of_memory()?.report.as_deref(),
            Self::Restart { error, .. } => error.report.as_deref(),
            #[cfg(feature = "mpi")]
            Self::Rank { source, .. } => source.out_of_memory(),
            Self::NothingFits { source, .. } | Self::PlanTooLow { source, .. } => source.report(),
            _ => None,
        }
    }

    /// The exit code of the program.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Train(error) if error.out_of_memory().is_some() => Exit::OutOfMemory,
            Self::Restart { .. } | Self::DoesNotFit { .. } | Self::NothingFits { .. } => Exit::OutOfMemory,
            #[cfg(feature = "mpi")]
            Self::Rank { source, .. } => source.exit(),
            _ => Exit::Failure,
        }
    }

    /// Whether every process of a launcher fails with this error before it does anything.
    pub fn occurs_on_all_ranks(&self) -> bool {
        match self {
            Self::OnlyTrain { .. } => true,
            #[cfg(feature = "mpi")]
            Self::SeedsOnRanks { .. } => true,
            _ => false,
        }
    }

    /// Whether the error is that the reader of stdout closed it.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl From<ArgumentsError> for CliError {
    fn from(error: ArgumentsError) -> Self {
        match error {
            ArgumentsError::Config(error) => Self::Config(error),
            ArgumentsError::State(error) => Self::State(error),
            error => Self::Arguments(error),
        }
    }
}

impl From<PlanError> for CliError {
    fn from(error: PlanError) -> Self {
        TrainError::from(error).into()
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
