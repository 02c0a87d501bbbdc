use burn::tensor::Tensor;
use burn_backend::DType;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::{
    LstmGradients, Recurrent,
    forward::{next_cell, put_out, sequence, state_of},
    rows_of_a_task, workspace,
};
use crate::kernel::{
    Own,
    panels::{Panelled, Panels},
    rows::{floats, tensor, zeros},
    vector::{Loops, multiply_add, tanh, vectorised},
};

/// The gradients of gates are written over the gates.
pub(super) fn own(
    gates: Tensor<3>,
    [hidden, cell]: [Tensor<2>; 2],
    outputs: Tensor<3>,
    [hidden_gradient, cell_gradient]: [Tensor<2>; 2],
    panels: Tensor<1>,
    recurrent: &Recurrent,
) -> LstmGradients {
    let dims @ [batch, steps, _] = gates.dims();
    let (units, dtype) = (recurrent.units, recurrent.dtype);
    let of_steps = (vec![batch, steps, units], DType::F32);
    let state = (vec![batch, units], DType::F32);
    let matrix = Panelled::new(4 * units, units);
    let workspace = workspace(batch, matrix);
    let operation = Own {
        name: "lstm_backward",
        inputs: vec![
            gates.into(),
            hidden.into(),
            cell.into(),
            outputs.into(),
            hidden_gradient.into(),
            cell_gradient.into(),
            panels.into(),
        ],
        // The cells, the last, are used within alone.
        outputs: vec![(dims.to_vec(), DType::F32), of_steps.clone(), state.clone(), state, of_steps],
        in_place: true,
    };
    let outputs = operation.run_within(workspace, |inputs| {
        run(inputs, [batch, steps, units], dtype, zeros(workspace.shared), matrix)
    });
    let mut outputs = outputs.into_iter();
    // Five outputs of these ranks are declared above.
    let mut next = || outputs.next().expect("the operation has five outputs");
    let (gates, previous) = (sequence(next()), sequence(next()));
    let state = [state_of(next()), state_of(next())];
    LstmGradients { gates, previous, state }
}

fn run(
    mut inputs: Vec<FlexTensor>,
    dims: [usize; 3],
    dtype: DType,
    mut beside: Vec<f32>,
    matrix: Panelled,
) -> Vec<FlexTensor> {
    let [batch, steps, units] = dims;
    let rest = inputs.split_off(1);
    let [hidden, cell, outputs, hidden_gradient, cell_gradient, panels] =
        [0, 1, 2, 3, 4, 5].map(|index| floats(&rest[index]));
    // The only one that is left.
    let mut gates = inputs.swap_remove(0);
    let (mut cells, mut previous) = (vec![0.0; batch * steps * units], vec![0.0; batch * steps * units]);
    let (mut hidden_gradient, mut cell_gradient) = (hidden_gradient.to_vec(), cell_gradient.to_vec());
    let panels = &Panels::new(panels, matrix);
    let rows = rows_of_a_task(batch, steps, units, matrix);
    let beside = beside.par_chunks_mut(matrix.elements_beside(rows).max(1));
    let (of_rows, of_steps) = (rows * units, (rows * steps * units).max(1));
    let written = gates
        .storage_mut::<f32>()
        .par_chunks_mut(4 * of_steps)
        .zip(cells.par_chunks_mut(of_steps).zip(previous.par_chunks_mut(of_steps)));
    let gradients = hidden_gradient.par_chunks_mut(of_rows).zip(cell_gradient.par_chunks_mut(of_rows));
    let read = outputs.par_chunks(of_steps).zip(hidden.par_chunks(of_rows).zip(cell.par_chunks(of_rows)));
    written.zip(gradients).zip(read).zip(beside).for_each(|(((written, gradients), read), beside)| {
        let (gates, (cells, previous)) = written;
        let ((hidden_gradient, cell_gradient), (outputs, (hidden, cell))) = (gradients, read);
        let backward = Backward {
            panels,
            before: [hidden, cell],
            outputs,
            gates,
            cells,
            previous,
            hidden_gradient,
            cell_gradient,
            beside,
            steps,
            units,
            dtype,
        };
        vectorised(backward);
    });
    let state = [batch, units];
    let [previous, cells] = [previous, cells].map(|values| tensor(values, &dims));
    let [hidden, cell] = [hidden_gradient, cell_gradient].map(|values| tensor(values, &state));
    vec![gates, previous, hidden, cell, cells]
}

