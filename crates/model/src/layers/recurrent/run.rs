use burn::tensor::Tensor;
use oomph_kernels::recurrent::RecurrentInput;

use super::{
    cell::{Cell, Parameters},
    input::looked_up,
    lean::lean,
};
use crate::{ModelError, Pass, Policy};

/// Runs over a sequence, from `state` or from zeros; gives all outputs and the last states. `N` is 5 + `S`.
pub(super) fn run<C: Cell<S>, const S: usize, const N: usize>(
    parameters: Parameters,
    input: RecurrentInput,
    state: Option<[Tensor<2>; S]>,
    pass: &mut Pass,
) -> Result<(Tensor<3>, [Tensor<2>; S]), ModelError> {
    let dims @ [batch, steps, found] = input.dims();
    let [gates, features] = parameters.weights[0].dims();
    let [_, units] = parameters.weights[1].dims();
    pass.expect_shape(found == features && steps > 0, &format!("[B, T ≥ 1, {features}]"), &dims)?;
    for found in state.iter().flatten().map(Tensor::dims) {
        let fits = found == [batch, units];
        pass.expect_shape(fits, &format!("a state of [{batch}, {units}]"), &found)?;
    }
    let policy = pass.policy();
    let (output, state) = match policy.lean {
        true => lean::<C, S, N>(parameters, input, state, policy),
        false => plain::<C, S>(parameters, looked_up(input, policy), state, policy),
    };
    pass.layer(C::KIND, &dims, &output.dims(), gates * (features + units + 2));
    Ok((output, state))
}

/// The layer composed of Burn's operations, which keep all that their own backward passes need.
///
/// The whole sequence is projected by one matrix product, and each step takes one more for all gates.
fn plain<C: Cell<S>, const S: usize>(
    parameters: Parameters,
    input: Tensor<3>,
    state: Option<[Tensor<2>; S]>,
    policy: Policy,
) -> (Tensor<3>, [Tensor<2>; S]) {
    let Parameters { weights: [of_input, of_hidden], biases: [bias_ih, bias_hh] } = parameters;
    let [batch, steps, features] = input.dims();
    let [gates, units] = of_hidden.dims();
    let mut state = state.unwrap_or_else(|| {
        let zeros = Tensor::zeros([batch, units], &input.device());
        std::array::from_fn(|_| zeros.clone())
    });
    let (bias, of_steps) = match C::SUMS_BIASES {
        true => (bias_ih + bias_hh, None),
        false => (bias_ih, Some(bias_hh)),
    };
    let flat = policy.narrow(input).reshape([batch * steps, features]);
    let projected = flat.matmul(policy.narrow(of_input).transpose());
    let projected = (policy.widen(projected) + bias.unsqueeze()).reshape([batch, steps, gates]);
    let recurrent = policy.narrow(of_hidden).transpose();
    let mut outputs = Vec::with_capacity(steps);
    for at in projected.split(1, 1) {
        let product = policy.widen(policy.narrow(state[0].clone()).matmul(recurrent.clone()));
        let product = match &of_steps {
            Some(bias) => product + bias.clone().unsqueeze(),
            None => product,
        };
        state = C::step([at.reshape([batch, gates]), product], state, policy);
        outputs.push(state[0].clone());
    }
    (Tensor::stack(outputs, 1), state)
}
