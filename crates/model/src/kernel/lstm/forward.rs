use std::ops::Range;

use burn::tensor::{bf16, f16};
use burn_backend::{DType, Shape, TensorMetadata};
use burn_flex::FlexTensor;
use oomph_core::{Account, charge};

use super::{LstmStart, LstmSteps, Matrix, Outputs, ROWS, rows_of_a_task, sequence, state_of, workspace};
use crate::{
    AnyTensor,
    kernel::{
        Own, Workspace,
        panels::Panels,
        room::{self, Part},
        rows::{Value, Values, floats, round, tensor, zeros},
        vector::{Loops, multiply_add, sigmoid, tanh, vectorised},
        workers,
    },
};

/// How far apart gates of two rows are while they are computed: by a power of two they would all lie in the same few
/// places of the first cache.
fn stride(units: usize) -> usize {
    const LINE: usize = 16;
    4 * units + LINE
}

/// Outputs are written where the sequence is, if it is there; gates and state are new.
pub(super) fn own(start: LstmStart, of_input: &Matrix, recurrent: &Matrix) -> LstmSteps {
    let LstmStart { input, steps, bias, state: [hidden, cell], outputs, keeps_gates } = start;
    let [batch, all_steps, _] = input.dims();
    let units = recurrent.inner;
    let state = (vec![batch, units], DType::F32);
    let of_outputs = outputs.are_wanted().then(|| (vec![batch, all_steps, units], recurrent.dtype));
    let of_gates = keeps_gates.then(|| (vec![batch, steps.len(), 4 * units], DType::F32));
    let run = Run {
        makes_outputs: matches!(outputs, Outputs::New),
        keeps_gates,
        steps,
        of_input,
        recurrent,
        workspace: {
            let mut workspace = workspace(batch, recurrent.sizes(), Some(of_input.sizes()));
            workspace.of_each += ROWS * stride(units);
            workspace
        },
    };
    let writes = of_outputs.is_some();
    let there = outputs.there().map(AnyTensor::from);
    let in_place = usize::from(there.is_some());
    let inputs = [input.into(), bias.into(), hidden.into(), cell.into()].into_iter();
    let matrices = [of_input, recurrent].map(|matrix| matrix.panels().into());
    let operation = Own {
        name: "lstm_forward",
        inputs: there.into_iter().chain(inputs).chain(matrices).collect(),
        outputs: of_outputs.into_iter().chain(of_gates).chain([state.clone(), state]).collect(),
        in_place,
    };
    let made = operation.run_within(run.workspace, |inputs| match recurrent.dtype {
        DType::BF16 => run.on::<bf16>(inputs, in_place),
        DType::F16 => run.on::<f16>(inputs, in_place),
        _ => run.on::<f32>(inputs, in_place),
    });
    let mut made = made.into_iter();
    // As many outputs, of these ranks, are declared above.
    let mut next = || made.next().expect("the operation has the outputs that it declares");
    let output = writes.then(|| sequence(next()));
    let gates = keeps_gates.then(|| sequence(next()));
    LstmSteps { output, gates, state: [state_of(next()), state_of(next())] }
}

/// How a run of steps is computed.
struct Run<'a> {
    steps: Range<usize>,
    of_input: &'a Matrix,
    recurrent: &'a Matrix,
    workspace: Workspace,
    /// Whether the outputs are new.
    makes_outputs: bool,
    keeps_gates: bool,
}

