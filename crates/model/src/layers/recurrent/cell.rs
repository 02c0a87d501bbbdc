use burn::{module::Param, tensor::Tensor};
use oomph_kernels::recurrent::{RecurrentMatrix, RunEnd, RunGradients, RunStart, RunSteps};

use crate::{Init, Kernels, LayerKind, Policy};

/// A kind of recurrent layer, with `S` states between two time steps: the hidden units first.
pub(super) trait Cell<const S: usize>: Send + 'static {
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

    /// Runs forward. The matrix is that of the hidden units.
    fn forward(start: RunStart<S>, recurrent: &RecurrentMatrix, kernels: Kernels) -> RunSteps<S>;

    /// The factors of a backward pass of so many rows, by the weight of hidden units and the bias.
    fn factors(weight: Tensor<2>, bias: Tensor<1>, rows: usize, policy: Policy) -> Self::Factors;

    /// Goes backward through a run.
    fn backward(end: RunEnd<S>, factors: &Self::Factors, kernels: Kernels) -> RunGradients<S>;

    /// The states after a step, by Burn's operations: from the products of inputs and hidden units, in 32 bits.
    fn step(products: [Tensor<2>; 2], state: [Tensor<2>; S], policy: Policy) -> [Tensor<2>; S];
}

/// The values of a layer's parameters: of the inputs, and of the hidden units.
pub(super) struct Parameters {
    pub(super) weights: [Tensor<2>; 2],
    pub(super) biases: [Tensor<1>; 2],
}

impl Parameters {
    pub(super) fn of(weights: [&Param<Tensor<2>>; 2], biases: [&Param<Tensor<1>>; 2]) -> Self {
        Self { weights: weights.map(Param::val), biases: biases.map(Param::val) }
    }
}

/// New weights and biases of so many gates, uniform in ±1/√U.
pub(super) fn uniform(
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

/// One of the `G` parts of `[B, G·U]`: a gate of a step.
pub(super) fn gate<const G: usize>(gates: &Tensor<2>, index: usize) -> Tensor<2> {
    let [batch, width] = gates.dims();
    let units = width / G;
    gates.clone().slice([0..batch, index * units..(index + 1) * units])
}
