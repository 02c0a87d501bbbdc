use std::{io, path::PathBuf};

use oomph_advice::{
    PlanError,
    out_of_memory::{OomContext, OutOfMemory, explain},
};
use oomph_config::{DeviceName, Difference, sections::eval_metric::EvalMetric};
use oomph_core::{printable, significant};
use oomph_data::DataError;
use oomph_engine::{EngineError, record::RecordError, session::Session, task::TaskError};
use oomph_model::ModelError;
use oomph_parallel::group::GroupError;
use oomph_runs::{RunError, state::StateError};

use crate::{open::SessionError, steadier::Steadier};

/// Why a training or an evaluation failed.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// Before it began.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// In the plan.
    #[error(transparent)]
    Plan(PlanError),
    /// In the data.
    #[error(transparent)]
    Data(#[from] DataError),
    /// In a step.
    #[error(transparent)]
    Engine(EngineError),
    /// In the run directory.
    #[error(transparent)]
    Run(#[from] RunError),
    /// In a checkpoint.
    #[error(transparent)]
    State(#[from] StateError),
    /// The newest run of a configuration computes something else than the configuration does now.
    #[error("the newest run `{}` is another training: {}", run.display(), difference.described())]
    OtherTraining {
        /// The run directory.
        run: PathBuf,
        /// The first setting that differs.
        difference: Box<Difference>,
    },
    /// A checkpoint of another model is resumed.
    #[error("`{}` trained the model `{before}`, and this config has `{now}`", run.display())]
    OtherModel {
        /// The run or checkpoint.
        run: PathBuf,
        /// The model of the checkpoint.
        before: String,
        /// The model of the configuration.
        now: String,
    },
    /// A checkpoint is resumed that is beyond the end of the training.
    #[error("`{}` is at step {done}, beyond the {steps} steps of this training", run.display())]
    BeyondEnd {
        /// The run or checkpoint.
        run: PathBuf,
        /// The step of the checkpoint.
        done: usize,
        /// All steps of the training.
        steps: usize,
    },
    /// A step, an evaluation or a plan needs more memory than the device may use.
    #[error(transparent)]
    OutOfMemory(#[from] Box<OutOfMemory>),
    /// One of several ranks failed, and training with it.
    #[error("rank {rank} on `{device}` failed")]
    Rank {
        /// The number of the rank, from 0.
        rank: usize,
        /// The device of the rank.
        device: DeviceName,
        /// The failure.
        source: Box<TrainError>,
    },
    /// One of the devices of this process failed, and the step with it.
    #[error("device {index} (`{device}`) failed")]
    OnDevice {
        /// The number of the device, from 0.
        index: usize,
        /// The name of the device.
        device: String,
        /// The failure.
        source: Box<TrainError>,
    },
    /// A thread could not be started.
    #[error("the system refuses to start a thread for a device")]
    Thread(#[source] io::Error),
    /// No held-out sample can be read.
    #[error("none of the {unreadable} held-out samples can be read, so there is nothing to evaluate")]
    NothingToEvaluate {
        /// Unreadable samples.
        unreadable: usize,
    },
    /// Evaluations do not have the measure `train.best`.
    #[error("`train.best` is `{}`, but the task counts no correct predictions", metric.name())]
    NotMeasured {
        /// The measure.
        metric: EvalMetric,
    },
    /// A callback gave no learning rate.
    #[error(
        "the callback gave the learning rate {lr} for step {step}; expected a finite number of at least 0"
    )]
    CallbackLr {
        /// The step, from 1.
        step: usize,
        /// What it gave.
        lr: f64,
    },
    /// A callback wants predictions, and other ranks have some of them.
    #[error("the callback wants predictions, but each of {ranks} ranks evaluates its own samples")]
    PredictionsOnRanks {
        /// The number of ranks.
        ranks: usize,
    },
    /// The loss is infinite or not a number. Nothing was saved since.
    #[error("the loss of step {step} is {loss} (learning rate {:?}); {}", significant(*.lr, 3), kept(.checkpoint.as_ref()))]
    NonFiniteLoss {
        /// The first step with such a loss, from 1.
        step: usize,
        /// The loss.
        loss: f64,
        /// The learning rate of that step.
        lr: f64,
        /// The last checkpoint before it.
        checkpoint: Option<PathBuf>,
        /// Settings that may help.
        steadier: Steadier,
    },
    /// Gradients overflow at the smallest loss scale, so the loss scale is not the cause.
    #[error("{error}; {}", kept(.checkpoint.as_ref()))]
    LossScale {
        /// The error of the step.
        error: EngineError,
        /// The last checkpoint before it.
        checkpoint: Option<PathBuf>,
    },
    /// A step with a finite loss made a part of the state infinite or not a number. It was not saved.
    #[error(
        "step {step} made {part} `{name}` infinite or not a number (learning rate {:?}); {}",
        significant(*.lr, 3),
        kept(.checkpoint.as_ref())
    )]
    NonFiniteState {
        /// The step after which it was found, from 1.
        step: usize,
        /// What it is, such as `the optimizer state`.
        part: &'static str,
        /// Its name: of several the one with the fewest such values, which is closest to the cause.
        name: String,
        /// The learning rate of that step.
        lr: f64,
        /// The last checkpoint before it.
        checkpoint: Option<PathBuf>,
        /// Settings that may help.
        steadier: Steadier,
    },
}

