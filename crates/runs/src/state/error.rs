use std::{io, path::PathBuf};

use oomph_core::TargetSpec;
use oomph_data::OtherClass;
use oomph_engine::{record::RecordError, session::EpochCut};

/// Errors of reading and writing checkpoints.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The system refused.
    #[error("cannot {action} `{}`", path.display())]
    Io {
        /// What was to be done.
        action: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no checkpoint at a path.
    #[error("`{}` is not a checkpoint, nor a run directory that has one", path.display())]
    NotACheckpoint {
        /// The path.
        path: PathBuf,
    },
    /// No checkpoint of the run is readable.
    #[error("none of the {count} checkpoints in `{}` can be read; the newest: {newest}", directory.display())]
    NoneReadable {
        /// The directory.
        directory: PathBuf,
        /// How many there are.
        count: usize,
        /// What is wrong with the newest.
        newest: Box<StateError>,
    },
    /// A run has no best checkpoint: nothing was evaluated, or saved.
    #[error("`{}` has no best checkpoint: nothing was evaluated and saved there", directory.display())]
    NoBest {
        /// Where the checkpoints are.
        directory: PathBuf,
    },
    /// A run has no checkpoint of a step.
    #[error("`{}` has no checkpoint of step {step}; it has: {}", directory.display(), steps(.known))]
    NoStep {
        /// Where the checkpoints are.
        directory: PathBuf,
        /// The step.
        step: usize,
        /// The steps that there are checkpoints of.
        known: Vec<usize>,
    },
    /// The checkpoint of an older version, without a record of the data.
    #[error("checkpoint `{}` has no record of its data", checkpoint.display())]
    NoSource {
        /// The checkpoint.
        checkpoint: PathBuf,
    },
    /// A file of a checkpoint is not there.
    #[error("checkpoint `{}` has no `{file}`", checkpoint.display())]
    MissingFile {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// The file.
        file: String,
    },
    /// A file of a checkpoint is not what was written.
    #[error("`{}` is damaged: checksum mismatch", path.display())]
    Checksum {
        /// The file.
        path: PathBuf,
    },
    /// A file of a checkpoint cannot be understood.
    #[error("`{}` cannot be read: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A value of a checkpoint is impossible beside its other values.
    #[error("`{}` has an impossible value: `{field}` is {found}, expected {expected}", path.display())]
    Contradiction {
        /// The file.
        path: PathBuf,
        /// The place of the value in the file.
        field: &'static str,
        /// The value.
        found: String,
        /// What the other values allow.
        expected: String,
    },
    /// A checkpoint of another format.
    #[error("checkpoint `{}` has format version {found}; this version of oomph reads {known}", checkpoint.display())]
    Version {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// Its format.
        found: u32,
        /// The format that is known.
        known: u32,
    },
    /// Two parameters have one name in PyTorch's layout.
    #[error("`{first}` and `{second}` are both called `{name}` in PyTorch's layout")]
    OneName {
        /// A parameter.
        first: String,
        /// Another.
        second: String,
        /// What both are called.
        name: String,
    },
    /// The checkpoint is from the middle of an epoch that is now of another length.
    #[error(
        "the checkpoint is at batch {batch} of an epoch of {before} batches, but an epoch has {now} now: \
         `train.batch`, the data or `data.last_batch` changed"
    )]
    EpochChanged {
        /// Batches done in the epoch.
        batch: usize,
        /// Batches that the epoch had.
        before: usize,
        /// Batches that it has.
        now: usize,
    },
    /// The checkpoint is from the middle of an epoch that is now cut otherwise into as many batches.
    #[error("the checkpoint is at batch {batch} of an epoch that was {before}, and is {now} now")]
    CutChanged {
        /// Batches done in the epoch.
        batch: usize,
        /// How the epoch was cut.
        before: EpochCut,
        /// How it is.
        now: EpochCut,
    },
    /// The data has other classes than the model was trained on, or has them in another order.
    #[error("the data is not what checkpoint `{}` was trained on: {class}", checkpoint.display())]
    ClassesChanged {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// The first class that differs.
        class: OtherClass,
    },
    /// The text becomes other tokens than in the training.
    #[error("the data is not what checkpoint `{}` was trained on: {difference}", checkpoint.display())]
    TokenizerChanged {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// Both tokenizers, in words.
        difference: String,
    },
    /// The data has another kind of target than the model was trained on, such as labels instead of classes.
    #[error("the data is not what checkpoint `{}` was trained on: targets were {before}, and are {now} now", checkpoint.display())]
    TargetChanged {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// The target of the training.
        before: TargetSpec,
        /// The target of the data.
        now: TargetSpec,
    },
    /// The data has other columns than the model was trained on, or has them in another order.
    #[error("the data is not what checkpoint `{}` was trained on: {column}", checkpoint.display())]
    ColumnsChanged {
        /// The checkpoint.
        checkpoint: PathBuf,
        /// The first column that differs.
        column: Box<OtherClass>,
        /// The input columns of the training.
        columns: Vec<String>,
    },
    /// Between recorded tensors and the model or optimizer.
    #[error(transparent)]
    Record(#[from] RecordError),
}

