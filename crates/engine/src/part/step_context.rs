use std::{sync::Arc, time::Instant};

use burn::tensor::Tensor;
use oomph_core::Key;
use oomph_model::{AnyTensor, Peers, Policy, autodiff};

use super::token_chunks::TokenChunk;
use crate::{
    EngineError,
    task::{DeviceTargets, Task},
};

/// The values that all devices and micro-batches of a step share.
#[derive(Clone, Copy)]
pub(crate) struct StepContext<'a> {
    /// The key of the random numbers of the step.
    pub(crate) key: Key,
    pub(crate) policy: Policy,
    pub(crate) task: &'a dyn Task,
    /// The weight of all micro-batches over all ranks together: [`Task::weight`].
    pub(crate) weight: f64,
    /// The weight of each micro-batch.
    pub(crate) weights: &'a [f64],
    /// Whether each row continues the sample of the same row in the step before.
    pub(crate) continues: bool,
    pub(crate) loss_scale: Option<f32>,
    /// The tokens of a chunk of the loss, if it is computed by chunks.
    pub(crate) loss_chunk: Option<usize>,
    /// The ranks that batch normalisation shares statistics with.
    pub(crate) peers: Option<&'a Arc<dyn Peers>>,
    /// Samples of each micro-batch.
    pub(crate) sizes: &'a [usize],
    /// When the step began.
    pub(crate) start: Instant,
}

/// The loss of a micro-batch.
pub(crate) struct ComputedLoss {
    /// The loss, weighted by the micro-batch's share of the batch, without graph.
    pub(crate) loss: Tensor<1>,
    /// The number of correctly predicted samples.
    pub(crate) correct: Option<Tensor<1>>,
    /// The weighted and scaled loss, on the graph: backward starts here.
    pub(crate) root: Tensor<1>,
}

impl StepContext<'_> {
    /// Computes the loss of the `output` of the micro-batch `index`.
    pub(crate) fn loss(
        &self,
        output: AnyTensor,
        targets: DeviceTargets,
        index: usize,
    ) -> Result<ComputedLoss, EngineError> {
        self.weighted(output, targets, self.weights[index])
    }

    /// Computes the loss of the `output` of a chunk of the micro-batch `index`.
    pub(crate) fn chunk_loss(
        &self,
        output: AnyTensor,
        chunk: TokenChunk,
        index: usize,
    ) -> Result<ComputedLoss, EngineError> {
        let TokenChunk { targets, share, samples, .. } = chunk;
        let computed = self.weighted(output, targets, self.weights[index] * share)?;
        // The task counts a chunk as one sample.
        let correct = computed.correct.map(|correct| correct.mul_scalar(samples));
        Ok(ComputedLoss { correct, ..computed })
    }

    /// Computes the loss of a part of the batch with this weight.
    fn weighted(
        &self,
        output: AnyTensor,
        targets: DeviceTargets,
        weight: f64,
    ) -> Result<ComputedLoss, EngineError> {
        let loss = self.task.loss(&output, &targets)?;
        let correct = self.task.correct(&output, &targets).map(autodiff::inner);
        drop((output, targets));
        let weight = weight as f32 / self.weight as f32;
        // Multiplying by 1 changes no bit, so the operation is left out.
        let weighted = if weight == 1.0 { loss } else { loss.mul_scalar(weight) };
        let loss = autodiff::inner(weighted.clone());
        let root = match self.loss_scale {
            Some(scale) => weighted.mul_scalar(scale),
            None => weighted,
        };
        Ok(ComputedLoss { loss, correct, root })
    }
}
