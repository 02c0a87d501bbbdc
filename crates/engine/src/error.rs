use std::time::Duration;

use oomph_config::DeviceName;
use oomph_model::{DeviceError, ModelError};
use oomph_parallel::group::GroupError;

use crate::{device_failure, layout::DeviceSlot, record::RecordError, shortage::Exhausted, task::TaskError};

/// An error that ends a training step.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The model refused its input, or its device failed.
    #[error(transparent)]
    Model(ModelError),
    /// The task refused the output or the targets.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// A tensor could not be copied to the host, or back.
    #[error(transparent)]
    Record(RecordError),
    /// The step needed more memory than the device may use.
    #[error(transparent)]
    Exhausted(#[from] Box<Exhausted>),
    /// A device failed. Its memory can no longer be trusted.
    #[error("{} failed: {message}", named(.device.as_ref()))]
    Device {
        /// The device, if it is known.
        device: Option<DeviceName>,
        /// The first error message of the device.
        message: String,
    },
    /// A collective among ranks failed.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// One of the devices of this process failed.
    #[error("device {index} (`{device}`) failed")]
    OnDevice {
        /// The number of the device, from 0.
        index: usize,
        /// The name of the device.
        device: String,
        /// The failure.
        source: Box<EngineError>,
    },
    /// The device at the other end of a link stopped.
    #[error("device {device} stopped in the middle of a step")]
    Neighbour {
        /// The number of the device, from 0.
        device: usize,
    },
    /// The device at the other end of a link does not answer.
    #[error("device {device} sent nothing within {waited:?}")]
    Silent {
        /// The number of the device, from 0.
        device: usize,
        /// The timeout.
        waited: Duration,
    },
    /// The replicas no longer have the same parameters.
    #[error("after step {step} the parameters of rank 0 differ from those of {}", listed(.ranks))]
    ReplicasDiffer {
        /// The number of finished optimizer steps.
        step: usize,
        /// The ranks whose parameters differ from those of rank 0.
        ranks: Vec<usize>,
    },
    /// Rank 0 sent a message that this rank cannot read.
    #[error("rank {rank} cannot read the message of rank 0: the ranks run different versions of oomph")]
    OtherVersion {
        /// This rank.
        rank: usize,
    },
    /// Gradients overflow at the smallest loss scale, so a smaller scale would not help.
    #[error(
        "the gradients of step {step} are infinite or not a number even at a loss scale of 2^{} \
         (learning rate {:?})",
        .scale.log2(), oomph_core::significant(*.lr, 3)
    )]
    LossScale {
        /// The step, from 1.
        step: usize,
        /// The loss scale.
        scale: f32,
        /// The learning rate of the step.
        lr: f64,
    },
}

/// `` `cuda:1` ``, or `the device`.
pub(crate) fn named(device: Option<&DeviceName>) -> String {
    device.map_or_else(|| "the device".to_owned(), |device| format!("`{device}`"))
}

fn listed(ranks: &[usize]) -> String {
    let numbers: Vec<_> = ranks.iter().map(usize::to_string).collect();
    format!("rank{} {}", if ranks.len() == 1 { "" } else { "s" }, numbers.join(", "))
}

impl From<DeviceError> for EngineError {
    fn from(error: DeviceError) -> Self {
        device_failure::behind(&error.reason)
    }
}

impl From<ModelError> for EngineError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Device(error) => error.into(),
            error => Self::Model(error),
        }
    }
}

impl From<RecordError> for EngineError {
    fn from(error: RecordError) -> Self {
        match error {
            RecordError::Model(error) => error.into(),
            error => Self::Record(error),
        }
    }
}

impl EngineError {
    /// The error with the device of `slot`, unless this is the first.
    pub(crate) fn on(self, slot: &DeviceSlot) -> Self {
        match slot.index {
            0 => self,
            index => Self::OnDevice { index, device: slot.name.clone(), source: Box::new(self) },
        }
    }

    /// A command or a setting that may fix the error.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Model(error) => error.hint(),
            Self::Record(error) => error.hint(),
            Self::OnDevice { source, .. } => source.hint(),
            Self::Silent { .. } => Some("if a micro-batch takes longer than that, raise `device.timeout`".into()),
            Self::Group(GroupError::Timeout { .. }) => Some(
                "the rank hangs or is slow; `device.timeout` sets how long the other ranks wait; resume from the last \
                 checkpoint"
                    .into(),
            ),
            Self::ReplicasDiffer { .. } => Some(
                "a device computes wrongly, or a kernel is not deterministic; resume from the last checkpoint, and \
                 lower `device.check_every` to find the step"
                    .into(),
            ),
            Self::LossScale { .. } => Some(
                "set `memory.precision=bf16`, which has the range of 32 bits and needs no loss scale, or lower \
                 `optimizer.lr`"
                    .into(),
            ),
            Self::Task(_)
            | Self::Exhausted(_)
            | Self::Device { .. }
            | Self::Group(_)
            | Self::Neighbour { .. }
            | Self::OtherVersion { .. } => None,
        }
    }
}
