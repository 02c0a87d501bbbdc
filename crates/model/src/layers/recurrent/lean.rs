use std::marker::PhantomData;

use burn::tensor::Tensor;
use burn_backend::DType;

use oomph_kernels::{
    SecondOutput, cast, differentiable, ranked,
    recurrent::{LayerCell, RecurrentInput, SegmentedLayer},
    zeros,
};

use super::{
    cell::{Cell, Parameters},
    input::plain,
};
use crate::{AnyTensor, Policy, autodiff};

/// The layer as one operation with `N` = 5 + `S` inputs: input, weights, biases and states. Backward keeps the input, the
/// states before each run of steps and, unless the policy asks for recompute, the gates.
pub(super) fn lean<C: Cell<S>, const S: usize, const N: usize>(
    parameters: Parameters,
    input: RecurrentInput,
    state: Option<[Tensor<2>; S]>,
    policy: Policy,
) -> (Tensor<3>, [Tensor<2>; S]) {
    let Parameters { weights, biases } = parameters;
    let [batch, _, _] = input.dims();
    let [_, units] = weights[1].dims();
    let policy = Policy { kernels: C::Kernels::kernels(units, policy.kernels), ..policy };
    let parent = input.tensor();
    let mut layer = SegmentedLayer::<C::Kernels> {
        input: plain(input, policy),
        weights: weights.clone().map(autodiff::inner),
        bias: C::Kernels::bias(biases.clone().map(autodiff::inner)),
        dtype: policy.dtype(),
        kernels: policy.kernels,
        recompute: policy.recompute,
        cell: PhantomData,
    };
    let start = match state {
        Some(mut state) => {
            // Rounded to the format of outputs, as the hidden units of every other step.
            state[0] = policy.narrow(state[0].clone());
            state.map(|state| policy.widen(state))
        }
        None => {
            let zeros = zeros([batch, units], DType::F32, layer.bias.clone(), policy.kernels);
            std::array::from_fn(|_| zeros.clone())
        }
    };
    // The gradient of the weight reads the input, and so does recompute. Of a frozen layer only its shape is read.
    let reads_input = autodiff::wants_gradient(&weights[0]) || policy.recompute;
    let mut inputs: Vec<AnyTensor> = vec![parent];
    inputs.extend(weights.map(AnyTensor::from));
    inputs.extend(biases.map(AnyTensor::from));
    inputs.extend(start.clone().map(AnyTensor::from));
    // The callers, which know both numbers, choose `N` as 5 + `S`.
    let inputs: [AnyTensor; N] = inputs.try_into().expect("one input, four parameters and the states");
    let differentiable_here = inputs.iter().any(|input| input.device().is_autodiff());
    let made = layer.forward(start.map(autodiff::inner), differentiable_here);
    if let RecurrentInput::Vectors(input) = &mut layer.input
        && differentiable_here
        && !reads_input
    {
        let one = Tensor::<3>::zeros([1; 3], (&input.device(), input.dtype()));
        *input = one.expand(input.dims());
    }
    let (ends, kept): ([SecondOutput; S], _) = (std::array::from_fn(|_| SecondOutput::default()), made.kept);
    let of_ends = ends.clone();
    let output: Tensor<3> = ranked(differentiable(inputs, made.output.into(), move |output, wanted| {
        let state = of_ends.map(|end| end.take().map(|gradient| policy.widen(ranked(gradient))));
        let wanted = std::array::from_fn(|input| wanted[input]);
        // Adapters make weights that nothing else holds.
        let weights = layer.weights.clone();
        let made = layer.backward(kept, ranked(output), state, wanted);
        weights.into_iter().for_each(|weight| autodiff::held_until_here(weight.into()));
        let of_state = made.of_state.map(|gradient| Some(AnyTensor::from(gradient)));
        let mut gradients = made.of_inputs.into_iter().chain(of_state);
        std::array::from_fn(|_| gradients.next().flatten())
    }));
    let mut state = made.state;
    state[0] = cast(state[0].clone(), policy.dtype(), policy.kernels);
    let mut ends = ends.into_iter().zip(state).map(|(end, state)| end.output(&output, state));
    // There is one end for each state.
    let state = std::array::from_fn(|_| ends.next().expect("as many ends as states"));
    (output, state)
}
