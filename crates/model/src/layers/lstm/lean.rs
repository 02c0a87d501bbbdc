use burn::tensor::Tensor;
use burn_backend::DType;

use super::{
    Lstm, LstmState,
    segments::{Layer, Upstream},
};
use crate::{AnyTensor, Policy, autodiff, differentiable, function::SecondOutput, kernel, policy::ranked};

impl Lstm {
    /// As one operation, which keeps the input, and of each run of steps the state before it and, unless the policy
    /// asks for recomputation, the gates.
    pub(super) fn lean(
        &self,
        input: Tensor<3>,
        state: Option<LstmState>,
        policy: Policy,
    ) -> (Tensor<3>, LstmState) {
        let [batch, _, _] = input.dims();
        let weights = [self.weight_ih.val(), self.weight_hh.val()];
        let biases = [self.bias_ih.val(), self.bias_hh.val()];
        let [bias_ih, bias_hh] = biases.clone().map(autodiff::inner);
        let layer = Layer {
            input: autodiff::inner(input.clone()),
            weights: weights.clone().map(autodiff::inner),
            bias: bias_ih + bias_hh,
            policy,
        };
        let start = match state {
            Some(LstmState { hidden, cell }) => {
                // Rounded to what outputs have, as the hidden units of every other step are.
                [policy.widen(policy.narrow(hidden)), policy.widen(cell)]
            }
            None => {
                let units = layer.units();
                let zeros = kernel::room([batch, units], DType::F32, layer.bias.clone(), policy.kernels);
                [zeros.clone(), zeros]
            }
        };
        let inputs = inputs(input, weights, biases, start.clone());
        let differentiable_here = inputs.iter().any(|input| input.device().is_autodiff());
        let made = layer.forward(start.map(autodiff::inner), differentiable_here);
        let (ends, kept) = ([SecondOutput::default(), SecondOutput::default()], made.kept);
        let of_ends = ends.clone();
        let output: Tensor<3> = ranked(differentiable(inputs, made.output.into(), move |output, wanted| {
            let state = of_ends.map(|end| end.take().map(|gradient| policy.widen(ranked(gradient))));
            layer.backward(kept, Upstream { output: ranked(output), state }, wanted)
        }));
        let [of_hidden, of_cell] = ends;
        let [hidden, cell] = made.state;
        let hidden = kernel::cast(hidden, policy.dtype(), policy.kernels);
        let [hidden, cell] = [of_hidden.output(&output, hidden), of_cell.output(&output, cell)];
        (output, LstmState { hidden, cell })
    }
}

/// What the operation is differentiable in.
fn inputs(
    input: Tensor<3>,
    [weight_ih, weight_hh]: [Tensor<2>; 2],
    [bias_ih, bias_hh]: [Tensor<1>; 2],
    [hidden, cell]: [Tensor<2>; 2],
) -> [AnyTensor; 7] {
    [
        input.into(),
        weight_ih.into(),
        weight_hh.into(),
        bias_ih.into(),
        bias_hh.into(),
        hidden.into(),
        cell.into(),
    ]
}
