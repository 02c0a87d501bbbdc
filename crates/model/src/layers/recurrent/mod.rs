mod gru;
mod lean;
mod lstm;
mod onnx;
mod segments;

use burn::{module::Param, tensor::Tensor};

use oomph_kernels::{
    differentiable, place_steps, ranked,
    recurrent::{RecurrentMatrix, RunEnd, RunGradients, RunStart, RunSteps},
    zeros,
};

use crate::{Init, Kernels, LayerKind, ModelError, Pass, Policy, autodiff};

pub use gru::Gru;
pub use lstm::{Lstm, LstmState};

use lean::lean;

/// A kind of recurrent layer, with `S` states between two time steps: the hidden units first.
trait Cell<const S: usize>: Send + 'static {
    /// The name of the layer in reports.
    const KIND: LayerKind;
    /// Whether both biases are summed before the first step.
    const SUMS_BIASES: bool;
    /// The factors of a backward pass.
    type Factors;

    /// The kernels for a layer of so many hidden units.
    fn kernels(units: usize, kernels: Kernels) -> Kernels;

    /// The bias that [`forward`](Self::forward) reads, of the biases of inputs and hidden units.
    fn bias(biases: [Tensor<1>; 2]) -> Tensor<1>;

    /// Runs forward. The matrices are those of inputs and hidden units.
    fn forward(start: RunStart<S>, matrices: &[RecurrentMatrix; 2], kernels: Kernels) -> RunSteps<S>;

    /// The factors of a backward pass, by the weight of hidden units and the bias.
    fn factors(weight: Tensor<2>, bias: Tensor<1>, policy: Policy) -> Self::Factors;

    /// Goes backward through a run.
    fn backward(end: RunEnd<S>, factors: &Self::Factors, kernels: Kernels) -> RunGradients<S>;

    /// The states after a step, by Burn's operations: from the products of inputs and hidden units, in 32 bits.
    fn step(products: [Tensor<2>; 2], state: [Tensor<2>; S], policy: Policy) -> [Tensor<2>; S];
}

/// The values of a layer's parameters: of the inputs, and of the hidden units.
struct Parameters {
    weights: [Tensor<2>; 2],
    biases: [Tensor<1>; 2],
}

impl Parameters {
    fn of(weights: [&Param<Tensor<2>>; 2], biases: [&Param<Tensor<1>>; 2]) -> Self {
        Self { weights: weights.map(Param::val), biases: biases.map(Param::val) }
    }
}

/// New weights and biases of so many gates, uniform in ±1/√U.
fn uniform(
    init: &Init,
    [input, hidden]: [usize; 2],
    gates: usize,
) -> ([Param<Tensor<2>>; 2], [Param<Tensor<1>>; 2]) {
    let bound = 1.0 / (hidden as f64).sqrt();
    let width = gates * hidden;
    let weights = [("weight_ih", input), ("weight_hh", hidden)]
        .map(|(name, columns)| init.uniform(name, [width, columns], bound));
    (weights, ["bias_ih", "bias_hh"].map(|name| init.uniform(name, [width], bound)))
}

/// Runs over a sequence, from `state` or from zeros; gives all outputs and the last states. `N` is 5 + `S`.
fn run<C: Cell<S>, const S: usize, const N: usize>(
    parameters: Parameters,
    input: Tensor<3>,
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
        false => plain::<C, S>(parameters, input, state, policy),
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

/// One of the `G` parts of `[B, G·U]`: a gate of a step.
fn gate<const G: usize>(gates: &Tensor<2>, index: usize) -> Tensor<2> {
    let [batch, width] = gates.dims();
    let units = width / G;
    gates.clone().slice([0..batch, index * units..(index + 1) * units])
}

/// The last time step, `[B, U]`, of `[B, T, U]`. Backward keeps nothing.
///
/// Its gradient is one tensor of zeros with that step in it; Burn's slices allocate three for a moment.
pub fn last_step(sequence: Tensor<3>, policy: Policy) -> Tensor<2> {
    let dims @ [batch, steps, units] = sequence.dims();
    let last = |sequence: Tensor<3>| sequence.narrow(1, steps - 1, 1).reshape([batch, units]);
    if !policy.lean {
        return last(sequence);
    }
    let (kernels, dtype) = (policy.kernels, sequence.dtype());
    let output = last(autodiff::inner(sequence.clone()));
    ranked(differentiable([sequence.into()], output.into(), move |gradient, _| {
        let gradient = ranked::<2>(gradient).reshape([batch, 1, units]);
        let mut all = zeros(dims, dtype, gradient.clone(), kernels);
        place_steps(&mut all, gradient, steps - 1, kernels);
        [Some(all.into())]
    }))
}
