//! A forward and backward through a model of which some stages are computed again in backward.

use std::ops::Range;

use burn::tensor::{Device, GradientCheckpointingStrategy, Tensor};
use oomph_core::{Generator, Phase, phase};
use oomph_model::{
    AnyTensor, Named, Pass, Policy, Stages,
    autodiff::{self, Awaiting, BackwardOutcome},
};

use crate::{TrainError, Watch, gradients::accumulate, out_of_memory};

/// A run of stages whose graph is there at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) stages: Range<usize>,
    pub(crate) kind: Kind,
}

/// What forward does with a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It records all of it.
    Kept,
    /// It records nothing of it, and backward runs it again (Chen et al. 2016, <https://arxiv.org/abs/1604.06174>).
    Recomputed,
    /// It records nothing of it, and backward ends before it: frozen stages that come before all that are trained.
    Frozen,
}

/// Which stages are computed again, and how a model is cut for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segments {
    segments: Vec<Segment>,
    /// Whether each stage computes again, by itself or as a segment.
    recompute: Vec<bool>,
    /// What is seeded before each stage, for layers that draw from Burn's own generator, such as its dropout: so that a
    /// resumed run draws what an uninterrupted one does, and a stage that runs again what it drew before.
    seeded: Option<Device>,
    position: Position,
}

/// Where the stages are in the whole model, of which a device may have a part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// How many stages come before.
    pub(crate) first_stage: usize,
    /// Whether some of those are trained, so that the gradient of the input is wanted.
    pub(crate) continues: bool,
    /// Whether stages follow, on another device.
    pub(crate) is_continued: bool,
}

/// Where backward starts.
#[derive(Debug)]
pub(crate) enum Root {
    /// From the loss.
    Loss(Tensor<1>),
    /// From the gradient of what the last stage put out, which the stages behind it gave.
    Gradient(AnyTensor),
}

/// What forward leaves of a segment for backward: of frozen ones nothing.
#[derive(Default)]
struct Left {
    /// On the graph, where it has a gradient; of a segment that is run again, off the graph.
    input: Option<AnyTensor>,
    /// `None` of a segment that is run again, and of the last, whose graph the loss holds.
    output: Option<Awaiting>,
}

/// Told of a segment by its index, and of all gradients there are.
pub(crate) type Passed<'a> = dyn FnMut(usize, &mut Named<AnyTensor>) -> Result<(), TrainError> + 'a;

/// What forward leaves.
pub(crate) struct Trail {
    left: Vec<Left>,
    /// How the graph is kept, which all that goes into it has to agree on.
    strategy: GradientCheckpointingStrategy,
}

impl Segments {
    /// Cuts `model` for `recompute`, which says it of each stage. The last stage is never run again: backward comes to
    /// it first, while everything is there, unless others follow it on another device. It is cut behind the stages `ends` too, where there is reason to.
    pub(crate) fn new(
        model: &Stages,
        mut recompute: Vec<bool>,
        policy: &Policy,
        seeded: Option<Device>,
        ends: &[usize],
        position: Position,
    ) -> Self {
        if let Some(last) = recompute.last_mut().filter(|_| !position.is_continued) {
            *last = *last && model.recomputes_itself(model.len() - 1, policy);
        }
        // The gradient of the input goes through frozen stages too.
        let frozen = if position.continues { 0 } else { model.leading_frozen() };
        // They keep nothing that could be computed again.
        recompute.iter_mut().take(frozen).for_each(|recompute| *recompute = false);
        let mut segments: Vec<Segment> = Vec::new();
        for (stage, recompute) in recompute.iter().enumerate() {
            let kind = match *recompute && !model.recomputes_itself(stage, policy) {
                _ if stage < frozen => Kind::Frozen,
                true => Kind::Recomputed,
                false => Kind::Kept,
            };
            match segments.last_mut() {
                Some(segment)
                    if kind == segment.kind && kind != Kind::Recomputed && !ends.contains(&(stage - 1)) =>
                {
                    segment.stages.end = stage + 1;
                }
                _ => segments.push(Segment { stages: stage..stage + 1, kind }),
            }
        }
        Self { segments, recompute, seeded, position }
    }

    /// The stages of each segment.
    pub(crate) fn stages_of_each(&self) -> impl Iterator<Item = Range<usize>> {
        self.segments.iter().map(|segment| segment.stages.clone())
    }

