use std::ops::Range;

use burn::tensor::{bf16, f16};
use burn_backend::{DType, TensorMetadata};
use burn_flex::FlexTensor;

use super::{LstmStart, LstmSteps, Matrix, ROWS, rows_of_a_task, sequence, state_of, workspace};
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

/// Outputs are written where the sequence is; gates and state are new.
pub(super) fn own(start: LstmStart, of_input: &Matrix, recurrent: &Matrix) -> LstmSteps {
    let LstmStart { input, steps, bias, state: [hidden, cell], output, keeps_gates } = start;
    let [batch, _, _] = input.dims();
    let (units, writes) = (recurrent.inner, output.is_some());
    let state = (vec![batch, units], DType::F32);
    let of_output = output.iter().map(|output| (output.dims().to_vec(), output.dtype()));
    let of_gates = keeps_gates.then(|| (vec![batch, steps.len(), 4 * units], DType::F32));
    let outputs = of_output.chain(of_gates).chain([state.clone(), state]).collect();
    let matrices = [of_input, recurrent].map(|matrix| matrix.panels().into());
    let output = output.map(AnyTensor::from).into_iter();
    let inputs = [input.into(), bias.into(), hidden.into(), cell.into()].into_iter();
    let operation = Own {
        name: "lstm_forward",
        inputs: output.chain(inputs).chain(matrices).collect(),
        outputs,
        in_place: usize::from(writes),
    };
    let mut workspace = workspace(batch, recurrent.sizes(), Some(of_input.sizes()));
    if !keeps_gates {
        workspace.of_each += ROWS * 4 * units;
    }
    let run = Run { steps, of_input, recurrent, workspace, writes, keeps_gates };
    let made = operation.run_within(workspace, |inputs| match recurrent.dtype {
        DType::BF16 => run.on::<bf16>(inputs),
        DType::F16 => run.on::<f16>(inputs),
        _ => run.on::<f32>(inputs),
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
    /// Whether outputs are asked for, and gates.
    writes: bool,
    keeps_gates: bool,
}

impl Run<'_> {
    /// Inputs are the outputs, where they are written, and what is read.
    fn on<E: Value>(&self, mut inputs: Vec<FlexTensor>) -> Vec<FlexTensor> {
        let read = inputs.split_off(usize::from(self.writes));
        let [bias, hidden, cell, of_input, recurrent] = [1, 2, 3, 4, 5].map(|index| floats(&read[index]));
        let [batch, all_steps, _] = [0, 1, 2].map(|dim| read[0].shape()[dim]);
        let (steps, units) = (self.steps.len(), self.recurrent.inner);
        let (mut hidden, mut cell) = (hidden.to_vec(), cell.to_vec());
        let Workspace { shared, of_each, .. } = self.workspace;
        let (mut beside, mut workspaces) = (zeros(shared), self.workspace.of_threads());
        let recurrent = &Panels::new(recurrent, self.recurrent.sizes());
        let of_input = &Panels::new(of_input, self.of_input.sizes());
        let rows = rows_of_a_task(batch, steps, self.recurrent);
        let mut outputs = inputs.first_mut().map(E::storage);
        let mut outputs =
            outputs.as_mut().map(|outputs| outputs.chunks_mut((rows * all_steps * units).max(1)));
        // Elements of all gates, of which tasks write their part, and of theirs.
        let of_gates =
            if self.keeps_gates { [batch, rows].map(|rows| rows * steps * 4 * units) } else { [0; 2] };
        let write = |gates: Part<'_>| {
            let mut gates = gates.parts(of_gates[1]);
            let state = hidden.chunks_mut(rows * units).zip(cell.chunks_mut(rows * units));
            let beside = beside.chunks_mut(self.recurrent.sizes().elements_beside(rows).max(1));
            let tasks = state.zip(beside).enumerate();
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
                gates: gates.next(),
                outputs: outputs.as_mut().and_then(Iterator::next).unwrap_or_default(),
                hidden,
                cell,
                beside,
            });
            workers::each(tasks, &mut workspaces, of_each, |forward, workspace| {
                vectorised(Working { forward, workspace });
            });
        };
        let (gates, ()) = room::made(of_gates[0], write);
        let gates = self.keeps_gates.then(|| tensor(gates, &[batch, steps, 4 * units]));
        inputs.extend(gates);
        inputs.extend([hidden, cell].map(|state| tensor(state, &[batch, units])));
        inputs
    }
}