fn kept(checkpoint: Option<&PathBuf>) -> String {
    match checkpoint {
        Some(path) => format!("the last good checkpoint is `{}`", path.display()),
        None => "no checkpoint was saved before it".into(),
    }
}

impl From<EngineError> for TrainError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Exhausted(exhausted) => Self::OutOfMemory(Box::new((*exhausted).into())),
            EngineError::OnDevice { index, device, source } => {
                Self::OnDevice { index, device, source: Box::new((*source).into()) }
            }
            error @ EngineError::LossScale { .. } => Self::LossScale { error, checkpoint: None },
            error => Self::Engine(error),
        }
    }
}

impl From<PlanError> for TrainError {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Engine(error) => error.into(),
            PlanError::OutOfMemory(error) => Self::OutOfMemory(error),
            PlanError::Config(error) => Self::Session(error.into()),
            error => Self::Plan(error),
        }
    }
}

/// Errors that the engine has a variant for.
macro_rules! through_the_engine {
    ($($error:ty),*) => {
        $(impl From<$error> for TrainError {
            fn from(error: $error) -> Self {
                EngineError::from(error).into()
            }
        })*
    };
}

through_the_engine!(oomph_model::DeviceError, ModelError, TaskError, RecordError, GroupError);

impl TrainError {
    /// The out-of-memory error, of this or another device or rank.
    pub fn out_of_memory(&self) -> Option<&OutOfMemory> {
        match self {
            Self::OutOfMemory(error) => Some(error),
            Self::Rank { source, .. } | Self::OnDevice { source, .. } => source.out_of_memory(),
            _ => None,
        }
    }

    /// The same error with a report, if a device of this process ran out of memory and `known` gives more facts about it.
    /// `known` receives the error and the number of the device, which is 0 unless several devices share a step.
    pub(crate) fn explained(
        mut self,
        session: &Session,
        known: impl FnOnce(&mut OutOfMemory, usize) -> Option<OomContext>,
    ) -> Self {
        let of_device = match &mut self {
            Self::OutOfMemory(error) => Some((error, 0)),
            Self::OnDevice { index, source, .. } => match &mut **source {
                Self::OutOfMemory(error) => Some((error, *index)),
                _ => None,
            },
            _ => None,
        };
        if let Some((error, device)) = of_device
            && let Some(known) = known(error, device)
        {
            explain(session, error, known);
        }
        self
    }

    /// A command or a setting that helps, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Session(error) => error.hint(),
            Self::Plan(error) => error.hint(),
            Self::Data(error) => error.hint(),
            Self::Engine(error) | Self::LossScale { error, .. } => error.hint(),
            Self::Run(error) => error.hint(),
            Self::State(error) => error.hint(),
            Self::OutOfMemory(error) => error.hint(),
            Self::Rank { source, .. } | Self::OnDevice { source, .. } => source.hint(),
            Self::OtherTraining { run, difference } => Some(format!(
                "`oomph train --resume {}` continues it as it was{}",
                printable(run.display()),
                difference.after.as_ref().map_or_else(String::new, |value| {
                    format!("; `--set {}={}` changes it on purpose", difference.key, value.typed())
                })
            )),
            Self::OtherModel { run, .. } => Some(format!(
                "`oomph train --resume {}` continues it with its own config",
                printable(run.display())
            )),
            Self::BeyondEnd { .. } => {
                Some("raise `train.epochs` or `train.steps`, or resume from an earlier checkpoint".into())
            }
            Self::NotMeasured { .. } => Some("`--set \"train.best=eval loss\"` goes by the loss".into()),
            Self::PredictionsOnRanks { .. } => Some(
                "`device.strategy = \"dp\"`, `\"model\"` and `\"pipeline\"` evaluate in one process".into(),
            ),
            Self::CallbackLr { .. } | Self::Thread(_) | Self::NothingToEvaluate { .. } => None,
            Self::NonFiniteLoss { steadier, .. } | Self::NonFiniteState { steadier, .. } => {
                Some(steadier.to_string())
            }
        }
    }
}
