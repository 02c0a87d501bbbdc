use std::{io, path::PathBuf, time::Duration};

use oomph_config::DeviceName;
use oomph_core::Bytes;
use oomph_data::DataError;
use oomph_model::ModelError;
use oomph_parallel::{CutError, group::GroupError};

use crate::{OutOfMemory, RunError, SessionError, TaskError, state::StateError};

/// What can end a training or an evaluation.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// Before it began.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// In the data.
    #[error(transparent)]
    Data(#[from] DataError),
    /// In the model.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// In the task.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// In the run directory.
    #[error(transparent)]
    Run(#[from] RunError),
    /// In a checkpoint.
    #[error(transparent)]
    State(#[from] StateError),
    /// A step, or an evaluation, needed more memory than the device may use.
    #[error(transparent)]
    OutOfMemory(#[from] Box<OutOfMemory>),
    /// The device failed. What was not saved before is lost: what it holds now is not trusted.
    #[error("the device failed: {message}")]
    Device {
        /// What it said first.
        message: String,
    },
    /// Between the devices or processes that train together.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// One of several devices failed, and training with it.
    #[error("rank {rank} on `{device}` failed")]
    Rank {
        /// Its number, from 0.
        rank: usize,
        /// Its device.
        device: DeviceName,
        /// How.
        source: Box<TrainError>,
    },
    /// Where the model is to be cut.
    #[error(transparent)]
    Cut(#[from] CutError),
    /// A device cannot hold its part of the model.
    #[error(
        "device {index} (`{device}`) would need {planned_peak_bytes}, more than its limit of {limit_bytes}"
    )]
    TooLarge {
        /// Its number, from 0.
        index: usize,
        /// Its name.
        device: String,
        /// What is planned.
        planned_peak_bytes: Bytes,
        /// What it may use.
        limit_bytes: Bytes,
    },
    /// One of the devices that a model lies on failed, and the step with it.
    #[error("device {index} (`{device}`) failed")]
    Part {
        /// Its number, from 0.
        index: usize,
        /// Its name.
        device: String,
        /// How.
        source: Box<TrainError>,
    },
    /// The device before or after in a chain of devices has ended.
    #[error("device {device} ended in the middle of a step")]
    Neighbour {
        /// Its number, from 0.
        device: usize,
    },
    /// The device before or after in a chain of devices does not answer.
    #[error("device {device} did not hand anything over within {waited:?}")]
    Silent {
        /// Its number, from 0.
        device: usize,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The replicas do not have the same parameters any more.
    #[error("after step {step} the parameters of rank 0 are not those of {}", listed(.ranks))]
    ReplicasDiffer {
        /// Steps done.
        step: usize,
        /// Those that differ from rank 0.
        ranks: Vec<usize>,
    },
    /// Rank 0 says what this rank does not understand.
    #[error("rank {rank} does not understand rank 0: they are not of the same version of oomph")]
    OtherVersion {
        /// This rank.
        rank: usize,
    },
    /// A thread could not be started.
    #[error("the system refuses to start a thread for a device")]
    Thread(#[source] io::Error),
    /// There is nothing to evaluate on.
    #[error("none of the {unreadable} held-out samples can be read, so there is nothing to evaluate")]
    NothingToEvaluate {
        /// How many are unreadable.
        unreadable: usize,
    },
    /// The loss is infinite or not a number. Nothing was saved since.
    #[error("the loss of step {step} is {loss} (learning rate {lr:?}); {}", kept(.checkpoint.as_ref()))]
    NonFiniteLoss {
        /// The first step with such a loss, from 1.
        step: usize,
        /// The loss.
        loss: f64,
        /// The learning rate of that step.
        lr: f64,
        /// The last checkpoint before it.
        checkpoint: Option<PathBuf>,
    },
    /// Gradients overflow at the smallest loss scale: it is not the scale that makes them.
    #[error(
        "the gradients of step {step} are infinite or not a number even at a loss scale of 2^{} \
         (learning rate {lr:?}); {}",
        .scale.log2(),
        kept(.checkpoint.as_ref())
    )]
    LossScale {
        /// The step, from 1.
        step: usize,
        /// The scale.
        scale: f32,
        /// The learning rate of that step.
        lr: f64,
        /// The last checkpoint before it.
        checkpoint: Option<PathBuf>,
    },
    /// A step with a finite loss made a parameter infinite or not a number. It was not saved.
    #[error(
        "step {step} made `{parameter}` infinite or not a number (learning rate {lr:?}); {}",
        kept(.checkpoint.as_ref())
    )]
    NonFiniteParameter {
        /// The step after which it was found, from 1.
        step: usize,
        /// The first such parameter.
        parameter: String,
        /// The learning rate of that step.
        lr: f64,
        /// The last checkpoint before it.
        checkpoint: Option<PathBuf>,
    },
}