impl Run<'_> {
    /// Inputs are the outputs, where they are there, and what is read.
    fn on<E: Value>(&self, mut inputs: Vec<FlexTensor>, in_place: usize) -> Vec<FlexTensor> {
        let read = inputs.split_off(in_place);
        let [batch, all_steps, _] = [0, 1, 2].map(|dim| read[0].shape()[dim]);
        let (steps, units) = (self.steps.len(), self.recurrent.inner);
        let there = inputs.first_mut().map(E::storage);
        let of_outputs = if self.makes_outputs { batch * all_steps * units } else { 0 };
        let of_gates = if self.keeps_gates { batch * steps * 4 * units } else { 0 };
        let (outputs, (gates, state)) = room::made(of_outputs, |outputs| {
            room::made(of_gates, |gates| {
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

    /// Writes outputs, to where they are `there` or to new ones, and gates where they are kept. Gives the last state.
    fn write<E: Value>(
        &self,
        read: &[FlexTensor],
        there: Option<&mut [E]>,
        new: Option<Part<'_, E>>,
        gates: Option<Part<'_>>,
    ) -> [Vec<f32>; 2] {
        let [bias, hidden, cell, of_input, recurrent] = [1, 2, 3, 4, 5].map(|index| floats(&read[index]));
        let all_steps = read[0].shape()[1];
        let (mut hidden, mut cell) = (hidden.to_vec(), cell.to_vec());
        let (steps, units) = (self.steps.len(), self.recurrent.inner);
        let rows = rows_of_a_task(hidden.len() / units.max(1), steps, self.recurrent);
        let recurrent = &Panels::new(recurrent, self.recurrent.sizes());
        let of_input = &Panels::new(of_input, self.of_input.sizes());
        let mut beside = zeros(self.workspace.shared);
        let mut there = there.map(|there| there.chunks_mut((rows * all_steps * units).max(1)));
        let mut new = new.map(|new| new.parts(rows * all_steps * units));
        let mut gates = gates.map(|gates| gates.parts(rows * steps * 4 * units));
        let state = hidden.chunks_mut((rows * units).max(1)).zip(cell.chunks_mut((rows * units).max(1)));
        let of_task = self.recurrent.sizes().elements_beside(rows).max(1);
        let tasks = state.zip(beside.chunks_mut(of_task)).enumerate();
        let tasks = tasks.map(|(index, ((hidden, cell), beside))| Forward {
            inputs: Inputs {
                values: Values::of(&read[0]),
                first_row: index * rows,
                all_steps,
                steps: self.steps.clone(),
                weights: of_input,
                dtype: self.recurrent.dtype,
            },
            bias,
            recurrent,
            first_step: self.steps.start,
            gates: Places::of(None, gates.as_mut().and_then(Iterator::next), steps * 4 * units),
            outputs: Places::of(
                there.as_mut().and_then(Iterator::next),
                new.as_mut().and_then(Iterator::next),
                all_steps * units,
            ),
            hidden,
            cell,
            beside,
        });
        workers::each(tasks, self.workspace, |forward, workspace| {
            vectorised(Working { forward, workspace });
        });
        [hidden, cell]
    }
}

/// Where a result is written: of each row of the batch what its steps give, one after the other.
enum Places<'a, E> {
    /// It is not wanted.
    Nowhere,
    /// Something stands there; a row has so many elements.
    There(&'a mut [E], usize),
    /// Of each row what nothing was written to yet.
    New(Vec<Part<'a, E>>),
}

impl<'a, E: Value> Places<'a, E> {
    /// Of rows of so many elements.
    fn of(there: Option<&'a mut [E]>, new: Option<Part<'a, E>>, of_row: usize) -> Self {
        match (there, new) {
            (Some(there), _) => Self::There(there, of_row),
            (None, Some(new)) => Self::New(charge(Account::Host, || new.parts(of_row).collect())),
            (None, None) => Self::Nowhere,
        }
    }

    /// Writes what a step of a row gives: the step after the one that was written before.
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
struct Forward<'a, E> {
    inputs: Inputs<'a>,
    bias: &'a [f32],
    recurrent: &'a Panels<'a>,
    /// The first step of the run.
    first_step: usize,
    /// Of all steps of the run.
    gates: Places<'a, f32>,
    /// Of all steps of the sequence.
    outputs: Places<'a, E>,
    hidden: &'a mut [f32],
    cell: &'a mut [f32],
    /// What products by the recurrent weights need beside those.
    beside: &'a mut [f32],
}

struct Working<'a, 'b, E> {
    forward: Forward<'a, E>,
    /// Room for [`ROWS`] of gates, and for what products by the weights of the input need beside those.
    workspace: &'b mut [f32],
}

impl<E: Value> Loops for Working<'_, '_, E> {
    /// Some steps at once: as many as there is room for their gates.
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { mut forward, workspace } = self;
        let units = forward.recurrent.sizes().inner();
        let (gates, beside) = workspace.split_at_mut(ROWS * stride(units));
        let Range { start, end } = forward.inputs.steps;
        let at_once = (ROWS * units / forward.hidden.len().max(1)).max(1);
        for start in (start..end).step_by(at_once) {
            forward.inputs.steps = start..(start + at_once).min(end);
            let rows = forward.hidden.len() / units;
            forward.inputs.project(rows, (&mut *gates, stride(units)), beside);
            forward.run::<FUSED>(gates);
        }
    }
}

impl<E: Value> Forward<'_, E> {
    /// The steps that were projected to `gates`.
    #[inline(always)]
    fn run<const FUSED: bool>(&mut self, gates: &mut [f32]) {
        let Self { inputs, recurrent, hidden, cell, beside, .. } = self;
        let units = recurrent.sizes().inner();
        let (rows, stride, at_once) = (hidden.len() / units, stride(units), inputs.steps.len());
        for (index, step) in inputs.steps.clone().enumerate() {
            let of_step = (&mut gates[index * stride..], at_once * stride);
            let put = recurrent.sizes().put_rows_of(|row| &hidden[row * units..][..units]);
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
struct Inputs<'a> {
    /// Of all rows and steps.
    values: Values<'a>,
    first_row: usize,
    all_steps: usize,
    steps: Range<usize>,
    weights: &'a Panels<'a>,
    /// What they are rounded to.
    dtype: DType,
}

impl Inputs<'_> {
    /// Writes what they give to the gates: step by step of each of so many rows.
    #[inline(always)]
    fn project(&self, rows: usize, gates: (&mut [f32], usize), beside: &mut [f32]) {
        let sizes = self.weights.sizes();
        let (steps, features) = (self.steps.len(), sizes.inner());
        let place = |row: usize| {
            let step = self.steps.start + row % steps;
            ((self.first_row + row / steps) * self.all_steps + step) * features
        };
        let put = |rows: Range<usize>, inner, tile: &mut [f32]| match self.values {
            Values::F32(input) => {
                sizes.put_rows_of(|row| &input[place(row)..][..features])(rows, inner, tile);
                round(tile, self.dtype);
            }
            Values::Bf16(input) => {
                sizes.put_rows_of(|row| &input[place(row)..][..features])(rows, inner, tile);
            }
            Values::F16(input) => {
                sizes.put_rows_of(|row| &input[place(row)..][..features])(rows, inner, tile);
            }
        };
        self.weights.multiply(rows * steps, put, gates, beside, false);
    }
}

#[inline(always)]
fn activate<const FUSED: bool>(gates: &mut [f32], bias: &[f32]) {
    let units = bias.len() / 4;
    let parts = gates.chunks_exact_mut(units).zip(bias.chunks_exact(units));
    for (part, (gates, bias)) in parts.enumerate() {
        let all = gates.iter_mut().zip(bias);
        match part {
            2 => all.for_each(|(gate, bias)| *gate = tanh::<FUSED>(*gate + bias)),
            _ => all.for_each(|(gate, bias)| *gate = sigmoid::<FUSED>(*gate + bias)),
        }
    }
}

/// The next cell, of activated gates: also what backward computes again.
#[inline(always)]
pub(super) fn next_cell<const FUSED: bool>(gates: &[f32], cell: &mut [f32]) {
    let units = cell.len();
    let [i, f, g] = [0, 1, 2].map(|gate| &gates[gate * units..][..units]);
    for unit in 0..units {
        cell[unit] = multiply_add::<FUSED>(f[unit], cell[unit], i[unit] * g[unit]);
    }
}

/// The hidden units of activated gates and the cell, rounded: also what backward computes again.
#[inline(always)]
pub(super) fn put_out<const FUSED: bool>(gates: &[f32], cell: &[f32], hidden: &mut [f32], dtype: DType) {
    let opened = &gates[3 * cell.len()..];
    for ((hidden, cell), opened) in hidden.iter_mut().zip(cell).zip(opened) {
        *hidden = opened * tanh::<FUSED>(*cell);
    }
    round(hidden, dtype);
}
