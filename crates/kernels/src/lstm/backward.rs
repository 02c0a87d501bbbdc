use std::ops::Range;

use burn_backend::{DType, TensorMetadata};
use burn_flex::FlexTensor;

use super::{
    cell::{next_cell, put_out},
    matrix::LstmMatrix,
    rows_of_a_task,
    run::{LstmEnd, LstmGradients},
    workspace,
};
use crate::{
    activations::tanh,
    any_tensor::ranked,
    custom_op::{CustomOp, Workspace},
    flex_tensor::{floats, tensor, zeros},
    panels::{OutputRows, Panels},
    simd::{SimdLoops, multiply_add, vectorised},
    stored_float::{StoredFloat, StoredFloats, with_values},
    uninit::{self, UninitSlice},
    workers,
};

/// Goes back by our own kernel. The gradients of gates overwrite the gates.
pub(super) fn own(end: LstmEnd, recurrent: &LstmMatrix) -> LstmGradients {
    let LstmEnd { gates, before: [hidden, cell], steps, outputs, after } = end;
    let [hidden_gradient, cell_gradient] = after;
    let dims @ [batch, _, _] = gates.dims();
    let units = recurrent.sizes.columns;
    let of_steps = (vec![batch, steps.len(), units], DType::F32);
    let state = (vec![batch, units], DType::F32);
    let workspace = workspace(batch, recurrent, 0);
    let operation = CustomOp {
        name: "lstm_backward",
        inputs: vec![
            gates.into(),
            hidden.into(),
            cell.into(),
            outputs.into(),
            hidden_gradient.into(),
            cell_gradient.into(),
            recurrent.panels().into(),
        ],
        // The last output, the cells, is used inside the kernel only.
        outputs: vec![(dims.to_vec(), DType::F32), of_steps.clone(), state.clone(), state, of_steps],
        in_place: 1,
    };
    let run = BackwardRun { steps, recurrent, workspace };
    let [gates, previous, hidden, cell, _] = operation.run_within(workspace, |inputs| run.on(inputs));
    LstmGradients { gates: ranked(gates), previous: ranked(previous), state: [hidden, cell].map(ranked) }
}

/// A backward pass through a run of steps.
struct BackwardRun<'a> {
    steps: Range<usize>,
    recurrent: &'a LstmMatrix,
    workspace: Workspace,
}

impl BackwardRun<'_> {
    fn on(&self, mut inputs: Vec<FlexTensor>) -> Vec<FlexTensor> {
        let rest = inputs.split_off(1);
        let [hidden, cell, hidden_gradient, cell_gradient, panels] =
            [0, 1, 3, 4, 5].map(|index| floats(&rest[index]));
        let [batch, all_steps, units] = [0, 1, 2].map(|dim| rest[2].shape()[dim]);
        // The gates are the only input left.
        let mut gates = inputs.swap_remove(0);
        let steps = self.steps.len();
        let (mut hidden_gradient, mut cell_gradient) = (hidden_gradient.to_vec(), cell_gradient.to_vec());
        let recurrent = &Panels::new(panels, self.recurrent.sizes);
        let mut beside = zeros(self.workspace.shared);
        let rows = rows_of_a_task(batch, steps, self.recurrent);
        let (of_rows, of_steps) = ((rows * units).max(1), (rows * steps * units).max(1));
        let gates_storage = gates.storage_mut::<f32>();
        let mut write = |cells: UninitSlice<'_>, previous: UninitSlice<'_>| {
            let gates = gates_storage.chunks_mut(4 * of_steps);
            let within = cells.parts(of_steps).zip(previous.parts(of_steps));
            let gradients = hidden_gradient.chunks_mut(of_rows).zip(cell_gradient.chunks_mut(of_rows));
            let beside = beside.chunks_mut(self.recurrent.sizes.elements_beside(rows).max(1));
            let before = hidden.chunks(of_rows).zip(cell.chunks(of_rows));
            let all = gates.zip(within).zip(gradients.zip(before)).zip(beside).enumerate();
            let tasks = all.map(|(index, (((gates, within), (gradients, before)), beside))| BackwardWork {
                within: <[UninitSlice<'_>; 2]>::from(within),
                backward: BackwardTask {
                    recurrent,
                    before: <[&[f32]; 2]>::from(before),
                    outputs: StoredFloats::of(&rest[2]),
                    first_row: index * rows,
                    all_steps,
                    first_step: self.steps.start,
                    gates,
                    gradients: <[&mut [f32]; 2]>::from(gradients),
                    beside,
                    steps,
                    units,
                    dtype: self.recurrent.dtype,
                },
            });
            workers::all(batch.div_ceil(rows), tasks, vectorised);
        };
        let count = batch * steps * units;
        let (cells, (previous, ())) =
            uninit::made(count, |cells| uninit::made(count, |previous| write(cells, previous)));
        let state = [batch, units];
        let [previous, cells] = [previous, cells].map(|values| tensor(values, &[batch, steps, units]));
        let [hidden, cell] = [hidden_gradient, cell_gradient].map(|values| tensor(values, &state));
        vec![gates, previous, hidden, cell, cells]
    }
}

