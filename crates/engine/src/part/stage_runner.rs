use burn::tensor::Tensor;
use oomph_core::{Phase, phase};
use oomph_model::{AnyTensor, Carried, Named, Pass, Stages, autodiff::BackwardOutcome};

use super::{
    loss::{ComputedLoss, LossComputation},
    segments::{Root, Segments, Trail},
    step_undo::StepUndo,
};
use crate::{EngineError, exhausted, watch::Watch};

/// Runs forward and backward of one micro-batch through the stages on a device.
pub(super) struct StageRunner<'a> {
    pub(super) model: &'a mut Stages,
    pub(super) segments: &'a Segments,
    pub(super) undo: &'a mut StepUndo,
    pub(super) watch: Option<&'a mut (dyn Watch + 'static)>,
}

/// Called after the backward of a segment, with its gradients. It may take gradients, and then tells the watch.
pub(super) type SegmentPassed<'a> = dyn FnMut(usize, &mut Named<AnyTensor>, Option<&mut (dyn Watch + 'static)>) -> Result<(), EngineError>
    + 'a;

/// A micro-batch between its forward and its backward.
pub(super) struct InFlight {
    trail: Trail,
    again: Pass,
    loss: Option<Tensor<1>>,
}

/// The result of a forward.
pub(super) struct Forwarded {
    /// The output, if stages follow on another device.
    pub(super) output: Option<AnyTensor>,
    /// The weighted loss without graph, on the device with the last stage.
    pub(super) loss: Option<Tensor<1>>,
    /// The number of correctly predicted samples.
    pub(super) correct: Option<Tensor<1>>,
    pub(super) carried: Option<Carried>,
    pub(super) in_flight: InFlight,
}

impl StageRunner<'_> {
    /// Runs the stages, updates running statistics, and computes the loss if there are targets.
    pub(super) fn forward(
        &mut self,
        input: AnyTensor,
        mut pass: Pass,
        comparison: Option<LossComputation<'_>>,
    ) -> Result<Forwarded, EngineError> {
        let _phase = phase(Phase::Forward);
        let (output, trail) =
            self.segments.forward(self.model, input, &mut pass, self.watch.as_deref_mut())?;
        let (again, carried) = (pass.again(), pass.take_carried());
        let updates = pass.into_updates();
        self.undo.keep(self.model, &updates)?;
        self.model.apply(updates);
        let mut forwarded = Forwarded {
            output: None,
            loss: None,
            correct: None,
            carried,
            in_flight: InFlight { trail, again, loss: None },
        };
        match comparison {
            Some(comparison) => {
                let ComputedLoss { loss, correct, root } = comparison.compare(output)?;
                (forwarded.loss, forwarded.correct) = (Some(loss), correct);
                forwarded.in_flight.loss = Some(root);
            }
            None => forwarded.output = Some(output),
        }
        self.boundary();
        Ok(forwarded)
    }

    /// Backpropagates from the loss, or from the `gradient` of the output. `passed` is called after each segment, and may
    /// take gradients.
    pub(super) fn backward(
        &mut self,
        in_flight: InFlight,
        gradient: Option<AnyTensor>,
        passed: &mut SegmentPassed<'_>,
    ) -> Result<BackwardOutcome, EngineError> {
        let _phase = phase(Phase::Backward);
        let InFlight { trail, again, loss } = in_flight;
        let root = match (loss, gradient) {
            (Some(loss), _) => Root::Loss(loss),
            (None, Some(gradient)) => Root::Gradient(gradient),
            // All stages here and after are frozen.
            (None, None) => return Ok(BackwardOutcome::default()),
        };
        let mut watch = self.watch.as_deref_mut();
        let mut passed =
            |segment, newest: &mut Named<AnyTensor>| passed(segment, newest, watch.as_deref_mut());
        let outcome = self.segments.backward(self.model, trail, root, &again, &mut passed)?;
        self.boundary();
        exhausted::check()?;
        Ok(outcome)
    }

    fn boundary(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.boundary("");
        }
    }
}
