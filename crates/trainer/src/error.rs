use std::path::PathBuf;

use oomph_data::DataError;
use oomph_model::ModelError;

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

fn kept(checkpoint: Option<&PathBuf>) -> String {
    match checkpoint {
        Some(path) => format!("the last good checkpoint is `{}`", path.display()),
        None => "no checkpoint was saved before it".into(),
    }
}

impl TrainError {
    /// What the user can do about it, where there is something.
    pub fn hint(&self) -> Option<String> {
        match self {
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
