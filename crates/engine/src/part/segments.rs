//! Forward and backward through consecutive stages, some of which are recomputed in backward.

use std::ops::Range;

use burn::tensor::{Device, GradientCheckpointingStrategy, Tensor};
use oomph_core::{Account, Generator, Phase, charge, phase};
use oomph_kernels::offload::Offloaded;
use oomph_model::{
    AnyTensor, DeviceError, Named, Pass, Policy, Stages,
    autodiff::{self, Awaiting, BackwardOutcome, Starting, hands_on},
};

use super::token_chunks::{TokenChunk, TokenChunks, joined_chunks};
use crate::{
    EngineError,
    exhausted::{self, Check},
    gradients::accumulate,
    watch::Watch,
};

/// Consecutive stages whose graphs exist at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StageSegment {
    pub(crate) stages: Range<usize>,
    pub(crate) kind: SegmentKind,
}

/// How forward treats a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    /// Forward records the graph.
    Kept,
    /// Forward records no graph, and backward runs the segment again (Chen et al. 2016,
    /// <https://arxiv.org/abs/1604.06174>).
    Recomputed,
    /// Forward records no graph, and backward does not reach the segment: frozen stages before the first trained stage.
    Frozen,
    /// Forward leaves out the segment, which is the last stage. Backward runs it with the loss, [chunk](TokenChunks) by chunk.
    Chunked,
}

/// The segments of the stages on one device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segments {
    segments: Vec<StageSegment>,
    /// For each stage: whether it is recomputed, by itself or as a segment.
    recompute: Vec<bool>,
    /// The device whose generator is seeded before each stage. Layers such as Burn's dropout draw from it. Seeding
    /// makes a resumed run equal to an uninterrupted one, and recompute equal to the first forward.
    seeded: Option<Device>,
    position: Position,
    /// Whether inputs of recomputed segments wait in host memory.
    offloads: bool,
}

/// The position of the stages in the whole model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The number of stages before.
    pub(crate) first_stage: usize,
    /// Whether some of those stages are trained, so that they need the gradient of the input.
    pub(crate) continues: bool,
    /// Whether stages follow, on another device.
    pub(crate) is_continued: bool,
}

/// The tensors of a segment that forward keeps for backward; none for frozen segments.
struct SegmentTrail {
    /// The input of a recomputed segment, without graph.
    input: Option<KeptInput>,
    /// The start of a graph that hands on the gradient of its input.
    start: Option<Starting>,
    /// The output; `None` for a recomputed segment, and for the last one, whose graph the loss holds.
    output: Option<Awaiting>,
}

/// Where the input of a recomputed segment waits for backward.
enum KeptInput {
    OnDevice(AnyTensor),
    InHostMemory(Offloaded),
}

impl KeptInput {
    /// Keeps an input, in host memory if it `offloads`. Tokens stay: they take a few bytes a sample.
    fn new(input: &AnyTensor, offloads: bool) -> Result<Self, DeviceError> {
        if !(offloads && input.is_float()) {
            return Ok(Self::OnDevice(input.clone()));
        }
        Ok(Self::InHostMemory(Offloaded::new(input.clone())?))
    }

    fn onto_device(self) -> AnyTensor {
        match self {
            Self::OnDevice(input) => input,
            Self::InHostMemory(input) => input.onto_device(),
        }
    }
}

/// What is done beside forward and backward of segments: parameters come and go, gradients are reduced or released.
pub(crate) trait Beside {
    /// The listener, if there is one.
    fn watch(&mut self) -> Option<&mut (dyn Watch + 'static)>;

    /// Whether parameters are there only while they are needed.
    fn gathers(&self) -> bool;

    /// Called before forward, with the segments that lend parameters to later ones.
    fn lend(&mut self, model: &mut Stages) -> Result<(), EngineError>;

    /// Called before a segment computes. The segment `next` computes after it, if one does.
    fn before(&mut self, model: &mut Stages, segment: usize, next: Option<usize>) -> Result<(), EngineError>;

    /// Called after a segment went forward. `keeps` says whether its graph holds its parameters.
    fn after_forward(&mut self, model: &mut Stages, segment: usize, keeps: bool);

    /// Called after backward of a segment, with all gradients so far. It may take gradients, and change the parameters of the segment.
    fn after_backward(
        &mut self,
        model: &mut Stages,
        segment: usize,
        gradients: &mut Named<AnyTensor>,
    ) -> Result<(), EngineError>;
}

/// Where backward of a micro-batch begins.
pub(crate) enum BackwardFrom<'a> {
    /// From the loss.
    Loss(Tensor<1>),
    /// From the gradient of the last stage's output, which comes from the stages that follow on another device.
    Gradient(AnyTensor),
    /// From the losses of chunks, for which the last stage has still to run.
    Chunks(ChunkLosses<'a>),
}

/// The chunks of a micro-batch, and the weighted loss of the output of one.
pub(crate) struct ChunkLosses<'a> {
    pub(crate) chunks: TokenChunks,
    pub(crate) loss: &'a mut dyn FnMut(AnyTensor, TokenChunk) -> Result<Tensor<1>, EngineError>,
}

