use std::{collections::BTreeMap, ops::Range, time::Instant};

use burn::tensor::Tensor;
use oomph_core::{Account, Phase, charge, phase};
use oomph_model::{AnyTensor, Carried, Named, Pass, Stages, autodiff};
use oomph_parallel::Span;
use oomph_timeline::{Category, TrackKind};

use super::{
    part_beside::PartBeside,
    release::Release,
    segments::{BackwardFrom, ChunkLosses, Segments, Trail},
    step_context::{ComputedLoss, StepContext},
    step_undo::StepUndo,
    token_chunks::TokenChunks,
};
use crate::{
    EngineError, device_failure,
    exhausted::{self, Check},
    gradients::accumulate,
    layout::{DeviceSlot, Role, Scatter, WorkItem},
    ranks::{Bucket, Reduction, Weights},
    task::DeviceTargets,
    transport::{LinkTensor, Peer, Transport},
    watch::Watch,
};

/// Names of spans on the tracks of devices.
const ACTIVATION: &str = "activation";
const GRADIENT: &str = "gradient";
const GRADIENTS: &str = "gradients";
const OUTPUT: &str = "output";

/// The input of a device for a step.
pub(crate) struct PartSetup<'a, T> {
    pub(crate) slot: &'a DeviceSlot,
    pub(crate) segments: &'a Segments,
    /// The trained parameters of each segment.
    pub(crate) buckets: &'a [Bucket],
    pub(crate) transport: T,
    pub(crate) context: StepContext<'a>,
    pub(crate) model: Stages,
    pub(crate) undo: StepUndo,
    /// Takes the optimizer's steps in backward, if gradients are released.
    pub(crate) release: Option<Release>,
    /// Gathers the parameters of segments, if parameters are sharded.
    pub(crate) weights: Option<Weights>,
    /// The carried state of all samples of the batch.
    pub(crate) carried: Option<Carried>,
}

/// The results of a device for a step.
pub(crate) struct PartOutcome {
    pub(crate) model: Stages,
    pub(crate) undo: StepUndo,
    pub(crate) release: Option<Release>,
    /// The gradients that were not released.
    pub(crate) gradients: Named<AnyTensor>,
    pub(crate) loss: Option<Tensor<1>>,
    pub(crate) correct: Option<Tensor<1>>,
    /// The carried state after each micro-batch that the device has rows of.
    pub(crate) left: Vec<Carried>,
    /// The work of the device with its times; or the error of the device.
    pub(crate) spans: Result<Vec<Span>, EngineError>,
}

/// Where backward of a micro-batch will begin.
enum Root {
    /// At a gradient that another device gives.
    Elsewhere,
    /// At the loss.
    Loss(Tensor<1>),
    /// At the losses of chunks, which backward computes.
    Chunks(TokenChunks),
}

/// The stages of one device in a step.
pub(crate) struct ModelPart<'a, T> {
    slot: &'a DeviceSlot,
    segments: &'a Segments,
    buckets: &'a [Bucket],
    transport: T,
    context: StepContext<'a>,
    carried: Option<Carried>,
    watch: Option<&'a mut (dyn Watch + 'static)>,
    reduction: Option<&'a mut Reduction>,
    weights: Option<Weights>,
    /// The tensors that backward needs of each micro-batch that went forward, and its loss.
    in_flight: BTreeMap<usize, (Trail, Root)>,
    /// On the coordinator: its own output until the loss is computed, then the gradient of that output.
    own_output: Option<AnyTensor>,
    /// Whether the step ends, whatever backward takes: the last micro-batch went forward, and gradients are released.
    is_committed: bool,
    done: PartOutcome,
}