fn listed(ranks: &[usize]) -> String {
    let numbers: Vec<_> = ranks.iter().map(usize::to_string).collect();
    format!("rank{} {}", if ranks.len() == 1 { "" } else { "s" }, numbers.join(", "))
}

fn kept(checkpoint: Option<&PathBuf>) -> String {
    match checkpoint {
        Some(path) => format!("the last good checkpoint is `{}`", path.display()),
        None => "no checkpoint was saved before it".into(),
    }
}

impl TrainError {
    /// What ran out of memory, be it on another device or rank.
    pub fn out_of_memory(&self) -> Option<&OutOfMemory> {
        match self {
            Self::OutOfMemory(error) => Some(error),
            Self::Rank { source, .. } | Self::Part { source, .. } => source.out_of_memory(),
            _ => None,
        }
    }

    /// The same error with more known of what ran out of memory on a device of this process: `explained` is given it
    /// and the device's number, which is 0 but in a chain of devices.
    pub(crate) fn with_explained(
        self,
        explained: impl FnOnce(Box<OutOfMemory>, usize) -> Box<OutOfMemory>,
    ) -> Self {
        match self {
            Self::OutOfMemory(error) => Self::OutOfMemory(explained(error, 0)),
            Self::Part { index, device, source } => match *source {
                Self::OutOfMemory(error) => {
                    let source = Box::new(Self::OutOfMemory(explained(error, index)));
                    Self::Part { index, device, source }
                }
                other => Self::Part { index, device, source: Box::new(other) },
            },
            other => other,
        }
    }

    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Rank { source, .. } | Self::Part { source, .. } => source.hint(),
            Self::Neighbour { .. } => None,
            Self::TooLarge { .. } => Some(
                "`oomph plan` shows what each device holds, and what makes it fit".into(),
            ),
            Self::Silent { .. } => Some("where micro-batches take that long, raise `device.timeout`".into()),
            Self::Group(GroupError::Timeout { .. }) => Some(
                "it hangs, or is that slow: `device.timeout` says how long the others wait; the last checkpoint serves to \
                 start again"
                    .into(),
            ),
            Self::Group(_) => None,
            Self::ReplicasDiffer { .. } => Some(
                "a device computes wrongly, or a kernel is not deterministic; go on from the last checkpoint, and compare \
                 more often with `device.check_every` to find out when it happens"
                    .into(),
            ),
            Self::Cut(CutError::TooFewStages { stages, .. }) => {
                Some(format!("name at most {stages} devices, or train replicas with `device.strategy=ddp`"))
            }
            Self::OtherVersion { .. } | Self::Thread(_) | Self::Cut(_) => None,
            Self::Session(error) => error.hint(),
            Self::Data(error) => error.hint(),
            Self::Model(error) => error.hint(),
            Self::OutOfMemory(error) => error.hint(),
            // Where its message is known, the explanation has a hint of its own.
            Self::Task(_) | Self::Device { .. } | Self::NothingToEvaluate { .. } => None,
            Self::Run(error) => error.hint(),
            Self::State(error) => error.hint(),
            Self::LossScale { .. } => Some(
                "set `memory.precision=bf16`, which has the range of 32 bits and needs no loss scale, or lower \
                 `optimizer.lr`"
                    .into(),
            ),
            Self::NonFiniteLoss { .. } | Self::NonFiniteParameter { .. } => Some(
                "lower `optimizer.lr`, warm up with `schedule.warmup_steps`, or bound the gradients with \
                 `optimizer.clip_global_norm=1.0`"
                    .into(),
            ),
        }
    }
}
