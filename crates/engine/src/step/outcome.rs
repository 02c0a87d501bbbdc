use std::ops::Range;

use burn::tensor::Tensor;
use oomph_model::{AnyTensor, Carried, Named, Stages};
use oomph_parallel::{PipelineTrace, Span};

use crate::{
    EngineError,
    layout::{DeviceSlot, Layout, Role},
    part::{PartOutcome, Release, StepUndo},
};

/// The result of one step. Its tensors are still on the device, so reading them waits for the device.
#[derive(Clone, Debug)]
pub struct StepOutcome {
    /// The mean loss over the samples, `[1]`. `None` for a batch without samples.
    pub loss: Option<Tensor<1>>,
    /// The number of correctly predicted samples, `[1]`, if the task counts them.
    pub correct: Option<Tensor<1>>,
    /// Samples of the batch over all ranks.
    pub samples: usize,
    /// Whether the step was skipped because a gradient was not finite. A skipped step changes only the loss scale, and
    /// its loss may not be finite.
    pub is_skipped: bool,
}

/// The share of time that one of several devices was idle.
#[derive(Clone, Debug)]
pub struct DeviceUse {
    /// The stages of the device, if the model is split.
    pub stages: Option<Range<usize>>,
    /// The idle share of forward and backward, from 0 to 1.
    pub idle_share: f64,
}

/// The results of all devices of a step.
pub(super) struct DevicesOutcome {
    /// The whole model, also if a device failed.
    pub(super) model: Stages,
    /// One for each owner of parameters.
    pub(super) undo: Vec<StepUndo>,
    /// One for each owner of parameters, if gradients are released.
    pub(super) releases: Vec<Release>,
    /// The gradients that were not released, one map for each owner of parameters.
    pub(super) gradients: Vec<Named<AnyTensor>>,
    pub(super) loss: Option<Tensor<1>>,
    pub(super) correct: Option<Tensor<1>>,
    /// The carried state after the batch.
    pub(super) left: Carried,
    /// The work of all devices with its times; or the error that ended the step.
    pub(super) trace: Result<PipelineTrace, EngineError>,
}

impl DevicesOutcome {
    /// Combines the results of the devices of `layout`.
    pub(super) fn collect(layout: &Layout, parts: Vec<PartOutcome>, sizes: &[usize]) -> Self {
        match &layout.first().role {
            Role::Stages { .. } => Self::of_stages(layout, parts),
            Role::Coordinator(_) | Role::Replica { .. } => Self::of_replicas(layout, parts, sizes),
        }
    }

    fn of_stages(layout: &Layout, parts: Vec<PartOutcome>) -> Self {
        let (mut models, mut undo) = (Vec::new(), Vec::new());
        let (mut releases, mut gradients) = (Vec::new(), Vec::new());
        let (mut loss, mut correct, mut left) = (None, None, Carried::new());
        let mut spans = Vec::new();
        for (slot, part) in layout.slots().iter().zip(parts) {
            models.push(part.model);
            undo.push(part.undo);
            releases.extend(part.release);
            gradients.push(part.gradients);
            loss = loss.or(part.loss);
            correct = correct.or(part.correct);
            left.extend(slot.run_here(|| Carried::joined(part.left)));
            spans.push(part.spans);
        }
        let trace = traced(layout.slots(), spans);
        Self { model: Layout::joined(models), undo, releases, gradients, loss, correct, left, trace }
    }

    /// The coordinator has the model, the gradients, which it never releases, and the loss. The carried state is that of all devices, in the
    /// order of the samples.
    fn of_replicas(layout: &Layout, parts: Vec<PartOutcome>, sizes: &[usize]) -> Self {
        let plain = layout.first().plain();
        let mut left: Vec<Vec<Carried>> = vec![Vec::new(); sizes.len()];
        let (mut first, mut spans) = (None, Vec::new());
        for (slot, mut part) in layout.slots().iter().zip(parts) {
            let rounds = (0..sizes.len()).filter(|round| !slot.role.rows(sizes[*round]).is_empty());
            for (round, carried) in rounds.zip(std::mem::take(&mut part.left)) {
                left[round].push(if slot.index == 0 { carried } else { carried.moved(&plain) });
            }
            spans.push(std::mem::replace(&mut part.spans, Ok(Vec::new())));
            first.get_or_insert(part);
        }
        // A layout has a first device.
        let PartOutcome { model, undo, gradients, loss, correct, .. } = first.expect("a coordinator");
        let left = Carried::joined(left.into_iter().flatten().collect());
        let trace = traced(layout.slots(), spans);
        let (undo, gradients) = (vec![undo], vec![gradients]);
        Self { model, undo, releases: Vec::new(), gradients, loss, correct, left, trace }
    }
}

/// The spans of all devices. If devices failed: the first error that another device's failure did not cause.
fn traced(
    slots: &[DeviceSlot],
    spans: Vec<Result<Vec<Span>, EngineError>>,
) -> Result<PipelineTrace, EngineError> {
    let (mut trace, mut causes, mut consequences) = (PipelineTrace::default(), Vec::new(), Vec::new());
    for (slot, spans) in slots.iter().zip(spans) {
        match spans {
            Ok(spans) => trace.devices.push(spans),
            Err(error @ EngineError::Neighbour { .. }) => consequences.push((slot, error)),
            Err(error) => causes.push((slot, error)),
        }
    }
    match causes.into_iter().chain(consequences).next() {
        None => Ok(trace),
        Some((slot, error)) => Err(error.on(slot)),
    }
}
