use std::{collections::BTreeMap, ops::Range, sync::Arc, time::Instant};

use burn::tensor::Tensor;
use oomph_core::{Account, Key, Phase, charge, phase};
use oomph_model::{AnyTensor, Carried, Named, Pass, Peers, Policy, Stages};
use oomph_parallel::Span;
use oomph_timeline::TrackKind;

use super::{
    loss::{GatheredLoss, LossComputation},
    segments::Segments,
    stage_runner::{Forwarded, InFlight, SegmentPassed, StageRunner},
    step_undo::StepUndo,
};
use crate::{
    EngineError, exhausted,
    gradients::accumulate,
    layout::{DeviceSlot, Role, Scatter, WorkItem},
    ranks::Reduction,
    task::{DeviceTargets, Task},
    transport::{Expected, LinkTensor, Peer, Transport},
    watch::Watch,
};

/// Names of spans on the tracks of devices.
const ACTIVATION: &str = "activation";
const GRADIENT: &str = "gradient";
const GRADIENTS: &str = "gradients";
const OUTPUT: &str = "output";

/// The values that all devices and micro-batches of a step share.
#[derive(Clone, Copy)]
pub(crate) struct StepContext<'a> {
    /// The key of the random numbers of the step.
    pub(crate) key: Key,
    pub(crate) policy: Policy,
    pub(crate) task: &'a dyn Task,
    /// Samples of all micro-batches over all ranks.
    pub(crate) samples: usize,
    /// Whether each row continues the sample of the same row in the step before.
    pub(crate) continues: bool,
    pub(crate) loss_scale: Option<f32>,
    /// The ranks that batch normalisation shares statistics with.
    pub(crate) peers: Option<&'a Arc<dyn Peers>>,
    /// Samples of each micro-batch.
    pub(crate) sizes: &'a [usize],
    /// When the step began.
    pub(crate) start: Instant,
}

/// The input of a device for a step.
pub(crate) struct PartSetup<'a> {
    pub(crate) slot: &'a DeviceSlot,
    pub(crate) segments: &'a Segments,
    pub(crate) model: Stages,
    pub(crate) undo: StepUndo,
    /// The carried state of all samples of the batch.
    pub(crate) carried: Option<Carried>,
}

/// The results of a device for a step.
pub(crate) struct PartOutcome {
    pub(crate) model: Stages,
    pub(crate) undo: StepUndo,
    pub(crate) gradients: Named<AnyTensor>,
    pub(crate) loss: Option<Tensor<1>>,
    pub(crate) correct: Option<Tensor<1>>,
    /// The carried state after each micro-batch that the device has rows of.
    pub(crate) left: Vec<Carried>,
    /// The work of the device with its times; or the error of the device.
    pub(crate) spans: Result<Vec<Span>, EngineError>,
}

/// The stages of one device in a step.
pub(crate) struct ModelPart<'a> {
    slot: &'a DeviceSlot,
    segments: &'a Segments,
    model: Stages,
    undo: StepUndo,
    carried: Option<Carried>,
    watch: Option<&'a mut (dyn Watch + 'static)>,
    reduction: Option<&'a mut Reduction>,
    gradients: Named<AnyTensor>,
    loss: Option<Tensor<1>>,
    correct: Option<Tensor<1>>,
    left: Vec<Carried>,
    in_flight: BTreeMap<usize, InFlight>,
    /// On the coordinator: its own output until the loss is computed, then the gradient of that output.
    own_output: Option<AnyTensor>,
}

impl<'a> ModelPart<'a> {
    pub(crate) fn new(setup: PartSetup<'a>) -> Self {
        let PartSetup { slot, segments, model, undo, carried } = setup;
        Self {
            slot,
            segments,
            model,
            undo,
            carried,
            watch: None,
            reduction: None,
            gradients: Named::new(),
            loss: None,
            correct: None,
            left: Vec::new(),
            in_flight: BTreeMap::new(),
            own_output: None,
        }
    }

