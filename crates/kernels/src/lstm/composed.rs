//! The steps of an LSTM by Burn's operations.

use burn::tensor::{
    Tensor,
    activation::{sigmoid, tanh},
};
use burn_backend::DType;

use crate::recurrent::{
    RecurrentMatrix, RunEnd, RunGradients,
    composed::{StepProducts, at_step, complement, gates_of, narrow, rounded, wide},
};

/// A step forward.
pub(super) fn step(products: StepProducts<'_>, [_, cell]: [Tensor<2>; 2]) -> (Tensor<2>, [Tensor<2>; 2]) {
    let StepProducts { of_input, of_hidden, bias, dtype } = products;
    let [i, f, g, o] = gates_of(&(of_hidden + of_input + bias.clone().unsqueeze()));
    let gates = rounded(Tensor::cat(vec![sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)], 1), dtype);
    let cell = next_cell(&gates, cell);
    let hidden = put_out(&gates, &cell, dtype);
    (gates, [hidden, cell])
}

fn next_cell(gates: &Tensor<2>, cell: Tensor<2>) -> Tensor<2> {
    let [i, f, g, _] = gates_of(gates);
    f * cell + i * g
}

fn put_out(gates: &Tensor<2>, cell: &Tensor<2>, dtype: DType) -> Tensor<2> {
    let [_, _, _, o] = gates_of(gates);
    rounded(o * tanh(cell.clone()), dtype)
}

pub(super) fn backward(end: RunEnd<2>, recurrent: &RecurrentMatrix) -> RunGradients<2> {
    let RunEnd { gates, before: [hidden, cell], steps: of_run, outputs, after } = end;
    let [mut hidden_gradient, mut cell_gradient] = after;
    let (dtype, matrix) = (recurrent.dtype, recurrent.tensor());
    let outputs = wide(outputs.narrow(1, of_run.start, of_run.len()));
    let steps = of_run.len();
    // Both begin with the state before the first step.
    let (mut hiddens, mut cells) = (vec![hidden], vec![cell]);
    for step in 0..steps {
        let gates = at_step(&gates, step);
        let cell = next_cell(&gates, cells[step].clone());
        hiddens.push(put_out(&gates, &cell, dtype));
        cells.push(cell);
    }
    hiddens.truncate(steps);
    let mut all_gates = Vec::with_capacity(steps);
    for step in (0..steps).rev() {
        let of_hidden = hidden_gradient + at_step(&outputs, step);
        let states = [cells[step + 1].clone(), cells[step].clone()];
        let (of_gates, of_cell) = go_back(gates_of(&at_step(&gates, step)), states, of_hidden, cell_gradient);
        cells.truncate(step + 1);
        hidden_gradient = wide(narrow(of_gates.clone(), dtype).matmul(matrix.clone()));
        cell_gradient = of_cell;
        all_gates.push(of_gates);
    }
    all_gates.reverse();
    RunGradients {
        gates: Tensor::stack(all_gates, 1),
        of_hidden: None,
        previous: Tensor::stack(hiddens, 1),
        state: [hidden_gradient, cell_gradient],
    }
}

/// The gradients of the gates before their activation, and of the cell before. The formulas are those of the kernel.
fn go_back(
    [i, f, g, o]: [Tensor<2>; 4],
    [cell, cell_before]: [Tensor<2>; 2],
    of_hidden: Tensor<2>,
    of_next_cell: Tensor<2>,
) -> (Tensor<2>, Tensor<2>) {
    let activated = tanh(cell);
    let of_cell = of_next_cell + of_hidden.clone() * o.clone() * complement(activated.clone().square());
    let of_gates = [
        of_cell.clone() * g.clone() * (i.clone() * complement(i.clone())),
        of_cell.clone() * cell_before * (f.clone() * complement(f.clone())),
        of_cell.clone() * i * complement(g.square()),
        of_hidden * activated * (o.clone() * complement(o)),
    ];
    (Tensor::cat(of_gates.to_vec(), 1), of_cell * f)
}
