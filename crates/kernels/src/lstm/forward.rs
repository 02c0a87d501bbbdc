use std::ops::Range;

use burn_backend::{DType, Shape, TensorMetadata};
use burn_flex::FlexTensor;
use oomph_core::{Account, charge};

use super::{
    ROWS,
    cell::{activate, next_cell, put_out},
    matrix::LstmMatrix,
    rows_of_a_task,
    run::{LstmOutputs, LstmStart, LstmSteps},
    workspace,
};
use crate::{
    any_tensor::{AnyTensor, ranked},
    custom_op::{CustomOp, Workspace},
    flex_tensor::{floats, tensor, zeros},
    panels::{OutputRows, Panels},
    simd::{SimdLoops, vectorised},
    stored_float::{StoredFloat, StoredFloats, by_dtype, round, with_values},
    uninit::{self, UninitSlice},
    workers,
};

/// Elements between the gates of two rows while they are computed. At a power of two they would compete for the same few
/// lines of the first-level cache.
fn stride(units: usize) -> usize {
    const LINE: usize = 16;
    4 * units + LINE
}

/// Runs the steps by our own kernel. Outputs are written into the tensor of the sequence, if there is one; gates and state
/// are new.
pub(super) fn own(start: LstmStart, of_input: &LstmMatrix, recurrent: &LstmMatrix) -> LstmSteps {
    let LstmStart { input, steps, bias, state: [hidden, cell], outputs, keeps_gates } = start;
    let [batch, all_steps, _] = input.dims();
    let units = recurrent.sizes.inner;
    let state = (vec![batch, units], DType::F32);
    let writes = !matches!(outputs, LstmOutputs::Known);
    let of_outputs = writes.then(|| (vec![batch, all_steps, units], recurrent.dtype));
    let of_gates = keeps_gates.then(|| (vec![batch, steps.len(), 4 * units], DType::F32));
    let (count, of_each) = (steps.len(), of_input.sizes.elements_beside(ROWS) + ROWS * stride(units));
    let workspace = workspace(batch, recurrent, of_each);
    let run = ForwardRun {
        makes_outputs: matches!(outputs, LstmOutputs::New),
        keeps_gates,
        steps,
        of_input,
        recurrent,
        workspace: Workspace { steps: count, ..workspace },
    };
    let there = outputs.there().map(AnyTensor::from);
    let in_place = usize::from(there.is_some());
    let inputs = [input.into(), bias.into(), hidden.into(), cell.into()].into_iter();
    let matrices = [of_input, recurrent].map(|matrix| matrix.panels().into());
    let operation = CustomOp {
        name: "lstm_forward",
        inputs: there.into_iter().chain(inputs).chain(matrices).collect(),
        outputs: of_outputs.into_iter().chain(of_gates).chain([state.clone(), state]).collect(),
        in_place,
    };
    let made = operation
        .run_all(run.workspace, |inputs| by_dtype!(recurrent.dtype, E => run.on::<E>(inputs, in_place)));
    let mut made = made.into_iter();
    // The outputs are declared above, with these ranks.
    let mut next = || made.next().expect("the operation has the outputs that it declares");
    let output = writes.then(|| ranked(next()));
    let gates = keeps_gates.then(|| ranked(next()));
    LstmSteps { output, gates, state: [ranked(next()), ranked(next())] }
}

/// A forward pass over a run of steps.
struct ForwardRun<'a> {
    steps: Range<usize>,
    of_input: &'a LstmMatrix,
    recurrent: &'a LstmMatrix,
    workspace: Workspace,
    /// Whether the outputs are a new tensor.
    makes_outputs: bool,
    keeps_gates: bool,
}