    /// Runs the model, and looks at the limit after each stage. Gives the output on the graph, and what backward needs.
    ///
    /// # Errors
    /// The first stage's error, and [`TrainError::OutOfMemory`].
    pub(crate) fn forward(
        &self,
        model: &Stages,
        input: AnyTensor,
        pass: &mut Pass,
        mut watch: Option<&mut (dyn Watch + 'static)>,
    ) -> Result<(AnyTensor, Trail), TrainError> {
        let plain_model =
            self.segments.iter().any(|segment| segment.kind != Kind::Kept).then(|| model.inference());
        let strategy = input.device().gradient_checkpointing_strategy();
        let mut left = Vec::new();
        let mut activation = input;
        // From the tracked model: the last stage, which alone borrows, is never run off the graph.
        model.lend(pass);
        for (index, segment) in self.segments.iter().enumerate() {
            let (kept, output) = match (&plain_model, segment.kind) {
                (Some(plain_model), Kind::Frozen) => {
                    let input = activation.inner();
                    let output = self.stages(plain_model, segment, input, pass, watch.as_deref_mut())?;
                    (Left::default(), output)
                }
                (Some(plain_model), Kind::Recomputed) => {
                    let input = activation.inner();
                    let output =
                        self.stages(plain_model, segment, input.clone(), pass, watch.as_deref_mut())?;
                    (Left { input: Some(input), output: None }, output)
                }
                _ => {
                    let leaf = |activation: &AnyTensor| activation.clone().inner().tracked_as(true, strategy);
                    let input = self.wants_gradient(index).then(|| leaf(&activation));
                    let from = match &input {
                        Some(input) => input.clone(),
                        None if index > 0 => activation.tracked_as(false, strategy),
                        None => activation,
                    };
                    let output = self.stages(model, segment, from, pass, watch.as_deref_mut())?;
                    // What 16 bits put out last is widened, and not needed itself any more.
                    let is_last = index + 1 == self.segments.len() && !self.position.is_continued;
                    (Left { input, output: (!is_last).then(|| Awaiting::new(output.clone())) }, output)
                }
            };
            left.push(kept);
            activation = output;
        }
        let output = match self.position.is_continued {
            true => activation.inner(),
            false => activation.widened(pass.policy()),
        };
        Ok((output, Trail { left, strategy }))
    }

    /// Whether the input of a segment has a gradient: not where it is the data, or what frozen stages make of it.
    fn wants_gradient(&self, index: usize) -> bool {
        self.position.continues || self.segments[..index].iter().any(|segment| segment.kind != Kind::Frozen)
    }

    /// One segment's stages.
    fn stages(
        &self,
        model: &Stages,
        segment: &Segment,
        input: AnyTensor,
        pass: &mut Pass,
        mut watch: Option<&mut (dyn Watch + 'static)>,
    ) -> Result<AnyTensor, TrainError> {
        let mut activation = input;
        for (stage, name) in model.names().enumerate().skip(segment.stages.start).take(segment.stages.len()) {
            pass.set_recompute(self.recompute[stage]);
            if let Some(device) = &self.seeded {
                device.seed(
                    Generator::at(
                        pass.key().with_name("burn").with((self.position.first_stage + stage) as u64),
                    )
                    .bits(),
                );
            }
            activation = model.forward_stage(stage, activation, pass)?;
            out_of_memory::check()?;
            if let Some(watch) = &mut watch {
                watch.boundary(name);
            }
        }
        Ok(activation)
    }

    /// The gradients, and that of the input where it is wanted, of a loss that was computed of the output of [`forward`](Self::forward): of the last segment by its
    /// graph, of those before it one by one, with the gradient of what they put out. What a segment that is run again
    /// draws, measures and starts from is that of the pass of the first time, [`again`](Pass::again).
    ///
    /// `passed` is told of each segment that backward has passed, and may take its gradients.
    ///
    /// # Errors
    /// A stage's error, and [`TrainError::OutOfMemory`].
    pub(crate) fn backward(
        &self,
        model: &Stages,
        trail: Trail,
        root: Root,
        again: &Pass,
        passed: &mut Passed<'_>,
    ) -> Result<BackwardOutcome, TrainError> {
        let Trail { mut left, strategy } = trail;
        let (mut loss, mut gradient) = match root {
            Root::Loss(loss) => (Some(loss), None),
            Root::Gradient(gradient) => (None, Some(gradient)),
        };
        let mut gradients = Named::new();
        while let Some(kept) = left.pop() {
            let segment = &self.segments[left.len()];
            let (input, output) = match kept.input {
                Some(input) if segment.kind == Kind::Recomputed => {
                    let _phase = phase(Phase::Forward);
                    let wants_gradient = self.wants_gradient(left.len());
                    let input = input.tracked_as(wants_gradient, strategy);
                    let mut pass = again.again();
                    let output = self.stages(model, segment, input.clone(), &mut pass, None)?;
                    (wants_gradient.then_some(input), Some(Awaiting::new(output)))
                }
                // Of frozen stages forward leaves nothing, and before them there is nothing that is trained.
                input => (input, kept.output),
            };
            let loss = match (loss.take(), gradient.take(), output) {
                (Some(loss), _, _) => loss,
                (None, Some(gradient), Some(output)) => output.resume(gradient),
                // Nothing before depends on parameters.
                _ => {
                    gradient = None;
                    break;
                }
            };
            let BackwardOutcome { gradients: of_segment, input } = autodiff::backward_to(loss, model, input);
            accumulate(&mut gradients, of_segment);
            passed(left.len(), &mut gradients)?;
            gradient = input;
            out_of_memory::check()?;
        }
        Ok(BackwardOutcome { gradients, input: gradient })
    }
}
