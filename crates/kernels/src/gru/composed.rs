//! The steps of a GRU by Burn's operations.

use burn::tensor::{
    Tensor,
    activation::{sigmoid, tanh},
};
use burn_backend::DType;

use crate::recurrent::{
    RecurrentMatrix, RunEnd, RunGradients,
    backward::Again,
    composed::{StepProducts, at_step, complement, gates_of, narrow, rounded, wide},
};

/// A step forward.
pub(super) fn step(products: StepProducts<'_>, [hidden]: [Tensor<2>; 1]) -> (Tensor<2>, [Tensor<2>; 1]) {
    let StepProducts { of_input, of_hidden, bias, dtype } = products;
    let width = of_input.dims()[1];
    let biased = |product: Tensor<2>, from: usize| product + bias.clone().narrow(0, from, width).unsqueeze();
    let [of_r, of_z, of_n] = gates_of(&biased(of_input, 0));
    let [r, z, q] = gates_of(&biased(of_hidden, width));
    let opened = rounded(sigmoid(Tensor::cat(vec![of_r + r, of_z + z], 1)), dtype);
    let [r, _] = gates_of(&opened);
    let candidate = rounded(tanh(of_n + r * q), dtype);
    let gates = Tensor::cat(vec![opened, candidate], 1);
    let hidden = next_hidden(&gates, hidden, dtype);
    (gates, [hidden])
}

fn next_hidden(gates: &Tensor<2>, hidden: Tensor<2>, dtype: DType) -> Tensor<2> {
    let [_, z, n] = gates_of(gates);
    rounded(z * (hidden - n.clone()) + n, dtype)
}

pub(super) fn backward(end: RunEnd<1>, recurrent: &RecurrentMatrix, candidate: &Again) -> RunGradients<1> {
    let RunEnd { gates, before: [hidden], steps: of_run, outputs, after: [mut gradient] } = end;
    let (dtype, matrix) = (recurrent.dtype, recurrent.tensor());
    let steps = of_run.len();
    let outputs = wide(outputs.narrow(1, of_run.start, steps));
    let mut hiddens = vec![hidden];
    for step in 0..steps - 1 {
        hiddens.push(next_hidden(&at_step(&gates, step), hiddens[step].clone(), dtype));
    }
    let (mut all_gates, mut of_products) = (Vec::with_capacity(steps), Vec::with_capacity(steps));
    for step in (0..steps).rev() {
        let before = hiddens[step].clone();
        let product = wide(narrow(before.clone(), dtype).matmul(candidate.matrix.tensor()));
        let q = product + candidate.bias.clone().unsqueeze();
        let of_hidden = gradient + at_step(&outputs, step);
        let [of_gates, of_product, kept] = go_back(gates_of(&at_step(&gates, step)), q, before, of_hidden);
        gradient = wide(narrow(of_product.clone(), dtype).matmul(matrix.clone())) + kept;
        all_gates.push(of_gates);
        of_products.push(of_product);
    }
    all_gates.reverse();
    of_products.reverse();
    RunGradients {
        gates: Tensor::stack(all_gates, 1),
        of_hidden: Some(Tensor::stack(of_products, 1)),
        previous: Tensor::stack(hiddens, 1),
        state: [gradient],
    }
}

/// The gradients of the input's products, of the hidden units' products, and of the hidden units before, as far as the step
/// kept them. The formulas are those of the kernel.
fn go_back(
    [r, z, n]: [Tensor<2>; 3],
    q: Tensor<2>,
    before: Tensor<2>,
    of_hidden: Tensor<2>,
) -> [Tensor<2>; 3] {
    let of_n = of_hidden.clone() * complement(z.clone()) * complement(n.clone().square());
    let of_z = of_hidden.clone() * (before - n) * (z.clone() * complement(z.clone()));
    let of_r = of_n.clone() * q * (r.clone() * complement(r.clone()));
    let of_q = of_n.clone() * r;
    let of_gates = Tensor::cat(vec![of_r.clone(), of_z.clone(), of_n], 1);
    [of_gates, Tensor::cat(vec![of_r, of_z, of_q], 1), of_hidden * z]
}
