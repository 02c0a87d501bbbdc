use burn::{module::Param, tensor::Tensor};
use oomph_kernels::recurrent::LayerCell;

use crate::{Init, LayerKind, Policy};

/// A kind of recurrent layer, with `S` states between two time steps: the hidden units first.
pub(super) trait Cell<const S: usize>: Send + 'static {
    /// The name of the layer in reports.
    const KIND: LayerKind;
    /// Whether both biases are summed before the first step.
    const SUMS_BIASES: bool;
    /// The kernels of the layer.
    type Kernels: LayerCell<S>;

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