/// The steps of some rows of the batch.
struct BackwardTask<'a> {
    recurrent: &'a Panels<'a>,
    /// Hidden units and cell before the first step.
    before: [&'a [f32]; 2],
    /// The gradient of the outputs, of all rows and steps.
    outputs: StoredFloats<'a>,
    first_row: usize,
    all_steps: usize,
    first_step: usize,
    /// Activated gates. Their gradients, before the activation, overwrite them.
    gates: &'a mut [f32],
    /// The gradients of hidden units and cell.
    gradients: [&'a mut [f32]; 2],
    /// The workspace of products.
    beside: &'a mut [f32],
    steps: usize,
    units: usize,
    /// The format that hidden units are rounded to.
    dtype: DType,
}

/// Some rows of the batch, with memory for the cells after each step and the hidden units before it.
struct BackwardWork<'a> {
    backward: BackwardTask<'a>,
    within: [UninitSlice<'a>; 2],
}

impl SimdLoops for BackwardWork<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let [cells, previous] = self.within.map(UninitSlice::zeroed);
        self.backward.again::<FUSED>(cells, previous);
        self.backward.run::<FUSED>(cells);
    }
}

impl BackwardTask<'_> {
    /// Goes back step by step. The `cells` are known.
    #[inline(always)]
    fn run<const FUSED: bool>(mut self, cells: &[f32]) {
        let (steps, units) = (self.steps, self.units);
        let (width, rows) = (4 * units, self.gradients[0].len() / units);
        for step in (0..steps).rev() {
            for row in 0..rows {
                self.step::<FUSED>(row, step, cells);
            }
            let (gates, [hidden, _]) = (&*self.gates, &mut self.gradients);
            let put = self.recurrent.sizes.put_rows_of(|row| &gates[(row * steps + step) * width..][..width]);
            let output = OutputRows { elements: hidden, stride: units };
            self.recurrent.multiply(rows, put, output, &mut *self.beside, false);
        }
    }

    /// Computes the cells after each step and the hidden units before it, as forward did.
    #[inline(always)]
    fn again<const FUSED: bool>(&self, cells: &mut [f32], previous: &mut [f32]) {
        let Self { steps, units, .. } = *self;
        let [hidden, cell] = self.before;
        let rows = hidden.chunks_exact(units).zip(cell.chunks_exact(units)).enumerate();
        for (row, (hidden, cell)) in rows {
            let of_row = row * steps * units..(row + 1) * steps * units;
            let (cells, previous) = (&mut cells[of_row.clone()], &mut previous[of_row]);
            cells[..units].copy_from_slice(cell);
            previous[..units].copy_from_slice(hidden);
            for step in 0..steps {
                let gates = &self.gates[(row * steps + step) * 4 * units..][..4 * units];
                let (cell, next) = cells[step * units..].split_at_mut(units);
                next_cell::<FUSED>(gates, cell);
                // The last hidden units are no step's previous ones.
                if step + 1 < steps {
                    put_out::<FUSED>(gates, cell, &mut previous[(step + 1) * units..][..units], self.dtype);
                    next[..units].copy_from_slice(cell);
                }
            }
        }
    }

    /// Goes back through one step of one row. The `cells` are known.
    #[inline(always)]
    fn step<const FUSED: bool>(&mut self, row: usize, step: usize, cells: &[f32]) {
        let units = self.units;
        let at = row * self.steps + step;
        let cell_before = match step {
            0 => &self.before[1][row * units..][..units],
            _ => &cells[(at - 1) * units..][..units],
        };
        let [hidden_gradient, cell_gradient] = &mut self.gradients;
        let hidden_gradient = &mut hidden_gradient[row * units..][..units];
        let output = ((self.first_row + row) * self.all_steps + self.first_step + step) * units;
        with_values!(self.outputs, outputs => add(&outputs[output..], hidden_gradient));
        let (i, rest) = self.gates[at * 4 * units..][..4 * units].split_at_mut(units);
        let (f, rest) = rest.split_at_mut(units);
        let (g, o) = rest.split_at_mut(units);
        go_back::<FUSED>(
            [i, f, g, o],
            [&cells[at * units..], cell_before],
            hidden_gradient,
            &mut cell_gradient[row * units..][..units],
        );
    }
}

