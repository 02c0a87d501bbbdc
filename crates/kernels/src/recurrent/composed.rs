//! A run of steps by Burn's operations, step by step.

use burn::tensor::Tensor;
use burn_backend::DType;

use super::{
    matrix::RecurrentMatrix,
    run::{RunInput, RunOutputs, RunStart, RunSteps},
};
use crate::{cast::cast, kernels::Kernels, sequence::place_steps};

pub(crate) fn narrow<const D: usize>(tensor: Tensor<D>, dtype: DType) -> Tensor<D> {
    cast(tensor, dtype, Kernels::Composed)
}

pub(crate) fn wide<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    narrow(tensor, DType::F32)
}

/// The tensor in 32 bits, rounded to the nearest that `dtype` can hold.
pub(crate) fn rounded<const D: usize>(tensor: Tensor<D>, dtype: DType) -> Tensor<D> {
    wide(narrow(tensor, dtype))
}

/// One step, `[B, F]`, of a sequence, `[B, k, F]`.
pub(crate) fn at_step(sequence: &Tensor<3>, step: usize) -> Tensor<2> {
    let [batch, _, features] = sequence.dims();
    sequence.clone().narrow(1, step, 1).reshape([batch, features])
}

/// The parts of `[B, G·U]`: the gates of a step.
pub(crate) fn gates_of<const G: usize>(gates: &Tensor<2>) -> [Tensor<2>; G] {
    let units = gates.dims()[1] / G;
    std::array::from_fn(|gate| gates.clone().narrow(1, gate * units, units))
}

/// 1 − x, for the output of a sigmoid or a square.
pub(crate) fn complement(tensor: Tensor<2>) -> Tensor<2> {
    tensor.neg() + 1.0
}

/// The products of a step, `[B, G·U]`, in 32 bits.
pub(crate) struct StepProducts<'a> {
    pub(crate) of_input: Tensor<2>,
    pub(crate) of_hidden: Tensor<2>,
    /// The bias of the gates, as the cell reads it.
    pub(crate) bias: &'a Tensor<1>,
    /// The format of gates and hidden units.
    pub(crate) dtype: DType,
}

/// Runs the steps. `step` gives the activated gates of a step, rounded, and the states after it.
pub(crate) fn forward<const S: usize>(
    start: RunStart<S>,
    recurrent: &RecurrentMatrix,
    step: fn(StepProducts<'_>, [Tensor<2>; S]) -> (Tensor<2>, [Tensor<2>; S]),
) -> RunSteps<S> {
    let RunStart { input, steps, bias, mut state, outputs, keeps_gates, .. } = start;
    let dtype = recurrent.dtype;
    let ([batch, _], count, matrix) = (input.rows(), steps.len(), recurrent.tensor());
    let rows = batch * count;
    let projected = match input {
        RunInput::Sequence { values, weights } => {
            let [_, _, features] = values.dims();
            let values = values.narrow(1, steps.start, count).reshape([rows, features]);
            wide(narrow(values, dtype).matmul(weights.tensor()))
        }
        RunInput::Tokens { tokens, products } => {
            let [known, _, width] = products.dims();
            let tokens = tokens.narrow(1, steps.start, count).reshape([rows]);
            products.reshape([known, width]).select(0, tokens)
        }
    };
    let projected = projected.reshape([batch, count, recurrent.sizes.columns]);
    let (mut all_gates, mut all_hidden) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for at in 0..count {
        let of_hidden = wide(narrow(state[0].clone(), dtype).matmul(matrix.clone()));
        let products = StepProducts { of_input: at_step(&projected, at), of_hidden, bias: &bias, dtype };
        let (gates, next) = step(products, state);
        state = next;
        if keeps_gates {
            all_gates.push(gates);
        }
        all_hidden.push(state[0].clone());
    }
    let output = match outputs {
        RunOutputs::Known => None,
        RunOutputs::There(mut output) => {
            place_steps(&mut output, Tensor::stack(all_hidden, 1), steps.start, Kernels::Composed);
            Some(output)
        }
        RunOutputs::New => Some(narrow(Tensor::stack(all_hidden, 1), dtype)),
    };
    let gates = keeps_gates.then(|| Tensor::stack(all_gates, 1)).into_iter().collect();
    RunSteps { gates, between: Vec::new(), output, state }
}
