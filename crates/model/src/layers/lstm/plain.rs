use burn::tensor::{
    Tensor,
    activation::{sigmoid, tanh},
};

use super::{Lstm, LstmState};
use crate::Policy;

impl Lstm {
    /// The layer composed of Burn's operations, which keep all that their own backward passes need.
    ///
    /// The whole sequence is projected by one matrix product, and each step takes one more for all four gates.
    pub(super) fn plain(
        &self,
        input: Tensor<3>,
        state: Option<LstmState>,
        policy: Policy,
    ) -> (Tensor<3>, LstmState) {
        let [batch, steps, features] = input.dims();
        let [gates, _] = self.weight_ih.val().dims();
        let mut state = state.unwrap_or_else(|| {
            let zeros = Tensor::zeros([batch, gates / 4], &input.device());
            LstmState { hidden: zeros.clone(), cell: zeros }
        });
        let bias = (self.bias_ih.val() + self.bias_hh.val()).unsqueeze();
        let flat = policy.narrow(input).reshape([batch * steps, features]);
        let projected = flat.matmul(policy.narrow(self.weight_ih.val()).transpose());
        let projected = (policy.widen(projected) + bias).reshape([batch, steps, gates]);
        let recurrent = policy.narrow(self.weight_hh.val()).transpose();
        let mut outputs = Vec::with_capacity(steps);
        for at in projected.split(1, 1) {
            state = step(at.reshape([batch, gates]), &recurrent, state, policy);
            outputs.push(state.hidden.clone());
        }
        (Tensor::stack(outputs, 1), state)
    }
}

fn step(projected: Tensor<2>, recurrent: &Tensor<2>, state: LstmState, policy: Policy) -> LstmState {
    let product = policy.narrow(state.hidden).matmul(recurrent.clone());
    let gates = projected + policy.widen(product);
    let [batch, width] = gates.dims();
    let hidden = width / 4;
    let gate = |index: usize| gates.clone().slice([0..batch, index * hidden..(index + 1) * hidden]);
    let cell = sigmoid(gate(1)) * policy.widen(state.cell) + sigmoid(gate(0)) * tanh(gate(2));
    let hidden = sigmoid(gate(3)) * tanh(cell.clone());
    LstmState { hidden: policy.narrow(hidden), cell }
}
