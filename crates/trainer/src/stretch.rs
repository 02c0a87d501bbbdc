//! Forward and backward of one micro-batch through the stages that a device has: all of the model, or a part of it.

use burn::tensor::Tensor;
use oomph_core::{Phase, phase};
use oomph_model::{
    AnyTensor, Carried, Pass, Stages,
    autodiff::{self, BackwardOutcome},
};

use crate::{
    DeviceTargets, Task, TrainError, Watch, out_of_memory,
    segments::{Passed, Root, Segments, Trail},
    unfinished::Unfinished,
};

/// Stages, and what a step does with them.
pub(crate) struct Stretch<'a> {
    pub(crate) model: &'a mut Stages,
    pub(crate) segments: &'a Segments,
    pub(crate) unfinished: &'a mut Unfinished,
    pub(crate) watch: Option<&'a mut (dyn Watch + 'static)>,
}

/// What the outputs of a micro-batch are compared with: where the last stage is.
pub(crate) struct Comparison<'a> {
    pub(crate) task: &'a dyn Task,
    pub(crate) targets: DeviceTargets,
    /// The micro-batch's share of the batch.
    pub(crate) weight: f32,
    /// What the loss is multiplied by before backward.
    pub(crate) loss_scale: Option<f32>,
}

/// A micro-batch between its forward and its backward.
pub(crate) struct InFlight {
    trail: Trail,
    again: Pass,
    loss: Option<Tensor<1>>,
}

/// What forward gives.
pub(crate) struct Forwarded {
    /// For the stages that follow on another device.
    pub(crate) output: Option<AnyTensor>,
    /// Weighted, off the graph: where the last stage is.
    pub(crate) loss: Option<Tensor<1>>,
    /// How many samples the model was right about.
    pub(crate) correct: Option<Tensor<1>>,
    pub(crate) carried: Option<Carried>,
    pub(crate) in_flight: InFlight,
}

impl Stretch<'_> {
    /// Runs the stages, applies what they measured, and compares where there is something to compare with.
    pub(crate) fn forward(
        &mut self,
        input: AnyTensor,
        mut pass: Pass,
        comparison: Option<Comparison<'_>>,
    ) -> Result<Forwarded, TrainError> {
        let _phase = phase(Phase::Forward);
        let (output, trail) =
            self.segments.forward(self.model, input, &mut pass, self.watch.as_deref_mut())?;
        let (again, carried) = (pass.again(), pass.take_carried());
        let updates = pass.into_updates();
        self.unfinished.keep(self.model, &updates)?;
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
                let Compared { loss, correct, root } = comparison.compare(output)?;
                (forwarded.loss, forwarded.correct) = (Some(loss), correct);
                forwarded.in_flight.loss = Some(root);
            }
            None => forwarded.output = Some(output),
        }
        self.boundary();
        Ok(forwarded)
    }

    /// Goes back from the loss, or from the `gradient` of the output that the stages behind gave.
    pub(crate) fn backward(
        &mut self,
        in_flight: InFlight,
        gradient: Option<AnyTensor>,
        passed: &mut Passed<'_>,
    ) -> Result<BackwardOutcome, TrainError> {
        let _phase = phase(Phase::Backward);
        let InFlight { trail, again, loss } = in_flight;
        let root = match (loss, gradient) {
            (Some(loss), _) => Root::Loss(loss),
            (None, Some(gradient)) => Root::Gradient(gradient),
            // The stages behind are frozen, and so is what they would go on from.
            (None, None) => return Ok(BackwardOutcome::default()),
        };
        let outcome = self.segments.backward(self.model, trail, root, &again, passed)?;
        self.boundary();
        out_of_memory::check()?;
        Ok(outcome)
    }

    fn boundary(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.boundary("");
        }
    }
}

/// What comparing the outputs gives.
pub(crate) struct Compared {
    /// Weighted, off the graph.
    pub(crate) loss: Tensor<1>,
    /// How many samples the model was right about.
    pub(crate) correct: Option<Tensor<1>>,
    /// Where backward starts.
    pub(crate) root: Tensor<1>,
}

impl Comparison<'_> {
    /// Compares the outputs with the targets.
    pub(crate) fn compare(self, output: AnyTensor) -> Result<Compared, TrainError> {
        let Self { task, targets, weight, loss_scale } = self;
        let loss = task.loss(&output, &targets)?;
        let correct = task.correct(&output, &targets).map(autodiff::inner);
        drop((output, targets));
        // A weight of one changes no bit.
        let weighted = if weight == 1.0 { loss } else { loss.mul_scalar(weight) };
        let loss = autodiff::inner(weighted.clone());
        let root = match loss_scale {
            Some(scale) => weighted.mul_scalar(scale),
            None => weighted,
        };
        Ok(Compared { loss, correct, root })
    }
}
