//! A run of steps by Burn's operations, step by step.

use burn::tensor::{
    Tensor,
    activation::{sigmoid, tanh},
};
use burn_backend::DType;

use super::{
    matrix::LstmMatrix,
    run::{LstmEnd, LstmGradients, LstmOutputs, LstmStart, LstmSteps},
};
use crate::{cast::cast, kernels::Kernels, sequence::place_steps};

fn narrow<const D: usize>(tensor: Tensor<D>, dtype: DType) -> Tensor<D> {
    cast(tensor, dtype, Kernels::Composed)
}

fn wide<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    narrow(tensor, DType::F32)
}

/// The tensor in 32 bits, rounded to the nearest that `dtype` can hold.
fn rounded<const D: usize>(tensor: Tensor<D>, dtype: DType) -> Tensor<D> {
    wide(narrow(tensor, dtype))
}

/// One step, `[B, F]`, of a sequence, `[B, k, F]`.
fn at_step(sequence: &Tensor<3>, step: usize) -> Tensor<2> {
    let [batch, _, features] = sequence.dims();
    sequence.clone().narrow(1, step, 1).reshape([batch, features])
}

/// The gates i, f, g, o of `[B, 4U]`.
fn gates_of(gates: &Tensor<2>) -> [Tensor<2>; 4] {
    let units = gates.dims()[1] / 4;
    std::array::from_fn(|gate| gates.clone().narrow(1, gate * units, units))
}

fn next_cell(gates: &Tensor<2>, cell: Tensor<2>) -> Tensor<2> {
    let [i, f, g, _] = gates_of(gates);
    f * cell + i * g
}

fn put_out(gates: &Tensor<2>, cell: &Tensor<2>, dtype: DType) -> Tensor<2> {
    let [_, _, _, o] = gates_of(gates);
    rounded(o * tanh(cell.clone()), dtype)
}

pub(super) fn forward(start: LstmStart, of_input: &LstmMatrix, recurrent: &LstmMatrix) -> LstmSteps {
    let LstmStart { input, steps, bias, state: [mut hidden, mut cell], outputs, keeps_gates } = start;
    let dtype = recurrent.dtype;
    let [batch, _, features] = input.dims();
    let (count, matrix) = (steps.len(), recurrent.tensor());
    let input = narrow(input.narrow(1, steps.start, count).reshape([batch * count, features]), dtype);
    let projected = wide(input.matmul(of_input.tensor())).reshape([batch, count, 4 * recurrent.sizes.inner]);
    let (mut all_gates, mut all_hidden) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for step in 0..count {
        let product = wide(narrow(hidden, dtype).matmul(matrix.clone()));
        let [i, f, g, o] = gates_of(&(product + at_step(&projected, step) + bias.clone().unsqueeze()));
        let gates = rounded(Tensor::cat(vec![sigmoid(i), sigmoid(f), tanh(g), sigmoid(o)], 1), dtype);
        cell = next_cell(&gates, cell);
        hidden = put_out(&gates, &cell, dtype);
        if keeps_gates {
            all_gates.push(gates);
        }
        all_hidden.push(hidden.clone());
    }
    let output = match outputs {
        LstmOutputs::Known => None,
        LstmOutputs::There(mut output) => {
            place_steps(&mut output, Tensor::stack(all_hidden, 1), steps.start, Kernels::Composed);
            Some(output)
        }
        LstmOutputs::New => Some(narrow(Tensor::stack(all_hidden, 1), dtype)),
    };
    LstmSteps { gates: keeps_gates.then(|| Tensor::stack(all_gates, 1)), output, state: [hidden, cell] }
}

pub(super) fn backward(end: LstmEnd, recurrent: &LstmMatrix) -> LstmGradients {
    let LstmEnd { gates, before: [hidden, cell], steps: of_run, outputs, after } = end;
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
    LstmGradients {
        gates: Tensor::stack(all_gates, 1),
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
    // 1 − x, for the output of a sigmoid or a square.
    let complement = |tensor: Tensor<2>| tensor.neg() + 1.0;
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