    /// Adds a listener for boundaries, and the all-reduce of the gradients.
    pub(crate) fn with_listeners(
        self,
        watch: Option<&'a mut (dyn Watch + 'static)>,
        reduction: Option<&'a mut Reduction>,
    ) -> Self {
        Self { watch, reduction, ..self }
    }

    /// Runs all work of the device in a step. The links end with the transport, so waiting peers see that the device
    /// stopped.
    pub(crate) fn run<T: Transport>(mut self, mut transport: T, context: StepContext<'_>) -> PartOutcome {
        let spans = self.work(&mut transport, context);
        drop(transport);
        let Self { model, undo, gradients, loss, correct, left, .. } = self;
        PartOutcome { model, undo, gradients, loss, correct, left, spans }
    }

    fn work<T: Transport>(
        &mut self,
        transport: &mut T,
        context: StepContext<'_>,
    ) -> Result<Vec<Span>, EngineError> {
        let (items, mut spans) = charge(Account::Host, || {
            let items = self.slot.role.work(context.sizes);
            let spans = Vec::with_capacity(items.len());
            (items, spans)
        });
        let seconds = |moment: Instant| (moment - context.start).as_secs_f64();
        for item in items {
            let begun = match item {
                WorkItem::Forward(index) => self.forward(index, transport, context)?,
                WorkItem::Compare(index) => self.compare(index, transport, context)?,
                WorkItem::Backward(index) => self.backward(index, transport, context)?,
                WorkItem::SumGradients => self.sum_gradients(transport)?,
                WorkItem::SendGradients => self.send_gradients(transport)?,
            };
            exhausted::check()?;
            spans.extend(item.traced().map(|work| Span {
                work,
                start_seconds: seconds(begun),
                end_seconds: seconds(Instant::now()),
            }));
        }
        Ok(spans)
    }

    /// The forward pass of a micro-batch. Returns when it began; waiting before that counts as idle.
    fn forward<T: Transport>(
        &mut self,
        index: usize,
        transport: &mut T,
        context: StepContext<'_>,
    ) -> Result<Instant, EngineError> {
        let slot = self.slot;
        let rows = slot.role.rows(context.sizes[index]);
        let handed = match slot.role.takes_activations() {
            true => Some(transport.wait(Peer::Before, "waits for activation", Some(index))?),
            false => None,
        };
        let begun = Instant::now();
        let uploading = phase(Phase::Data);
        let tracking = match &handed {
            Some(_) => transport.track(TrackKind::Communication, ACTIVATION, Some(index)),
            None => transport.track(TrackKind::Data, "upload", Some(index)),
        };
        let expected = Expected { crossing: LinkTensor::Input, samples: rows.len() };
        let input = match handed.and_then(|handed| transport.unpack(handed, expected, &slot.tracked)) {
            Some(input) => input,
            None => transport.input(index, rows.clone(), &slot.tracked),
        };
        let targets = slot.role.has_loss().then(|| transport.targets(index, &slot.tracked));
        let carried = self.carried_rows(index, &rows, transport, context);
        drop((uploading, tracking));
        exhausted::check()?;
        let tracking = transport.track(TrackKind::Forward, "forward", Some(index));
        let output =
            self.forward_stages(MicroBatchInput { index, rows, input, targets, carried }, context)?;
        drop(tracking);
        match slot.role {
            Role::Coordinator(_) => self.own_output = output,
            Role::Stages { .. } | Role::Replica { .. } if slot.role.sends_outputs() => {
                let name = if matches!(slot.role, Role::Replica { .. }) { OUTPUT } else { ACTIVATION };
                let _track = transport.track(TrackKind::Communication, name, Some(index));
                transport.send(Peer::After, output)?;
            }
            _ => {}
        }
        Ok(begun)
    }

    /// The carried state that the rows of a micro-batch start from.
    fn carried_rows<T: Transport>(
        &self,
        index: usize,
        rows: &Range<usize>,
        transport: &mut T,
        context: StepContext<'_>,
    ) -> Option<Carried> {
        let carried = self.carried.as_ref()?;
        if !context.continues {
            return Some(Carried::new());
        }
        let before: usize = context.sizes[..index].iter().sum();
        let rows = before + rows.start..before + rows.end;
        Some(match self.slot.role {
            // The carried state of replicas is on the coordinator.
            Role::Replica { .. } => transport.carried(carried, rows, &self.slot.plain()),
            Role::Stages { .. } | Role::Coordinator(_) => carried.rows(rows),
        })
    }

    fn forward_stages(
        &mut self,
        micro_batch: MicroBatchInput,
        context: StepContext<'_>,
    ) -> Result<Option<AnyTensor>, EngineError> {
        let MicroBatchInput { index, rows, input, targets, carried } = micro_batch;
        let StepContext { mut key, policy, samples, peers, .. } = context;
        if let Role::Replica { device, .. } = self.slot.role {
            // The coordinator draws the same random numbers as a single device.
            key = key.with_name("rank").with(device as u64);
        }
        let mut pass = Pass::train(key.with(index as u64)).with_policy(policy).with_peers(peers.cloned());
        if let Some(carried) = carried {
            pass = pass.with_carried(carried);
        }
        let weight = rows.len() as f32 / samples as f32;
        let comparison = targets.map(|targets| comparison(targets, weight, context));
        let Forwarded { output, loss, correct, carried, in_flight } =
            self.stage_runner().forward(input, pass, comparison)?;
        // The map is host memory; the tensors of its entries are on the device.
        charge(Account::Host, || self.in_flight.insert(index, in_flight));
        self.left.extend(carried);
        self.count(loss, correct);
        Ok(output)
    }

    /// Computes the loss of a round on the outputs of all replicas, and sends each replica the gradient of its output.
    fn compare<T: Transport>(
        &mut self,
        index: usize,
        transport: &mut T,
        context: StepContext<'_>,
    ) -> Result<Instant, EngineError> {
        let (slot, samples) = (self.slot, context.sizes[index]);
        let Role::Coordinator(scatter) = slot.role else { return Ok(Instant::now()) };
        let gathered = self.gather(index, scatter, transport, samples)?;
        let begun = Instant::now();
        let targets = {
            let _phase = phase(Phase::Data);
            transport.targets(index, &slot.tracked)
        };
        let comparing = transport.track(TrackKind::Forward, "loss", Some(index));
        let comparison = comparison(targets, samples as f32 / context.samples as f32, context);
        let GatheredLoss { loss, correct, gradient } =
            comparison.compare_gathered(gathered, context.policy, &slot.tracked)?;
        drop(comparing);
        self.count(Some(loss), correct);
        let Some(gradient) = gradient else { return Ok(begun) };
        let _phase = phase(Phase::Backward);
        let _track = transport.track(TrackKind::Communication, GRADIENT, Some(index));
        // An output may have several rows per sample.
        let of_sample = gradient.dims()[0] / samples.max(1);
        let of = |rows: Range<usize>| gradient.clone().rows(rows.start * of_sample..rows.end * of_sample);
        for device in 1..scatter.devices {
            let rows = scatter.rows_of(samples, device);
            if !rows.is_empty() {
                transport.send(Peer::Replica(device), Some(of(rows)))?;
            }
        }
        let own = scatter.rows_of(samples, 0);
        self.own_output = (!own.is_empty()).then(|| of(own));
        Ok(begun)
    }

    /// Gathers the outputs of all replicas, in the order of their samples.
    fn gather<T: Transport>(
        &mut self,
        index: usize,
        scatter: Scatter,
        transport: &mut T,
        samples: usize,
    ) -> Result<AnyTensor, EngineError> {
        let mut outputs: Vec<AnyTensor> = self.own_output.take().into_iter().collect();
        for device in 1..scatter.devices {
            let rows = scatter.rows_of(samples, device);
            if rows.is_empty() {
                continue;
            }
            let handed = transport.wait(Peer::Replica(device), "waits for output", Some(index))?;
            let _phase = phase(Phase::Forward);
            let _track = transport.track(TrackKind::Communication, OUTPUT, Some(index));
            let expected = Expected { crossing: LinkTensor::Output, samples: rows.len() };
            outputs.extend(transport.unpack(handed, expected, &self.slot.plain()));
        }
        let _phase = phase(Phase::Forward);
        Ok(AnyTensor::joined(outputs))
    }

    /// The backward pass of a micro-batch. Returns when it began.
    fn backward<T: Transport>(
        &mut self,
        index: usize,
        transport: &mut T,
        context: StepContext<'_>,
    ) -> Result<Instant, EngineError> {
        let slot = self.slot;
        let handed = match slot.role.sends_outputs() {
            true => Some(transport.wait(Peer::After, "waits for gradient", Some(index))?),
            false => None,
        };
        let begun = Instant::now();
        // One phase from here on: the planner ends the graph of a micro-batch where its backward begins.
        let _phase = phase(Phase::Backward);
        let gradient = match handed {
            Some(handed) => {
                let _track = transport.track(TrackKind::Communication, GRADIENT, Some(index));
                let samples = slot.role.rows(context.sizes[index]).len();
                let expected = Expected { crossing: LinkTensor::Output, samples };
                transport.unpack(handed, expected, &slot.plain())
            }
            None => self.own_output.take(),
        };
        let tracking = transport.track(TrackKind::Backward, "backward", Some(index));
        let is_last = index + 1 == context.sizes.len();
        let gradient = self.backward_stages(index, gradient, is_last)?;
        drop(tracking);
        if slot.role.takes_activations() {
            let _track = transport.track(TrackKind::Communication, GRADIENT, Some(index));
            transport.send(Peer::Before, gradient)?;
        }
        Ok(begun)
    }

    /// Backpropagates through the stages. Returns the gradient of the input, if the device before needs it.
    fn backward_stages(
        &mut self,
        index: usize,
        gradient: Option<AnyTensor>,
        is_last: bool,
    ) -> Result<Option<AnyTensor>, EngineError> {
        // In every order the forward of a micro-batch comes before its backward.
        let in_flight = self.in_flight.remove(&index).expect("the micro-batch went forward");
        let Self { model, segments, undo, watch, reduction, gradients: sums, .. } = self;
        let mut runner = StageRunner { model, segments, undo, watch: watch.as_deref_mut() };
        // In the last micro-batch the gradients of a segment are final after its backward, so their all-reduce starts.
        let passed: &mut SegmentPassed<'_> = &mut |segment, newest, watch| match reduction {
            Some(reduction) if is_last => reduction.pass(segment, sums, newest, watch),
            _ => Ok(()),
        };
        let outcome = runner.backward(in_flight, gradient, passed)?;
        accumulate(&mut self.gradients, outcome.gradients);
        Ok(outcome.input)
    }

    /// Adds the gradients of all replicas to those of the coordinator, in the order of devices.
    fn sum_gradients<T: Transport>(&mut self, transport: &mut T) -> Result<Instant, EngineError> {
        let begun = Instant::now();
        let Role::Coordinator(scatter) = self.slot.role else { return Ok(begun) };
        let plain = self.slot.plain();
        let shapes: Vec<_> = charge(Account::Host, || {
            self.gradients.iter().map(|(name, gradient)| (name.clone(), gradient.dims())).collect()
        });
        for device in 1..scatter.devices {
            let handed = transport.wait(Peer::Replica(device), "waits for gradients", None)?;
            let _phase = phase(Phase::Backward);
            let _track = transport.track(TrackKind::Communication, GRADIENTS, None);
            let sums = &mut self.gradients;
            transport.unpack_gradients(handed, &shapes, &plain, &mut |name, gradient| {
                accumulate(sums, Named::from([(name, gradient)]));
                Ok(())
            })?;
            exhausted::check()?;
        }
        Ok(begun)
    }

    fn send_gradients<T: Transport>(&mut self, transport: &mut T) -> Result<Instant, EngineError> {
        let begun = Instant::now();
        let _track = transport.track(TrackKind::Communication, GRADIENTS, None);
        transport.send_gradients(Peer::After, std::mem::take(&mut self.gradients))?;
        Ok(begun)
    }

    fn count(&mut self, loss: Option<Tensor<1>>, correct: Option<Tensor<1>>) {
        add(&mut self.loss, loss);
        add(&mut self.correct, correct);
    }

    fn stage_runner(&mut self) -> StageRunner<'_> {
        let Self { model, segments, undo, watch, .. } = self;
        StageRunner { model, segments, undo, watch: watch.as_deref_mut() }
    }
}

/// A micro-batch on the device.
struct MicroBatchInput {
    index: usize,
    /// The rows of the micro-batch on this device: all rows, unless the device has a replica.
    rows: Range<usize>,
    input: AnyTensor,
    /// The targets, if the device computes the loss.
    targets: Option<DeviceTargets>,
    carried: Option<Carried>,
}

fn comparison(targets: DeviceTargets, weight: f32, context: StepContext<'_>) -> LossComputation<'_> {
    let StepContext { task, loss_scale, .. } = context;
    LossComputation { task, targets, weight, loss_scale }
}

fn add(sum: &mut Option<Tensor<1>>, more: Option<Tensor<1>>) {
    let Some(more) = more else { return };
    *sum = Some(match sum.take() {
        Some(so_far) => so_far + more,
        None => more,
    });
}
