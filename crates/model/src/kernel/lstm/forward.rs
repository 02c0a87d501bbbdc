use burn::tensor::Tensor;
use burn_backend::DType;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::{LstmSteps, Recurrent, rows_of_a_task, workspace};
use crate::{
    AnyTensor,
    kernel::{
        Own,
        panels::{Panelled, Panels},
        rows::{floats, round, tensor, zeros},
        vector::{Loops, multiply_add, sigmoid, tanh, vectorised},
    },
};

/// The gates are written over what they are computed of.
pub(super) fn own(
    projected: Tensor<3>,
    bias: Tensor<1>,
    [hidden, cell]: [Tensor<2>; 2],
    panels: Tensor<1>,
    recurrent: &Recurrent,
) -> LstmSteps {
    let dims @ [batch, steps, _] = projected.dims();
    let (units, dtype) = (recurrent.units, recurrent.dtype);
    let state = (vec![batch, units], DType::F32);
    let matrix = Panelled::new(units, 4 * units);
    let workspace = workspace(batch, matrix);
    let operation = Own {
        name: "lstm_forward",
        inputs: vec![projected.into(), bias.into(), hidden.into(), cell.into(), panels.into()],
        outputs: vec![
            (dims.to_vec(), DType::F32),
            (vec![batch, steps, units], DType::F32),
            state.clone(),
            state,
        ],
        in_place: true,
    };
    let outputs = operation.run_within(workspace, |inputs| {
        run(inputs, [batch, steps, units], dtype, zeros(workspace.shared), matrix)
    });
    let mut outputs = outputs.into_iter();
    // Four outputs of these ranks are declared above.
    let mut next = || outputs.next().expect("the operation has four outputs");
    let (gates, hidden) = (sequence(next()), sequence(next()));
    let state = [state_of(next()), state_of(next())];
    LstmSteps { gates, hidden, state }
}

/// `[B, k, F]`.
pub(super) fn sequence(output: AnyTensor) -> Tensor<3> {
    // Operations know the rank of what they make.
    output.float().expect("a sequence has rank 3")
}

/// `[B, U]`.
pub(super) fn state_of(output: AnyTensor) -> Tensor<2> {
    // Operations know the rank of what they make.
    output.float().expect("a state has rank 2")
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
    let [bias, hidden, cell, panels] = [0, 1, 2, 3].map(|index| floats(&rest[index]));
    // The only one that is left.
    let mut gates = inputs.swap_remove(0);
    let mut outputs = vec![0.0; batch * steps * units];
    let (mut hidden, mut cell) = (hidden.to_vec(), cell.to_vec());
    let panels = &Panels::new(panels, matrix);
    let rows = rows_of_a_task(batch, steps, units, matrix);
    let beside = beside.par_chunks_mut(matrix.elements_beside(rows).max(1));
    let gates_of_rows = gates.storage_mut::<f32>().par_chunks_mut((rows * steps * 4 * units).max(1));
    let outputs_of_rows = outputs.par_chunks_mut((rows * steps * units).max(1));
    let state = (hidden.par_chunks_mut(rows * units), cell.par_chunks_mut(rows * units));
    gates_of_rows.zip(outputs_of_rows).zip(state.0.zip(state.1)).zip(beside).for_each(
        |(((gates, outputs), (hidden, cell)), beside)| {
            vectorised(Forward { panels, bias, gates, outputs, hidden, cell, beside, steps, units, dtype });
        },
    );
    let state = [batch, units];
    vec![gates, tensor(outputs, &dims), tensor(hidden, &state), tensor(cell, &state)]
}

/// The steps of some rows of the batch.
struct Forward<'a> {
    panels: &'a Panels<'a>,
    bias: &'a [f32],
    /// Projected inputs, which become activated gates.
    gates: &'a mut [f32],
    outputs: &'a mut [f32],
    hidden: &'a mut [f32],
    cell: &'a mut [f32],
    /// What products need beside the matrix.
    beside: &'a mut [f32],
    steps: usize,
    units: usize,
    /// What gates and hidden units are rounded to.
    dtype: DType,
}

impl Loops for Forward<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { panels, bias, gates, outputs, hidden, cell, beside, steps, units, dtype } = self;
        let (width, rows) = (4 * units, hidden.len() / units);
        for step in 0..steps {
            let of_step = (&mut gates[step * width..], steps * width);
            panels.add_product(rows, |row| &hidden[row * units..][..units], of_step, &mut *beside);
            let states = hidden.chunks_exact_mut(units).zip(cell.chunks_exact_mut(units));
            for (row, (hidden, cell)) in states.enumerate() {
                let at = row * steps + step;
                let gates = &mut gates[at * width..][..width];
                activate::<FUSED>(gates, bias, units);
                round(gates, dtype);
                next_cell::<FUSED>(gates, cell);
                put_out::<FUSED>(gates, cell, hidden, dtype);
                outputs[at * units..][..units].copy_from_slice(hidden);
            }
        }
    }
}

#[inline(always)]
fn activate<const FUSED: bool>(gates: &mut [f32], bias: &[f32], units: usize) {
    let g = 2 * units..3 * units;
    for range in [0..g.start, g.end..gates.len()] {
        let with_bias = gates[range.clone()].iter_mut().zip(&bias[range]);
        with_bias.for_each(|(gate, bias)| *gate = sigmoid::<FUSED>(*gate + bias));
    }
    let with_bias = gates[g.clone()].iter_mut().zip(&bias[g]);
    with_bias.for_each(|(gate, bias)| *gate = tanh::<FUSED>(*gate + bias));
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