impl ForwardRun<'_> {
    /// Runs the kernel. `inputs`: the outputs of other runs, if any, and then the tensors that are read.
    fn on<E: StoredFloat>(&self, mut inputs: Vec<FlexTensor>, in_place: usize) -> Vec<FlexTensor> {
        let read = inputs.split_off(in_place);
        let [batch, all_steps, _] = [0, 1, 2].map(|dim| read[0].shape()[dim]);
        let (steps, units) = (self.steps.len(), self.recurrent.sizes.inner);
        let there = inputs.first_mut().map(E::storage);
        let of_outputs = if self.makes_outputs { batch * all_steps * units } else { 0 };
        let of_gates = if self.keeps_gates { batch * steps * 4 * units } else { 0 };
        let (outputs, (gates, state)) = uninit::made(of_outputs, |outputs| {
            uninit::made(of_gates, |gates| {
                let outputs = self.makes_outputs.then_some(outputs);
                self.write::<E>(&read, there, outputs, self.keeps_gates.then_some(gates))
            })
        });
        let shape = Shape::from([batch, all_steps, units]);
        inputs.extend(self.makes_outputs.then(|| E::tensor(outputs, shape)));
        inputs.extend(self.keeps_gates.then(|| tensor(gates, &[batch, steps, 4 * units])));
        inputs.extend(state.map(|state| tensor(state, &[batch, units])));
        inputs
    }

    /// Writes outputs, to `there` or to `new`, and gates if they are kept. Gives the last state.
    fn write<E: StoredFloat>(
        &self,
        read: &[FlexTensor],
        there: Option<&mut [E]>,
        new: Option<UninitSlice<'_, E>>,
        gates: Option<UninitSlice<'_>>,
    ) -> [Vec<f32>; 2] {
        let [bias, hidden, cell, of_input, recurrent] = [1, 2, 3, 4, 5].map(|index| floats(&read[index]));
        let all_steps = read[0].shape()[1];
        let (mut hidden, mut cell) = (hidden.to_vec(), cell.to_vec());
        let (steps, units) = (self.steps.len(), self.recurrent.sizes.inner);
        let rows = rows_of_a_task(hidden.len() / units.max(1), steps, self.recurrent);
        let recurrent = &Panels::new(recurrent, self.recurrent.sizes);
        let of_input = &Panels::new(of_input, self.of_input.sizes);
        let mut beside = zeros(self.workspace.shared);
        let mut there = there.map(|there| there.chunks_mut((rows * all_steps * units).max(1)));
        let mut new = new.map(|new| new.parts(rows * all_steps * units));
        let mut gates = gates.map(|gates| gates.parts(rows * steps * 4 * units));
        let state = hidden.chunks_mut((rows * units).max(1)).zip(cell.chunks_mut((rows * units).max(1)));
        let of_task = self.recurrent.sizes.elements_beside(rows).max(1);
        let tasks = state.zip(beside.chunks_mut(of_task)).enumerate();
        let tasks = tasks.map(|(index, ((hidden, cell), beside))| ForwardTask {
            inputs: TaskInputs {
                values: StoredFloats::of(&read[0]),
                first_row: index * rows,
                all_steps,
                steps: self.steps.clone(),
                weights: of_input,
                dtype: self.recurrent.dtype,
            },
            bias,
            recurrent,
            first_step: self.steps.start,
            gates: StepOutputs::of(None, gates.as_mut().and_then(Iterator::next), steps * 4 * units),
            outputs: StepOutputs::of(
                there.as_mut().and_then(Iterator::next),
                new.as_mut().and_then(Iterator::next),
                all_steps * units,
            ),
            hidden,
            cell,
            beside,
        });
        workers::each(tasks, self.workspace, |forward, workspace| {
            vectorised(ForwardWork { forward, workspace });
        });
        [hidden, cell]
    }
}

/// The destination of a result: for each row of the batch, its steps one after the other.
enum StepOutputs<'a, E> {
    /// None: the result is not wanted.
    Nowhere,
    /// An existing tensor, and the elements of a row.
    There(&'a mut [E], usize),
    /// A new tensor: the part of each row that is not yet written.
    New(Vec<UninitSlice<'a, E>>),
}

impl<'a, E: StoredFloat> StepOutputs<'a, E> {
    /// A destination whose rows have `of_row` elements.
    fn of(there: Option<&'a mut [E]>, new: Option<UninitSlice<'a, E>>, of_row: usize) -> Self {
        match (there, new) {
            (Some(there), _) => Self::There(there, of_row),
            (None, Some(new)) => Self::New(charge(Account::Host, || new.parts(of_row).collect())),
            (None, None) => Self::Nowhere,
        }
    }

    /// Writes the result of a step of a row. Steps are written in their order.
    #[inline(always)]
    fn write(&mut self, row: usize, step: usize, values: &[f32]) {
        match self {
            Self::Nowhere => {}
            Self::There(rows, of_row) => {
                let place = &mut rows[row * *of_row + step * values.len()..][..values.len()];
                place.iter_mut().zip(values).for_each(|(to, value)| *to = E::rounded(*value));
            }
            Self::New(rows) => rows[row].write_first(values),
        }
    }
}

/// The steps of some rows of the batch.
struct ForwardTask<'a, E> {
    inputs: TaskInputs<'a>,
    bias: &'a [f32],
    recurrent: &'a Panels<'a>,
    /// The first step of the run.
    first_step: usize,
    /// The gates of all steps of the run.
    gates: StepOutputs<'a, f32>,
    /// The outputs of all steps of the sequence.
    outputs: StepOutputs<'a, E>,
    hidden: &'a mut [f32],
    cell: &'a mut [f32],
    /// The workspace of products with the recurrent weights.
    beside: &'a mut [f32],
}

