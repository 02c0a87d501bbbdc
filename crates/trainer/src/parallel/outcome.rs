//! What a step on several devices of this process gives.

use burn::tensor::Tensor;
use oomph_model::{AnyTensor, Carried, Named, Stages};
use oomph_parallel::Course;

use super::Place;
use crate::{TrainError, unfinished::Unfinished};

/// What forward and backward of a step gave, on the devices.
pub(crate) struct SeveralDone {
    /// The parts, with what they know of the unfinished step.
    pub(crate) model: Vec<Stages>,
    pub(crate) unfinished: Vec<Unfinished>,
    pub(crate) outcome: Result<Outcome, TrainError>,
}

/// What there is where no device failed.
pub(crate) struct Outcome {
    /// Of each part.
    pub(crate) gradients: Vec<Named<AnyTensor>>,
    pub(crate) loss: Option<Tensor<1>>,
    pub(crate) correct: Option<Tensor<1>>,
    /// What recurrent layers leave.
    pub(crate) left: Carried,
    /// Who did what when.
    pub(crate) course: Course,
}

/// Of the errors of several devices, by index, that which is not a consequence of another.
pub(super) fn first_cause(errors: Vec<(usize, TrainError)>, places: &[Place]) -> Option<TrainError> {
    let is_consequence = |error: &TrainError| matches!(error, TrainError::Neighbour { .. });
    let (causes, consequences): (Vec<_>, Vec<_>) =
        errors.into_iter().partition(|(_, error)| !is_consequence(error));
    let (index, error) = causes.into_iter().chain(consequences).next()?;
    Some(match index {
        0 => error,
        _ => {
            let device = places[index].name.clone();
            TrainError::Part { index, device, source: Box::new(error) }
        }
    })
}
