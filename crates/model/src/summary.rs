use std::ops::RangeBounds;

use burn::tensor::{Device, FloatDType, IntDType, Tensor};
use burn_capture::CapturedGraph;
use burn_ir::OperationIr;
use oomph_core::{Bytes, InputSpec, Key, SampleSpec};
use serde::Serialize;

use crate::{
    AnyTensor, Architecture, Carried, DeviceError, Init, LayerKind, ModelError, Named, Pass, Stages,
    multiply_adds::multiply_adds,
    trace::{Trace, TracedLayer, TracedScope},
    weights::{Wanted, wanted},
};

/// The layers of a model, with their shapes and costs for one batch.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// The model's name.
    pub model: String,
    /// Samples in the batch.
    pub batch: usize,
    /// The shape of the input, the batch first.
    pub input: Vec<usize>,
    /// A row for each stage, followed by a row for each of its layers.
    pub rows: Vec<SummaryRow>,
    /// Trainable elements of the model, frozen ones included.
    pub parameters: usize,
    /// Frozen elements among them.
    #[serde(skip_serializing_if = "is_zero")]
    pub frozen_parameters: usize,
    /// Multiply-adds of one forward of the batch.
    pub multiply_adds: u64,
    /// Bytes of all parameters and running statistics.
    pub parameter_bytes: Bytes,
    /// Bytes of the outputs of all layers in a forward. Training keeps other tensors.
    pub output_bytes: Bytes,
}

/// A stage or a layer of a [`Summary`].
#[derive(Clone, Debug, Serialize)]
pub struct SummaryRow {
    /// Its place in the model, such as `layer1.0.conv1`.
    pub name: String,
    /// 0 for a stage, 1 and more for its layers.
    pub depth: usize,
    /// Its type, such as `Conv2d`.
    pub kind: String,
    /// The shape of its input.
    pub input: Vec<usize>,
    /// The shape of its output.
    pub output: Vec<usize>,
    /// Its trainable elements, those of its parts included.
    pub parameters: usize,
    /// Whether it is frozen.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_frozen: bool,
    /// Its multiply-adds for the batch, those of its parts included.
    pub multiply_adds: u64,
    /// Bytes of its output.
    pub output_bytes: Bytes,
}

impl Summary {
    /// Whether the model has values besides its parameters: the running statistics of batch normalisation.
    pub fn has_running_statistics(&self) -> bool {
        self.parameter_bytes.get() > self.parameters as u64 * ELEMENT
    }