struct ForwardWork<'a, 'b, E> {
    forward: ForwardTask<'a, E>,
    /// [`ROWS`] of gates, and the workspace of products with the input weights.
    workspace: &'b mut [f32],
}

impl<E: StoredFloat> SimdLoops for ForwardWork<'_, '_, E> {
    /// Runs as many steps at once as the workspace has space for their gates.
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { mut forward, workspace } = self;
        let units = forward.recurrent.sizes.inner;
        let (gates, beside) = workspace.split_at_mut(ROWS * stride(units));
        let Range { start, end } = forward.inputs.steps;
        let at_once = (ROWS * units / forward.hidden.len().max(1)).max(1);
        for start in (start..end).step_by(at_once) {
            forward.inputs.steps = start..(start + at_once).min(end);
            let rows = forward.hidden.len() / units;
            let projected = OutputRows { elements: &mut *gates, stride: stride(units) };
            forward.inputs.project(rows, projected, beside);
            forward.run::<FUSED>(gates);
        }
    }
}

impl<E: StoredFloat> ForwardTask<'_, E> {
    /// Runs the steps whose inputs were projected to `gates`.
    #[inline(always)]
    fn run<const FUSED: bool>(&mut self, gates: &mut [f32]) {
        let Self { inputs, recurrent, hidden, cell, beside, .. } = self;
        let units = recurrent.sizes.inner;
        let (rows, stride, at_once) = (hidden.len() / units, stride(units), inputs.steps.len());
        for (index, step) in inputs.steps.clone().enumerate() {
            let of_step = OutputRows { elements: &mut gates[index * stride..], stride: at_once * stride };
            let put = recurrent.sizes.put_rows_of(|row| &hidden[row * units..][..units]);
            recurrent.multiply(rows, put, of_step, beside, true);
            let states = hidden.chunks_exact_mut(units).zip(cell.chunks_exact_mut(units));
            for (row, (hidden, cell)) in states.enumerate() {
                let gates = &mut gates[(row * at_once + index) * stride..][..4 * units];
                activate::<FUSED>(gates, self.bias);
                round(gates, inputs.dtype);
                next_cell::<FUSED>(gates, cell);
                put_out::<FUSED>(gates, cell, hidden, inputs.dtype);
                self.gates.write(row, step - self.first_step, gates);
                self.outputs.write(row, step, hidden);
            }
        }
    }
}

/// The inputs of some rows of the batch.
struct TaskInputs<'a> {
    /// The inputs of all rows and steps.
    values: StoredFloats<'a>,
    first_row: usize,
    all_steps: usize,
    steps: Range<usize>,
    weights: &'a Panels<'a>,
    /// The format that inputs are rounded to.
    dtype: DType,
}

impl TaskInputs<'_> {
    /// Writes the products of inputs and weights to the gates: row by row, step by step.
    #[inline(always)]
    fn project(&self, rows: usize, gates: OutputRows<'_>, beside: &mut [f32]) {
        let sizes = self.weights.sizes;
        let (steps, features) = (self.steps.len(), sizes.inner);
        let place = |row: usize| {
            let step = self.steps.start + row % steps;
            ((self.first_row + row / steps) * self.all_steps + step) * features
        };
        let put = |rows: Range<usize>, inner, tile: &mut [f32]| {
            with_values!(self.values, input => {
                sizes.put_rows_of(|row| &input[place(row)..][..features])(rows, inner, tile);
            });
            // Stored 16 bits are rounded already.
            if matches!(self.values, StoredFloats::F32(_)) {
                round(tile, self.dtype);
            }
        };
        self.weights.multiply(rows * steps, put, gates, beside, false);
    }
}