impl<'a, T: Transport> ModelPart<'a, T> {
    /// A part before its work. `watch` learns of boundaries; `reduction` is the all-reduce of the gradients.
    pub(crate) fn new(
        setup: PartSetup<'a, T>,
        watch: Option<&'a mut (dyn Watch + 'static)>,
        reduction: Option<&'a mut Reduction>,
    ) -> Self {
        let PartSetup { slot, segments, buckets, transport, context, model, undo, release, weights, carried } =
            setup;
        Self {
            slot,
            segments,
            buckets,
            transport,
            context,
            carried,
            watch,
            reduction,
            weights,
            in_flight: BTreeMap::new(),
            own_output: None,
            is_committed: false,
            done: PartOutcome {
                model,
                undo,
                release,
                gradients: Named::new(),
                loss: None,
                correct: None,
                left: Vec::new(),
                spans: Ok(Vec::new()),
            },
        }
    }

    /// Runs all work of the device in a step. The links end with the transport, so waiting peers see that the device
    /// stopped.
    pub(crate) fn run(mut self) -> PartOutcome {
        self.done.spans = self.work();
        if let Some(weights) = &mut self.weights {
            weights.divide_all(&mut self.done.model);
        }
        self.done
    }

    fn work(&mut self) -> Result<Vec<Span>, EngineError> {
        let (items, mut spans) = charge(Account::Host, || {
            let items = self.slot.role.work(self.context.sizes);
            let spans = Vec::with_capacity(items.len());
            (items, spans)
        });
        let start = self.context.start;
        let seconds = |moment: Instant| (moment - start).as_secs_f64();
        for item in items {
            let begun = match item {
                WorkItem::Forward(index) => self.forward(index)?,
                WorkItem::Compare(index) => self.compare(index)?,
                WorkItem::Backward(index) => self.backward(index)?,
                WorkItem::SumGradients => self.sum_gradients()?,
                WorkItem::SendGradients => self.send_gradients()?,
            };
            self.check()()?;
            // During backward an all-reduce may be in flight, and the device thread may wait for a rank that never comes.
            if T::EXECUTES && matches!(item, WorkItem::Forward(_)) {
                device_failure::poll([&self.slot.tracked])?;
            }
            spans.extend(item.traced().map(|work| Span {
                work,
                start_seconds: seconds(begun),
                end_seconds: seconds(Instant::now()),
            }));
        }
        Ok(spans)
    }

    /// What ends the step from here on. A limit that is crossed does not end it in the middle of its updates: it is reported once
    /// the step has finished, as a limit is that the optimizer crosses.
    fn check(&self) -> Check {
        if self.is_committed { device_failure::check } else { exhausted::check }
    }

    /// What is done beside the segments of a micro-batch.
    fn beside(&mut self, is_last: bool) -> (&'a Segments, &mut Stages, PartBeside<'_, 'a>) {
        let Self { segments, buckets, watch, reduction, weights, done, .. } = self;
        let PartOutcome { model, release, gradients: sums, .. } = done;
        let beside = PartBeside {
            buckets,
            is_last,
            watch: watch.as_deref_mut(),
            reduction: reduction.as_deref_mut(),
            weights: weights.as_mut(),
            release: release.as_mut(),
            sums,
        };
        (segments, model, beside)
    }

    /// Whether the device has no rows of a micro-batch, which other ranks have.
    fn is_idle(&self, index: usize) -> bool {
        self.context.sizes[index] == 0
    }

    /// The forward pass of a micro-batch. Returns when it began; waiting before that counts as idle.
    fn forward(&mut self, index: usize) -> Result<Instant, EngineError> {
        if self.is_idle(index) {
            let begun = Instant::now();
            let (segments, model, mut beside) = self.beside(false);
            segments.idle_forward(model, &mut beside)?;
            return Ok(begun);
        }
        let slot = self.slot;
        let rows = slot.role.rows(self.context.sizes[index]);
        let waits = || self.transport.wait(Peer::Before, "waits for activation", Some(index));
        let handed = slot.role.takes_activations().then(waits).transpose()?;
        let begun = Instant::now();
        let uploading = phase(Phase::Data);
        let tracking = match &handed {
            Some(_) => self.transport.track(TrackKind::Communication, ACTIVATION, Some(index)),
            None => self.transport.track(TrackKind::Data, "upload", Some(index)),
        };
        let unpacked = handed
            .and_then(|handed| self.transport.unpack(handed, LinkTensor::Input, rows.len(), &slot.tracked));
        let input = unpacked.unwrap_or_else(|| self.transport.input(index, rows.clone(), &slot.tracked));
        let targets = slot.role.has_loss().then(|| self.transport.targets(index, &slot.tracked));
        let pass = self.pass(index, &rows);
        drop((uploading, tracking));
        exhausted::check()?;
        let tracking = self.transport.track(TrackKind::Forward, "forward", Some(index));
        let output = self.forward_stages(index, input, targets, pass)?;
        drop(tracking);
        match slot.role {
            Role::Coordinator(_) => self.own_output = output,
            Role::Stages { .. } | Role::Replica { .. } if slot.role.sends_outputs() => {
                let name = if matches!(slot.role, Role::Replica { .. }) { OUTPUT } else { ACTIVATION };
                let _track = self.transport.track(TrackKind::Communication, name, Some(index));
                self.transport.send(Peer::After, output)?;
            }
            _ => {}
        }
        Ok(begun)
    }

    /// The carried state that the rows of a micro-batch start from.
    fn carried_rows(&mut self, index: usize, rows: &Range<usize>) -> Option<Carried> {
        let carried = self.carried.as_ref()?;
        if !self.context.continues {
            return Some(Carried::new());
        }
        let before: usize = self.context.sizes[..index].iter().sum();
        let rows = before + rows.start..before + rows.end;
        Some(match self.slot.role {
            // The carried state of replicas is on the coordinator.
            Role::Replica { .. } => self.transport.carried(carried, rows, &self.slot.plain()),
            Role::Stages { .. } | Role::Coordinator(_) => carried.rows(rows),
        })
    }

    /// The pass of a micro-batch.
    fn pass(&mut self, index: usize, rows: &Range<usize>) -> Pass {
        let StepContext { mut key, policy, peers, .. } = self.context;
        if let Role::Replica { device, .. } = self.slot.role {
            // The coordinator draws the same random numbers as a single device.
            key = key.with_name("rank").with(device as u64);
        }
        let pass = Pass::train(key.with(index as u64)).with_policy(policy).with_peers(peers.cloned());
        match self.carried_rows(index, rows) {
            Some(carried) => pass.with_carried(carried),
            None => pass,
        }
    }

    /// Runs the stages on the rows that this device has of a micro-batch, and updates running statistics. Computes the
    /// loss if there are targets, and returns the output otherwise.
    fn forward_stages(
        &mut self,
        index: usize,
        input: AnyTensor,
        targets: Option<DeviceTargets>,
        mut pass: Pass,
    ) -> Result<Option<AnyTensor>, EngineError> {
        let forward = phase(Phase::Forward);
        let (segments, model, mut beside) = self.beside(false);
        let (output, trail) = segments.forward(model, input, &mut pass, &mut beside)?;
        let PartOutcome { model, undo, .. } = &mut self.done;
        let carried = pass.take_carried();
        let updates = pass.into_updates();
        undo.keep(model, &updates)?;
        model.apply(updates);
        let mut computed = (None, None);
        let (output, root) = match (output, targets, self.context.loss_chunk) {
            (Some(output), Some(targets), _) => {
                let ComputedLoss { loss, correct, root } = self.context.loss(output, targets, index)?;
                computed = (Some(loss), correct);
                (None, Root::Loss(root))
            }
            (None, Some(targets), Some(size)) => (None, Root::Chunks(TokenChunks::new(targets, size)?)),
            (output, _, _) => (output, Root::Elsewhere),
        };
        self.boundary();
        drop(forward);
        self.done.left.extend(carried);
        self.count(computed.0, computed.1);
        // The map is host memory; the tensors of its entries are on the device.
        charge(Account::Host, || self.in_flight.insert(index, (trail, root)));
        if let Some(watch) = &mut self.watch {
            let bytes = self.in_flight.values().map(|(trail, _)| trail.offloaded_bytes()).sum();
            watch.offloaded(Category::Activations, bytes);
        }
        self.is_committed = self.done.release.is_some() && self.is_last(index);
        Ok(output)
    }

    /// Computes the loss of a round on the outputs of all replicas, and sends each replica the gradient of its output.
    fn compare(&mut self, index: usize) -> Result<Instant, EngineError> {
        let (slot, samples) = (self.slot, self.context.sizes[index]);
        let Role::Coordinator(scatter) = slot.role else { return Ok(Instant::now()) };
        let gathered = self.gather(index, scatter)?;
        let begun = Instant::now();
        let targets = {
            let _phase = phase(Phase::Data);
            self.transport.targets(index, &slot.tracked)
        };
        let comparing = self.transport.track(TrackKind::Forward, "loss", Some(index));
        let (outputs, ComputedLoss { loss, correct, root }) = {
            let _phase = phase(Phase::Forward);
            let outputs = gathered.tracked_as(true, slot.tracked.gradient_checkpointing_strategy());
            let widened = outputs.clone().widened(self.context.policy.kernels);
            (outputs, self.context.loss(widened, targets, index)?)
        };
        // One phase from here on: the planner ends the graph of the loss where its backward begins.
        let _phase = phase(Phase::Backward);
        let gradient = autodiff::backward_to(root, &Stages::new(), Some(outputs)).input;
        drop(comparing);
        self.count(Some(loss), correct);
        let Some(gradient) = gradient else { return Ok(begun) };
        let _track = self.transport.track(TrackKind::Communication, GRADIENT, Some(index));
        // An output may have several rows per sample.
        let of_sample = gradient.dims()[0] / samples.max(1);
        let of = |rows: Range<usize>| gradient.clone().rows(rows.start * of_sample..rows.end * of_sample);
        for device in 1..scatter.devices {
            let rows = scatter.rows_of(samples, device);
            if !rows.is_empty() {
                self.transport.send(Peer::Replica(device), Some(of(rows)))?;
            }
        }
        let own = scatter.rows_of(samples, 0);
        self.own_output = (!own.is_empty()).then(|| of(own));
        Ok(begun)
    }

    /// Gathers the outputs of all replicas, in the order of their samples.
    fn gather(&mut self, index: usize, scatter: Scatter) -> Result<AnyTensor, EngineError> {
        let mut outputs: Vec<AnyTensor> = self.own_output.take().into_iter().collect();
        for device in 1..scatter.devices {
            let rows = scatter.rows_of(self.context.sizes[index], device);
            if rows.is_empty() {
                continue;
            }
            let handed = self.transport.wait(Peer::Replica(device), "waits for output", Some(index))?;
            let _phase = phase(Phase::Forward);
            let _track = self.transport.track(TrackKind::Communication, OUTPUT, Some(index));
            let plain = self.slot.plain();
            outputs.extend(self.transport.unpack(handed, LinkTensor::Output, rows.len(), &plain));
        }
        let _phase = phase(Phase::Forward);
        Ok(AnyTensor::joined(outputs))
    }

    /// The backward pass of a micro-batch. Returns when it began.
    fn backward(&mut self, index: usize) -> Result<Instant, EngineError> {
        if self.is_idle(index) {
            let begun = Instant::now();
            let (segments, model, mut beside) = self.beside(self.is_last(index));
            segments.idle_backward(model, &mut beside)?;
            self.end_micro_batch(index)?;
            return Ok(begun);
        }
        let slot = self.slot;
        let waits = || self.transport.wait(Peer::After, "waits for gradient", Some(index));
        let handed = slot.role.sends_outputs().then(waits).transpose()?;
        let begun = Instant::now();
        // One phase from here on: the planner ends the graph of a micro-batch where its backward begins.
        let _phase = phase(Phase::Backward);
        let gradient = match handed {
            Some(handed) => {
                let _track = self.transport.track(TrackKind::Communication, GRADIENT, Some(index));
                let samples = slot.role.rows(self.context.sizes[index]).len();
                self.transport.unpack(handed, LinkTensor::Output, samples, &slot.plain())
            }
            None => self.own_output.take(),
        };
        let tracking = self.transport.track(TrackKind::Backward, "backward", Some(index));
        let gradient = self.backward_stages(index, gradient)?;
        drop(tracking);
        if slot.role.takes_activations() {
            let _track = self.transport.track(TrackKind::Communication, GRADIENT, Some(index));
            self.transport.send(Peer::Before, gradient)?;
        }
        Ok(begun)
    }

    /// Backpropagates through the stages, from the loss or from the `gradient` of the output. Returns the gradient of
    /// the input, if the device before needs it.
    fn backward_stages(
        &mut self,
        index: usize,
        gradient: Option<AnyTensor>,
    ) -> Result<Option<AnyTensor>, EngineError> {
        // In every order the forward of a micro-batch comes before its backward.
        let (trail, root) = self.in_flight.remove(&index).expect("the micro-batch went forward");
        let (context, mut losses) = (self.context, (None, None));
        let mut chunk_loss = |output, chunk| {
            let ComputedLoss { loss, correct, root } = context.chunk_loss(output, chunk, index)?;
            add(&mut losses.0, Some(loss));
            add(&mut losses.1, correct);
            Ok(root)
        };
        let from = match (root, gradient) {
            (Root::Loss(loss), _) => BackwardFrom::Loss(loss),
            (Root::Chunks(chunks), _) => BackwardFrom::Chunks(ChunkLosses { chunks, loss: &mut chunk_loss }),
            (Root::Elsewhere, Some(gradient)) => BackwardFrom::Gradient(gradient),
            // All stages here and after are frozen.
            (Root::Elsewhere, None) => return Ok(None),
        };
        let _phase = phase(Phase::Backward);
        let (is_last, check) = (self.is_last(index), self.check());
        let (segments, model, mut beside) = self.beside(is_last);
        let outcome = segments.backward(model, trail, from, &mut beside, check)?;
        self.count(losses.0, losses.1);
        self.end_micro_batch(index)?;
        self.boundary();
        check()?;
        accumulate(&mut self.done.gradients, outcome.gradients);
        Ok(outcome.input)
    }

    /// Takes the sums of gradients that are reduced for each micro-batch. Those of the last one are taken at the end of the step.
    fn end_micro_batch(&mut self, index: usize) -> Result<(), EngineError> {
        let is_last = self.is_last(index);
        match &mut self.reduction {
            Some(reduction) if reduction.is_of_each_micro_batch() && !is_last => {
                reduction.end_micro_batch(self.watch.as_deref_mut())
            }
            _ => Ok(()),
        }
    }

    /// Adds the gradients of all replicas to those of the coordinator, in the order of devices.
    fn sum_gradients(&mut self) -> Result<Instant, EngineError> {
        let begun = Instant::now();
        let Role::Coordinator(scatter) = self.slot.role else { return Ok(begun) };
        let plain = self.slot.plain();
        let sums = &mut self.done.gradients;
        let shapes: Vec<_> = charge(Account::Host, || {
            sums.iter().map(|(name, gradient)| (name.clone(), gradient.dims())).collect()
        });
        for device in 1..scatter.devices {
            let handed = self.transport.wait(Peer::Replica(device), "waits for gradients", None)?;
            let _phase = phase(Phase::Backward);
            let _track = self.transport.track(TrackKind::Communication, GRADIENTS, None);
            for (name, gradient) in self.transport.unpack_gradients(handed, &shapes, &plain) {
                accumulate(sums, Named::from([(name, gradient)]));
            }
            exhausted::check()?;
        }
        Ok(begun)
    }

    fn send_gradients(&mut self) -> Result<Instant, EngineError> {
        let begun = Instant::now();
        let _track = self.transport.track(TrackKind::Communication, GRADIENTS, None);
        self.transport.send_gradients(Peer::After, std::mem::take(&mut self.done.gradients))?;
        Ok(begun)
    }

    /// Whether no micro-batch comes after this one.
    fn is_last(&self, index: usize) -> bool {
        index + 1 == self.context.sizes.len()
    }

    fn count(&mut self, loss: Option<Tensor<1>>, correct: Option<Tensor<1>>) {
        add(&mut self.done.loss, loss);
        add(&mut self.done.correct, correct);
    }

    fn boundary(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.boundary("");
        }
    }
}

/// Adds what there is of `more`.
pub(super) fn add(sum: &mut Option<Tensor<1>>, more: Option<Tensor<1>>) {
    *sum = match (sum.take(), more) {
        (Some(so_far), Some(more)) => Some(so_far + more),
        (so_far, more) => so_far.or(more),
    };
}