#[inline(always)]
fn add<E: StoredFloat>(values: &[E], sums: &mut [f32]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value.widened());
}

/// `gradient`, or zero if it is too small to matter. Gradients vanish on the way back through a long sequence, and products
/// of subnormal numbers take a processor a hundred times as long (a training step over 320 time steps took 0.8 s instead of
/// 0.1).
#[inline(always)]
fn flushed(gradient: f32) -> f32 {
    const LEAST: f32 = 1e-30;
    if gradient.abs() < LEAST { 0.0 } else { gradient }
}

/// With σ′ = σ(1 − σ) and tanh′ = 1 − tanh²:
/// dc′ = dc + dh·o·tanh′(c), di = dc′·g·σ′, df = dc′·c₋₁·σ′, dg = dc′·i·tanh′, do = dh·tanh(c)·σ′, dc₋₁ = dc′·f.
///
/// dh is the sum of the gradients from the output and from the next step.
#[inline(always)]
fn go_back<const FUSED: bool>(
    [i, f, g, o]: [&mut [f32]; 4],
    [cell, cell_before]: [&[f32]; 2],
    hidden_gradient: &[f32],
    cell_gradient: &mut [f32],
) {
    let units = cell_gradient.len();
    let (i, f, g, o) = (&mut i[..units], &mut f[..units], &mut g[..units], &mut o[..units]);
    let [cell, cell_before, of_hidden] = [cell, cell_before, hidden_gradient].map(|values| &values[..units]);
    for unit in 0..units {
        let of_hidden = of_hidden[unit];
        let activated = tanh::<FUSED>(cell[unit]);
        let slope = o[unit] * (1.0 - activated * activated);
        let of_cell = multiply_add::<FUSED>(of_hidden, slope, cell_gradient[unit]);
        cell_gradient[unit] = flushed(of_cell * f[unit]);
        let (input, candidate) = (i[unit], g[unit]);
        i[unit] = flushed(of_cell * candidate * (input * (1.0 - input)));
        f[unit] = flushed(of_cell * cell_before[unit] * (f[unit] * (1.0 - f[unit])));
        g[unit] = flushed(of_cell * input * (1.0 - candidate * candidate));
        o[unit] = flushed(of_hidden * activated * (o[unit] * (1.0 - o[unit])));
    }
}
