//! The usual loss for the targets, with a value added in the pass that is poisoned.

use oomph::{AnyTensor, Classification, DeviceTargets, Regression, Task, TaskError, burn::tensor::Tensor};

use crate::model;

/// Cross-entropy for classes, the mean square for values.
pub(crate) struct PoisonedLoss;

impl Task for PoisonedLoss {
    fn loss(&self, output: &AnyTensor, targets: &DeviceTargets) -> Result<Tensor<1>, TaskError> {
        let loss = match targets {
            DeviceTargets::Values(_) => Regression.loss(output, targets),
            _ => Classification::default().loss(output, targets),
        }?;
        Ok(match model::of_loss() {
            Some(poison) => {
                let added = poison.tensor(loss.dims(), &loss.device());
                loss + added
            }
            None => loss,
        })
    }

    fn correct(&self, output: &AnyTensor, targets: &DeviceTargets) -> Option<Tensor<1>> {
        match targets {
            DeviceTargets::Values(_) => None,
            _ => Classification::default().correct(output, targets),
        }
    }
}