/// The pass of a chunk. Each draws random numbers of its own, the first those of the whole micro-batch.
fn pass_of_chunk(of_micro_batch: &Pass, number: usize) -> Pass {
    let key = of_micro_batch.key();
    let key = if number == 0 { key } else { key.with_name("chunk").with(number as u64) };
    Pass::train(key).with_policy(of_micro_batch.policy())
}

/// The tensors of all segments that forward keeps for backward.
pub(crate) struct Trail {
    left: Vec<SegmentTrail>,
    /// The checkpointing strategy of the graph. All its tensors must use the same one.
    strategy: GradientCheckpointingStrategy,
    /// The pass for recomputed segments.
    again: Pass,
}

impl Trail {
    /// Bytes in host memory.
    pub(crate) fn offloaded_bytes(&self) -> u64 {
        let bytes = |kept: &SegmentTrail| match &kept.input {
            Some(KeptInput::InHostMemory(input)) => input.bytes(),
            _ => 0,
        };
        self.left.iter().map(bytes).sum()
    }
}

impl Segments {
    /// Groups the stages of `model`. `recompute` says for each stage whether it is recomputed. `ends` are the last
    /// stages of gradient buckets; a segment ends with each that does not [hand on](hands_on).
    ///
    /// The last stage of the whole model is never recomputed: backward begins with it, while its activations still
    /// exist.
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
        // The gradient of the input passes through frozen stages too.
        let frozen = if position.continues { 0 } else { model.leading_frozen() };
        // Frozen stages keep no activations, so there is nothing to recompute.
        recompute.iter_mut().take(frozen).for_each(|recompute| *recompute = false);
        let mut segments: Vec<StageSegment> = Vec::new();
        for (stage, recompute) in recompute.iter().enumerate() {
            let kind = match *recompute && !model.recomputes_itself(stage, policy) {
                _ if stage < frozen => SegmentKind::Frozen,
                true => SegmentKind::Recomputed,
                false => SegmentKind::Kept,
            };
            match segments.last_mut() {
                Some(segment)
                    if kind == segment.kind
                        && kind != SegmentKind::Recomputed
                        && (!ends.contains(&(stage - 1)) || hands_on(model, stage - 1, policy)) =>
                {
                    segment.stages.end = stage + 1;
                }
                _ => segments.push(StageSegment { stages: stage..stage + 1, kind }),
            }
        }
        Self { segments, recompute, seeded, position, offloads: false }
    }

    /// Leaves out the last stage in forward, if `chunks` says so. It must be a segment of its own.
    pub(crate) fn chunking(mut self, chunks: bool) -> Self {
        let last = self.segments.last_mut().filter(|last| chunks && last.kind == SegmentKind::Kept);
        if let Some(last) = last {
            last.kind = SegmentKind::Chunked;
        }
        self
    }

    /// Sets whether inputs of recomputed segments wait in host memory for backward.
    pub(crate) fn offloading(self, offloads: bool) -> Self {
        Self { offloads, ..self }
    }

    /// The stages of each segment.
    pub(crate) fn stages_of_each(&self) -> impl Iterator<Item = Range<usize>> {
        self.segments.iter().map(|segment| segment.stages.clone())
    }

    /// Runs the forward pass, and checks the memory limit after each stage. Returns the output on the graph, and the
    /// tensors that backward needs. Without the last stage, which is computed by [chunks](Self::chunking), there is no output.
    ///
    /// # Errors
    /// The first error of a stage, and [`EngineError::Exhausted`].
    pub(crate) fn forward(
        &self,
        model: &mut Stages,
        input: AnyTensor,
        pass: &mut Pass,
        beside: &mut dyn Beside,
    ) -> Result<(Option<AnyTensor>, Trail), EngineError> {
        beside.lend(model)?;
        let has_plain = self.segments.iter().any(|segment| segment.kind != SegmentKind::Kept);
        let plain_model = (has_plain && !beside.gathers()).then(|| model.inference());
        let strategy = input.device().gradient_checkpointing_strategy();
        let mut left = Vec::new();
        let mut activation = input;
        // Only the last stage borrows parameters, and it always runs on the graph. So it borrows from the tracked
        // model.
        model.lend(pass);
        for (index, segment) in self.forwarded().iter().enumerate() {
            beside.before(model, index, self.next(index))?;
            let (kept, output) = match segment.kind {
                SegmentKind::Frozen | SegmentKind::Recomputed => {
                    let input = activation.inner();
                    let keeps = segment.kind == SegmentKind::Recomputed;
                    let kept = keeps.then(|| KeptInput::new(&input, self.offloads)).transpose()?;
                    // Gathered parameters are in the model now, and not before.
                    let gathered = plain_model.is_none().then(|| model.inference());
                    let plain_model = gathered.as_ref().or(plain_model.as_ref()).unwrap_or(model);
                    let output =
                        self.stages(plain_model, segment, input, pass, beside.watch(), exhausted::check)?;
                    (SegmentTrail { input: kept, start: None, output: None }, output)
                }
                SegmentKind::Kept | SegmentKind::Chunked => {
                    let (start, from) = match index {
                        // The input of the model is no activation.
                        0 if !self.wants_gradient(index) => (None, activation),
                        _ => self.started(index, activation.inner(), strategy),
                    };
                    let output = self.stages(model, segment, from, pass, beside.watch(), exhausted::check)?;
                    // The last output is widened to 32 bits, so backward does not need the 16-bit tensor.
                    let is_last = index + 1 == self.segments.len() && !self.position.is_continued;
                    let awaiting = (!is_last).then(|| Awaiting::new(output.clone()));
                    (SegmentTrail { input: None, start, output: awaiting }, output)
                }
            };
            beside.after_forward(model, index, segment.kind == SegmentKind::Kept);
            left.push(kept);
            activation = output;
        }
        let output = match self.position.is_continued {
            _ if self.has_chunks() => {
                let input = Some(KeptInput::OnDevice(activation.inner()));
                left.push(SegmentTrail { input, start: None, output: None });
                None
            }
            true => Some(activation.inner()),
            false => Some(activation.widened(pass.policy().kernels)),
        };
        Ok((output, Trail { left, strategy, again: pass.again() }))
    }

    /// The segment that goes forward after this one.
    fn next(&self, index: usize) -> Option<usize> {
        Some(index + 1).filter(|next| *next < self.forwarded().len())
    }

    /// Whether the last segment is computed by chunks.
    fn has_chunks(&self) -> bool {
        self.segments.last().is_some_and(|last| last.kind == SegmentKind::Chunked)
    }

    /// The segments that go forward before backward begins.
    fn forwarded(&self) -> &[StageSegment] {
        &self.segments[..self.segments.len() - usize::from(self.has_chunks())]
    }

    /// The segment before this one that runs again in backward.
    fn next_again(&self, index: usize) -> Option<usize> {
        (0..index).rev().find(|index| self.segments[*index].kind == SegmentKind::Recomputed)
    }

    /// Goes beside a forward of other ranks, without rows of its own.
    ///
    /// # Errors
    /// Those of `beside`.
    pub(crate) fn idle_forward(
        &self,
        model: &mut Stages,
        beside: &mut dyn Beside,
    ) -> Result<(), EngineError> {
        beside.lend(model)?;
        for (index, segment) in self.forwarded().iter().enumerate() {
            beside.before(model, index, self.next(index))?;
            beside.after_forward(model, index, segment.kind == SegmentKind::Kept);
        }
        Ok(())
    }

    /// Goes beside a backward of other ranks, without rows of its own.
    ///
    /// # Errors
    /// Those of `beside`.
    pub(crate) fn idle_backward(
        &self,
        model: &mut Stages,
        beside: &mut dyn Beside,
    ) -> Result<(), EngineError> {
        let is_trained = |index: &usize| self.segments[*index].kind != SegmentKind::Frozen;
        for index in (0..self.segments.len()).rev().take_while(is_trained) {
            beside.before(model, index, self.next_again(index))?;
            beside.after_backward(model, index, &mut Named::new())?;
        }
        Ok(())
    }

    /// Whether the input of a segment needs a gradient. Data and the outputs of leading frozen stages do not.
    fn wants_gradient(&self, index: usize) -> bool {
        self.position.continues
            || self.segments[..index].iter().any(|segment| segment.kind != SegmentKind::Frozen)
    }

    /// The start of a segment's graph, if its input needs a gradient, and the input in the graph.
    fn started(
        &self,
        index: usize,
        input: AnyTensor,
        strategy: GradientCheckpointingStrategy,
    ) -> (Option<Starting>, AnyTensor) {
        if !self.wants_gradient(index) {
            return (None, input.tracked_as(false, strategy));
        }
        let (start, input) = Starting::new(input, strategy);
        (Some(start), input)
    }

    /// Runs the stages of one segment.
    fn stages(
        &self,
        model: &Stages,
        segment: &StageSegment,
        input: AnyTensor,
        pass: &mut Pass,
        mut watch: Option<&mut (dyn Watch + 'static)>,
        check: Check,
    ) -> Result<AnyTensor, EngineError> {
        let mut activation = input;
        for (stage, name) in model.names().enumerate().skip(segment.stages.start).take(segment.stages.len()) {
            pass.set_recompute(self.recompute[stage]);
            pass.handover.set_followed(stage + 1 < segment.stages.end);
            if let Some(device) = &self.seeded {
                let key = pass.key().with_name("burn").with((self.position.first_stage + stage) as u64);
                device.seed(Generator::at(key).bits());
            }
            activation = model.forward_stage(stage, activation, pass)?;
            check()?;
            if let Some(watch) = &mut watch {
                watch.boundary(name);
            }
        }
        Ok(activation)
    }

    /// Backpropagates segment by segment, last to first. Returns the gradients of the parameters, and the gradient of the input if
    /// it is needed.
    ///
    /// A recomputed segment runs with [`again`](Pass::again), the pass of its first forward. It therefore draws the
    /// same random numbers, uses the same statistics and starts from the same carried state.
    ///
    /// # Errors
    /// The first error of a stage, of `beside` or of `check`, which is called after each stage and segment.
    pub(crate) fn backward(
        &self,
        model: &mut Stages,
        mut trail: Trail,
        from: BackwardFrom<'_>,
        beside: &mut dyn Beside,
        check: Check,
    ) -> Result<BackwardOutcome, EngineError> {
        let mut gradients = Named::new();
        let (mut loss, mut gradient) = match from {
            BackwardFrom::Loss(loss) => (Some(loss), None),
            BackwardFrom::Gradient(gradient) => (None, Some(gradient)),
            BackwardFrom::Chunks(chunks) => {
                let outcome = self.backward_chunks(model, &mut trail, chunks, beside, check)?;
                accumulate(&mut gradients, outcome.gradients);
                (None, outcome.input)
            }
        };
        let Trail { mut left, strategy, again } = trail;
        while let Some(kept) = left.pop() {
            let (index, segment) = (left.len(), &self.segments[left.len()]);
            if segment.kind != SegmentKind::Frozen {
                beside.before(model, index, self.next_again(index))?;
            }
            let (start, output) = match kept.input {
                Some(input) => {
                    let _phase = phase(Phase::Forward);
                    let (start, input) = self.started(index, input.onto_device(), strategy);
                    let mut pass = again.again();
                    model.lend(&mut pass);
                    let output = self.stages(model, segment, input, &mut pass, None, check)?;
                    (start, Some(Awaiting::new(output)))
                }
                // Frozen segments have no tensors here, and backward ends at them.
                None => (kept.start, kept.output),
            };
            let loss = match (loss.take(), gradient.take(), output) {
                (Some(loss), _, _) => loss,
                (None, Some(gradient), Some(output)) => output.resume(gradient),
                // No earlier stage is trained.
                _ => {
                    gradient = None;
                    break;
                }
            };
            accumulate(&mut gradients, autodiff::backward(loss, model));
            beside.after_backward(model, index, &mut gradients)?;
            gradient = start.and_then(Starting::gradient);
            check()?;
        }
        Ok(BackwardOutcome { gradients, input: gradient })
    }

    /// Runs the last segment forward and backward, chunk by chunk.
    fn backward_chunks(
        &self,
        model: &mut Stages,
        trail: &mut Trail,
        ChunkLosses { chunks, loss }: ChunkLosses<'_>,
        beside: &mut dyn Beside,
        check: Check,
    ) -> Result<BackwardOutcome, EngineError> {
        let Trail { left, strategy, again } = trail;
        let index = self.segments.len() - 1;
        // Forward left out the last segment, and kept its input.
        let input =
            left.pop().and_then(|kept| kept.input).expect("the last segment has chunks").onto_device();
        beside.before(model, index, self.next_again(index))?;
        let (mut gradients, mut of_input) = (Named::new(), Vec::new());
        for (number, chunk) in chunks.each().enumerate() {
            let (start, root) = {
                let _phase = phase(Phase::Forward);
                let (start, tokens) = self.started(index, chunk.input(&input), *strategy);
                let mut pass = pass_of_chunk(again, number);
                model.lend(&mut pass);
                let output = self.stages(model, &self.segments[index], tokens, &mut pass, None, check)?;
                (start, loss(output.widened(pass.policy().kernels), chunk)?)
            };
            accumulate(&mut gradients, autodiff::backward(root, model));
            let gradient = start.and_then(Starting::gradient);
            charge(Account::Host, || of_input.extend(gradient));
            check()?;
        }
        let dims = input.dims();
        drop(input);
        beside.after_backward(model, index, &mut gradients)?;
        Ok(BackwardOutcome { gradients, input: joined_chunks(of_input, &dims) })
    }
}