/// The steps of some rows of the batch.
struct Forward<'a, E> {
    inputs: Inputs<'a>,
    bias: &'a [f32],
    recurrent: &'a Panels<'a>,
    /// Of all steps, where they are kept.
    gates: Option<Part<'a>>,
    /// Of all steps; nothing where they are not asked for.
    outputs: &'a mut [E],
    hidden: &'a mut [f32],
    cell: &'a mut [f32],
    /// What products by the recurrent weights need beside those.
    beside: &'a mut [f32],
}

struct Working<'a, 'b, E> {
    forward: Forward<'a, E>,
    /// Room for [`ROWS`] gates where they are not kept, and what products by the weights of the input need beside those.
    workspace: &'b mut [f32],
}

impl<E: Value> Loops for Working<'_, '_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { mut forward, workspace } = self;
        if let Some(gates) = forward.gates.take() {
            let gates = gates.repeated(forward.bias);
            forward.run::<FUSED>(forward.inputs.clone(), gates, workspace);
            return;
        }
        let rows = forward.hidden.len() / forward.recurrent.sizes().inner();
        let (room, workspace) = workspace.split_at_mut(ROWS * forward.bias.len());
        let Range { start, end } = forward.inputs.steps;
        let at_once = (ROWS / rows.max(1)).max(1);
        for start in (start..end).step_by(at_once) {
            let steps = start..(start + at_once).min(end);
            let gates = &mut room[..rows * steps.len() * forward.bias.len()];
            gates.chunks_exact_mut(forward.bias.len()).for_each(|gates| gates.copy_from_slice(forward.bias));
            let inputs = Inputs { steps, ..forward.inputs.clone() };
            forward.run::<FUSED>(inputs, gates, workspace);
        }
    }
}

impl<E: Value> Forward<'_, E> {
    /// The steps of `inputs`, whose `gates` are biases: they are activated where they are summed up.
    #[inline(always)]
    fn run<const FUSED: bool>(&mut self, inputs: Inputs<'_>, gates: &mut [f32], workspace: &mut [f32]) {
        let Self { recurrent, outputs, hidden, cell, beside, .. } = self;
        inputs.project(gates, workspace);
        let Inputs { all_steps, dtype, .. } = inputs;
        let (steps, units) = (inputs.steps.len(), recurrent.sizes().inner());
        let (width, rows) = (4 * units, hidden.len() / units);
        for step in 0..steps {
            let of_step = (&mut gates[step * width..], steps * width);
            let put = recurrent.sizes().put_rows_of(|row| &hidden[row * units..][..units]);
            recurrent.add_product(rows, put, of_step, beside);
            let states = hidden.chunks_exact_mut(units).zip(cell.chunks_exact_mut(units));
            for (row, (hidden, cell)) in states.enumerate() {
                let gates = &mut gates[(row * steps + step) * width..][..width];
                activate::<FUSED>(gates, units);
                round(gates, dtype);
                next_cell::<FUSED>(gates, cell);
                put_out::<FUSED>(gates, cell, hidden, dtype);
                let output = (row * all_steps + inputs.steps.start + step) * units;
                if let Some(outputs) = outputs.get_mut(output..) {
                    outputs.iter_mut().zip(hidden).for_each(|(to, value)| *to = E::rounded(*value));
                }
            }
        }
    }
}

/// The inputs of some rows of the batch.
#[derive(Clone)]
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
    /// Adds what they give to the gates of all steps.
    #[inline(always)]
    fn project(&self, gates: &mut [f32], beside: &mut [f32]) {
        let sizes = self.weights.sizes();
        let (steps, width, features) = (self.steps.len(), sizes.columns(), sizes.inner());
        for (block, gates) in gates.chunks_mut(ROWS * width).enumerate() {
            let place = |row: usize| {
                let row = block * ROWS + row;
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
            self.weights.add_product(gates.len() / width, put, (gates, width), beside);
        }
    }
}

#[inline(always)]
fn activate<const FUSED: bool>(gates: &mut [f32], units: usize) {
    let (before, rest) = gates.split_at_mut(2 * units);
    let (candidates, behind) = rest.split_at_mut(units);
    before.iter_mut().for_each(|gate| *gate = sigmoid::<FUSED>(*gate));
    candidates.iter_mut().for_each(|gate| *gate = tanh::<FUSED>(*gate));
    behind.iter_mut().for_each(|gate| *gate = sigmoid::<FUSED>(*gate));
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