impl StateError {
    /// Makes an [`StateError::Io`] of a system error, with the action and the file.
    pub fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }

    /// Makes a [`StateError::Malformed`] of the file at `path`.
    pub(crate) fn malformed(path: impl Into<PathBuf>, reason: impl ToString) -> Self {
        Self::Malformed { path: path.into(), reason: reason.to_string() }
    }

    /// A command or a setting that helps, if there is one.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NotACheckpoint { .. } => {
                "name a run directory such as `runs/resnet`, or one of its checkpoints as `runs/resnet/best` or `runs/resnet/400`"
            }
            Self::ClassesChanged { checkpoint, class } if class.what == "token" => {
                return Some(format!(
                    "`--set data.vocabulary_file={}` reads any text with the tokens that the model knows",
                    checkpoint.join("source.json").display()
                ));
            }
            Self::TokenizerChanged { checkpoint, .. } => {
                return Some(format!(
                    "`--set data.level=bpe --set data.tokenizer={}` reads any text with the tokenizer of the training, if \
                     it had one",
                    checkpoint.join("source.json").display()
                ));
            }
            Self::TargetChanged { .. } => {
                "use the data of the training, or start a new run with `model.weights`"
            }
            Self::ClassesChanged { .. } => {
                "use the data of the training, since the order of the classes matters, or start a new run with \
                 `model.weights`"
            }
            Self::ColumnsChanged { columns, .. } => {
                let columns: Vec<_> = columns.iter().map(|name| format!("{name:?}")).collect();
                return Some(format!(
                    "name the columns of the training with `--set data.columns='[{}]'`",
                    columns.join(", ")
                ));
            }
            Self::EpochChanged { .. } | Self::CutChanged { .. } => {
                "restore the earlier settings, or resume from a checkpoint at the end of an epoch"
            }
            Self::Checksum { .. }
            | Self::MissingFile { .. }
            | Self::Malformed { .. }
            | Self::Contradiction { .. } => {
                "name the run directory instead of the checkpoint: its newest readable checkpoint is used"
            }
            Self::NoSource { .. } => {
                "an earlier version of oomph saved it: train on for a step, with `oomph train --resume` and a \
                 higher `train.epochs` or `train.steps`"
            }
            Self::NoBest { .. } => "name the run alone to take its newest checkpoint",
            Self::Version { .. } => "read it with the version of oomph that wrote it",
            Self::Record(error) => return error.hint(),
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

fn steps(known: &[usize]) -> String {
    let steps: Vec<_> = known.iter().map(usize::to_string).collect();
    if steps.is_empty() { "none".to_owned() } else { steps.join(", ") }
}
