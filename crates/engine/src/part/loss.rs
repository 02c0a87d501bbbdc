use burn::tensor::{Device, Tensor};
use oomph_core::{Phase, phase};
use oomph_model::{AnyTensor, Policy, Stages, autodiff};

use crate::{
    EngineError,
    task::{DeviceTargets, Task},
};

/// The task, targets and factors for the loss of a micro-batch.
pub(crate) struct LossComputation<'a> {
    pub(crate) task: &'a dyn Task,
    pub(crate) targets: DeviceTargets,
    /// The micro-batch's share of the batch.
    pub(crate) weight: f32,
    /// The loss scale, in fp16.
    pub(crate) loss_scale: Option<f32>,
}

/// The loss of a micro-batch.
pub(crate) struct ComputedLoss {
    /// The weighted loss, without graph.
    pub(crate) loss: Tensor<1>,
    /// The number of correctly predicted samples.
    pub(crate) correct: Option<Tensor<1>>,
    /// The weighted and scaled loss, on the graph: backward starts here.
    pub(crate) root: Tensor<1>,
}

impl LossComputation<'_> {
    /// Computes the loss of `output`.
    pub(crate) fn compare(self, output: AnyTensor) -> Result<ComputedLoss, EngineError> {
        let Self { task, targets, weight, loss_scale } = self;
        let loss = task.loss(&output, &targets)?;
        let correct = task.correct(&output, &targets).map(autodiff::inner);
        drop((output, targets));
        // Multiplying by 1 changes no bit, so the operation is left out.
        let weighted = if weight == 1.0 { loss } else { loss.mul_scalar(weight) };
        let loss = autodiff::inner(weighted.clone());
        let root = match loss_scale {
            Some(scale) => weighted.mul_scalar(scale),
            None => weighted,
        };
        Ok(ComputedLoss { loss, correct, root })
    }
}

/// The loss of the gathered outputs of all replicas, and the gradient of these outputs.
pub(crate) struct GatheredLoss {
    /// The weighted loss, without graph.
    pub(crate) loss: Tensor<1>,
    /// The number of correctly predicted samples.
    pub(crate) correct: Option<Tensor<1>>,
    /// The gradient of the outputs.
    pub(crate) gradient: Option<AnyTensor>,
}

impl LossComputation<'_> {
    /// Computes the loss of gathered outputs, and backpropagates to the outputs.
    pub(crate) fn compare_gathered(
        self,
        gathered: AnyTensor,
        policy: Policy,
        tracked: &Device,
    ) -> Result<GatheredLoss, EngineError> {
        let forward = phase(Phase::Forward);
        let leaf = gathered.tracked_as(true, tracked.gradient_checkpointing_strategy());
        let ComputedLoss { loss, correct, root } = self.compare(leaf.clone().widened(policy.kernels))?;
        drop(forward);
        let _phase = phase(Phase::Backward);
        let gradient = autodiff::backward_to(root, &Stages::new(), Some(leaf)).input;
        Ok(GatheredLoss { loss, correct, gradient })
    }
}