/// The steps of some rows of the batch.
struct Backward<'a> {
    panels: &'a Panels<'a>,
    /// Hidden units and cell before the first step.
    before: [&'a [f32]; 2],
    /// The gradient of the outputs.
    outputs: &'a [f32],
    /// Activated gates, which become the gradients of what they were activated of.
    gates: &'a mut [f32],
    cells: &'a mut [f32],
    previous: &'a mut [f32],
    hidden_gradient: &'a mut [f32],
    cell_gradient: &'a mut [f32],
    /// What products need beside the matrix.
    beside: &'a mut [f32],
    steps: usize,
    units: usize,
    /// What hidden units are rounded to.
    dtype: DType,
}

impl Loops for Backward<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(mut self) {
        self.again::<FUSED>();
        let (steps, units) = (self.steps, self.units);
        let (width, rows) = (4 * units, self.hidden_gradient.len() / units);
        for step in (0..steps).rev() {
            for row in 0..rows {
                self.step::<FUSED>(row, step);
            }
            self.hidden_gradient.fill(0.0);
            let gates = &*self.gates;
            let row = |row: usize| &gates[(row * steps + step) * width..][..width];
            self.panels.add_product(rows, row, (&mut *self.hidden_gradient, units), &mut *self.beside);
        }
    }
}

impl Backward<'_> {
    /// Computes the cells after each step and the hidden units before it, as forward did.
    #[inline(always)]
    fn again<const FUSED: bool>(&mut self) {
        let Self { steps, units, .. } = *self;
        let [hidden, cell] = self.before;
        let rows = hidden.chunks_exact(units).zip(cell.chunks_exact(units)).enumerate();
        for (row, (hidden, cell)) in rows {
            let of_row = row * steps * units..(row + 1) * steps * units;
            let (cells, previous) = (&mut self.cells[of_row.clone()], &mut self.previous[of_row]);
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

    /// One step of one row.
    #[inline(always)]
    fn step<const FUSED: bool>(&mut self, row: usize, step: usize) {
        let units = self.units;
        let at = row * self.steps + step;
        let cell_before = match step {
            0 => &self.before[1][row * units..][..units],
            _ => &self.cells[(at - 1) * units..][..units],
        };
        let (i, rest) = self.gates[at * 4 * units..][..4 * units].split_at_mut(units);
        let (f, rest) = rest.split_at_mut(units);
        let (g, o) = rest.split_at_mut(units);
        go_back::<FUSED>(
            (i, f, g, o),
            [&self.cells[at * units..], cell_before],
            [&self.outputs[at * units..], &self.hidden_gradient[row * units..]],
            &mut self.cell_gradient[row * units..][..units],
        );
    }
}

/// With σ′ = σ(1 − σ) and tanh′ = 1 − tanh²:
/// dc′ = dc + dh·o·tanh′(c), di = dc′·g·σ′, df = dc′·c₋₁·σ′, dg = dc′·i·tanh′, do = dh·tanh(c)·σ′, dc₋₁ = dc′·f.
///
/// dh is the sum of what comes from the output and from the next step.
#[inline(always)]
fn go_back<const FUSED: bool>(
    (i, f, g, o): (&mut [f32], &mut [f32], &mut [f32], &mut [f32]),
    [cell, cell_before]: [&[f32]; 2],
    [output, next]: [&[f32]; 2],
    cell_gradient: &mut [f32],
) {
    let units = cell_gradient.len();
    let (i, f, g, o) = (&mut i[..units], &mut f[..units], &mut g[..units], &mut o[..units]);
    let [cell, cell_before, output, next] = [cell, cell_before, output, next].map(|values| &values[..units]);
    for unit in 0..units {
        let of_hidden = output[unit] + next[unit];
        let activated = tanh::<FUSED>(cell[unit]);
        let slope = o[unit] * (1.0 - activated * activated);
        let of_cell = multiply_add::<FUSED>(of_hidden, slope, cell_gradient[unit]);
        cell_gradient[unit] = of_cell * f[unit];
        let (input, candidate) = (i[unit], g[unit]);
        i[unit] = of_cell * candidate * (input * (1.0 - input));
        f[unit] = of_cell * cell_before[unit] * (f[unit] * (1.0 - f[unit]));
        g[unit] = of_cell * input * (1.0 - candidate * candidate);
        o[unit] = of_hidden * activated * (o[unit] * (1.0 - o[unit]));
    }
}