    /// The rows of the stages, in order.
    pub fn stages(&self) -> impl Iterator<Item = &SummaryRow> {
        self.rows.iter().filter(|row| row.depth == 0)
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The bytes of one fp32 element.
const ELEMENT: u64 = 4;

/// Summarises a model by one forward on a device that records operations and executes none: no tensor is allocated, whatever
/// the batch.
///
/// # Errors
/// A stage cannot take its input, or panics.
pub fn summarize(
    architecture: &Architecture,
    spec: &SampleSpec,
    batch: usize,
) -> Result<Summary, ModelError> {
    let (Traced { model, trace, shapes, .. }, graph) = record(architecture, spec, batch, Pass::eval())?;
    Ok(assemble(architecture.name(), batch, &model, &trace, &shapes, &graph))
}

/// Checks, without allocating tensors, that a model can be trained on `batch` samples at once.
///
/// # Errors
/// Those of [`summarize`] and of training: batch normalisation needs more than one value for each channel.
pub fn check_training(
    architecture: &Architecture,
    spec: &SampleSpec,
    batch: usize,
) -> Result<(), ModelError> {
    record(architecture, spec, batch, Pass::train(Key::new(0))).map(drop)
}

/// The parameters that the model will have, without allocating them, to compare a file of weights with.
///
/// # Errors
/// The model cannot take such samples.
pub fn parameters_wanted(architecture: &Architecture, spec: &SampleSpec) -> Result<Vec<Wanted>, ModelError> {
    on_capture(|device| Ok(wanted(&architecture.build(spec, &Init::shapes_only(device))?)))
        .map(|(wanted, _)| wanted)
}

/// The shapes of the state that the model carries from one batch of `batch` samples to the next, without allocating it.
///
/// # Errors
/// Those of [`summarize`].
pub fn carried_shapes(
    architecture: &Architecture,
    spec: &SampleSpec,
    batch: usize,
) -> Result<Named<Vec<usize>>, ModelError> {
    let pass = Pass::eval().with_carried(Carried::new());
    Ok(record(architecture, spec, batch, pass)?.0.carried)
}

/// A traced forward.
struct Traced {
    model: Stages,
    trace: Trace,
    /// The input shape of each stage, and the output shape of the last.
    shapes: Vec<Vec<usize>>,
    /// The shapes of the carried state.
    carried: Named<Vec<usize>>,
}

fn record(
    architecture: &Architecture,
    spec: &SampleSpec,
    batch: usize,
    mut pass: Pass,
) -> Result<(Traced, CapturedGraph), ModelError> {
    on_capture(|device| {
        // Only tensors of the autodiff device tell whether they are trainable.
        let tracked = device.clone().autodiff();
        let model = architecture.build(spec, &Init::shapes_only(&tracked))?;
        pass.trace = Some(Trace::new(device));
        let mut activation = blank_input(spec, batch, &tracked);
        let mut shapes = vec![activation.dims()];
        model.lend(&mut pass);
        for stage in 0..model.len() {
            activation = caught(&model, stage, activation, &mut pass)?;
            shapes.push(activation.dims());
        }
        let carried = pass.take_carried().unwrap_or_default();
        let carried = carried.tensors().iter().map(|(name, state)| (name.clone(), state.dims())).collect();
        // `trace` is set above, and nothing removes it.
        let trace = pass.trace.expect("the pass keeps its trace");
        Ok(Traced { model, trace, shapes, carried })
    })
}

/// Does `work` on a device that records operations and executes none.
pub(crate) fn on_capture<R>(
    work: impl FnOnce(&Device) -> Result<R, ModelError>,
) -> Result<(R, CapturedGraph), ModelError> {
    let mut device = Device::capture();
    let mut done = None;
    let graph = device.clone().capture_scope(|scope| {
        // The trainer's integers are 32 bits, the capture device's by default 64. Configuring can only fail for types
        // that a device lacks, and it has these.
        let _ = device.configure((FloatDType::F32, IntDType::I32));
        done = Some(work(&device));
        scope.complete([], [])
    });
    let failed = |reason: String| ModelError::Device(DeviceError { reason });
    // The closure has run if the scope fails. The model's error takes precedence over the recording's.
    let done = done.unwrap_or_else(|| Err(failed("the capture scope did not run".into())))?;
    Ok((done, graph.map_err(|error| failed(error.to_string()))?))
}

/// An input of zeros of the right shape, for devices that record.
pub fn blank_input(spec: &SampleSpec, batch: usize, device: &Device) -> AnyTensor {
    match spec.input {
        InputSpec::Tokens { steps, .. } => {
            Tensor::<2, burn::tensor::Int>::zeros([batch, steps], device).into()
        }
        _ => {
            let mut shape = vec![batch];
            shape.extend(spec.input.shape());
            AnyTensor::zeros(&shape, device)
        }
    }
}

/// Burn's own layers panic on a wrong shape. The error names the stage and the reason.
fn caught(model: &Stages, stage: usize, input: AnyTensor, pass: &mut Pass) -> Result<AnyTensor, ModelError> {
    let shape = input.dims();
    crate::panic::caught(|| model.forward_stage(stage, input, pass)).unwrap_or_else(|message| {
        let stage = model.names().nth(stage).unwrap_or_default().to_owned();
        Err(ModelError::StagePanicked { stage, input: shape, message })
    })
}

fn assemble(
    name: &str,
    batch: usize,
    model: &Stages,
    trace: &Trace,
    shapes: &[Vec<usize>],
    graph: &CapturedGraph,
) -> Summary {
    let costs = Costs::of(graph);
    let (mut own, mut all) = (vec![0; model.len()], 0);
    model.visit(&mut |info, tensor| {
        all += tensor.elements();
        own[info.stage] += if info.trainable || info.frozen { tensor.elements() } else { 0 };
    });
    let mut kinds = model.kinds();
    let mut stage = 0;
    let mut rows = Vec::new();
    for scope in &trace.scopes {
        if scope.depth == 0 {
            let whole = TracedLayer {
                kind: LayerKind(kinds.next().unwrap_or_default()),
                input: shapes[stage].clone(),
                output: shapes[stage + 1].clone(),
                parameters: own[stage],
            };
            rows.push(row(scope, 0, &whole, model.is_frozen(stage), &costs));
            stage += 1;
        }
        if let Some(layer) = &scope.layer {
            // Its stage was counted just before.
            let is_frozen = model.is_frozen(stage.saturating_sub(1));
            rows.push(row(scope, scope.depth.max(1), layer, is_frozen, &costs));
        }
    }
    let leaves = rows.iter().enumerate().filter(|(index, row)| {
        // The outputs of a stage are those of its layers, if they are listed.
        row.depth > 0 || rows.get(index + 1).is_none_or(|next| next.depth == 0)
    });
    Summary {
        model: name.to_owned(),
        batch,
        input: shapes[0].clone(),
        parameters: own.iter().sum(),
        frozen_parameters: model.frozen_elements(),
        multiply_adds: costs.within(..),
        parameter_bytes: Bytes::new(all as u64 * ELEMENT),
        output_bytes: leaves.map(|(_, row)| row.output_bytes).sum(),
        rows,
    }
}

/// The row of a layer, or of a stage as one layer.
fn row(scope: &TracedScope, depth: usize, layer: &TracedLayer, is_frozen: bool, costs: &Costs) -> SummaryRow {
    let bytes = layer.output.iter().fold(ELEMENT, |product, size| product.saturating_mul(*size as u64));
    SummaryRow {
        name: scope.place.clone(),
        depth,
        kind: layer.kind.0.to_owned(),
        input: layer.input.clone(),
        output: layer.output.clone(),
        parameters: layer.parameters,
        is_frozen,
        multiply_adds: costs.within(scope.span.0.value()..scope.span.1.value()),
        output_bytes: Bytes::new(bytes),
    }
}

/// The recorded operations that multiply and add, each with the identity of its output.
struct Costs(Vec<(u64, u64)>);

impl Costs {
    fn of(graph: &CapturedGraph) -> Self {
        let cost = |operation: &OperationIr| {
            let output = operation.outputs().next()?.id.value();
            Some((output, multiply_adds(operation))).filter(|(_, cost)| *cost > 0)
        };
        Self(graph.graph.operations.iter().filter_map(cost).collect())
    }

    /// The sum over the operations whose outputs are in `span`.
    fn within(&self, span: impl RangeBounds<u64>) -> u64 {
        let costs = self.0.iter().filter(|(output, _)| span.contains(output));
        costs.fold(0, |sum: u64, (_, cost)| sum.saturating_add(*cost))
    }
}
