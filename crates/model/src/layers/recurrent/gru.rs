use burn::{
    module::{Module, Param},
    tensor::{
        Tensor,
        activation::{sigmoid, tanh},
    },
};
use oomph_kernels::{gru::GruLayer, recurrent::RecurrentInput};
use oomph_onnx::{Attribute, Graph, Value};

use super::{
    cell::{Cell, Parameters, gate, uniform},
    onnx::Operator,
    run::run,
};
use crate::{Init, LayerKind, ModelError, Pass, Policy};

/// One layer of gated recurrent units (Cho et al. 2014, <https://arxiv.org/abs/1406.1078>; gates as in PyTorch's `nn.GRU`).
///
/// With x W_ihᵀ + b_ih and h W_hhᵀ + b_hh, each cut in three for the gates r, z and n:
/// r = σ(xᵣ + hᵣ), z = σ(x_z + h_z), n = tanh(xₙ + r·hₙ), h′ = (1 − z)·n + z·h.
///
/// The paper multiplies r and h before the product with the weights; here, as in PyTorch, r multiplies the product.
///
/// A [lean](crate::Policy::lean) layer has its own backward pass through time, as [`Lstm`](crate::layers::Lstm) has. It keeps three
/// gates for each step, and computes hₙ again. If the policy asks for [recompute](crate::Policy::recompute) it keeps only the
/// initial states of runs of about √T steps. Both give the same bits.
///
/// Matrix products, gates, hidden units and outputs have the format of the policy. Sums over time have 32 bits.
///
/// # Shapes
/// - input `[B, T, I]`, output `[B, T, U]`, state `[B, U]`
/// - `weight_ih` `[3U, I]`, `weight_hh` `[3U, U]`, `bias_ih` and `bias_hh` `[3U]`, gates in the order r, z, n
///
/// All start uniform in ±1/√U, as PyTorch's.
#[derive(Module, Debug)]
pub struct Gru {
    /// The weight from the input to the gates.
    pub weight_ih: Param<Tensor<2>>,
    /// The weight from the last output to the gates.
    pub weight_hh: Param<Tensor<2>>,
    /// Shift of the input's products.
    pub bias_ih: Param<Tensor<1>>,
    /// Shift of the hidden units' products; r multiplies its last third.
    pub bias_hh: Param<Tensor<1>>,
}

impl Gru {
    /// A layer from `features[0]` inputs to `features[1]` hidden units.
    pub fn new(init: &Init, features: [usize; 2]) -> Self {
        let ([weight_ih, weight_hh], [bias_ih, bias_hh]) = uniform(init, features, 3);
        Self { weight_ih, weight_hh, bias_ih, bias_hh }
    }

    /// Runs over a sequence, from the hidden units `state`, `[B, U]`, or from zeros; gives all outputs and the last one.
    /// Gradients go back through the state.
    ///
    /// # Errors
    /// [`ModelError::Shape`] where the input has another number of features or no time step, or the state another
    /// shape.
    pub fn forward(
        &self,
        input: impl Into<RecurrentInput>,
        state: Option<Tensor<2>>,
        pass: &mut Pass,
    ) -> Result<(Tensor<3>, Tensor<2>), ModelError> {
        let parameters = Parameters::of([&self.weight_ih, &self.weight_hh], [&self.bias_ih, &self.bias_hh]);
        let (output, [hidden]) =
            run::<Self, 1, 6>(parameters, input.into(), state.map(|hidden| [hidden]), pass)?;
        Ok((output, hidden))
    }

    /// Adds the layer, from an initial state of zeros, to an ONNX graph: `[B, T, I]` to `[B, T, U]`.
    ///
    /// The source is <https://onnx.ai/onnx/operators/onnx__GRU.html>.
    pub fn to_onnx(&self, graph: &mut Graph, input: &Value) -> Value {
        let [_, units] = self.weight_hh.val().dims();
        let operator = Operator {
            name: "GRU",
            // z, r, n
            gates: [1, 0, 2],
            // r multiplies the product, not the hidden units before it.
            attributes: [
                ("hidden_size", Attribute::Int(units as i64)),
                ("linear_before_reset", Attribute::Int(1)),
            ],
        };
        operator.add(graph, self.weight_ih.val().dims(), input)
    }
}

impl Cell<1> for Gru {
    const KIND: LayerKind = LayerKind("Gru");
    const SUMS_BIASES: bool = false;
    type Kernels = GruLayer;

    fn step(
        [of_input, of_hidden]: [Tensor<2>; 2],
        [hidden]: [Tensor<2>; 1],
        policy: Policy,
    ) -> [Tensor<2>; 1] {
        let gates = |index| (gate::<3>(&of_input, index), gate::<3>(&of_hidden, index));
        let opened = |index| {
            let (of_input, of_hidden) = gates(index);
            sigmoid(of_input + of_hidden)
        };
        let (of_input, of_hidden) = gates(2);
        let candidate = tanh(of_input + opened(0) * of_hidden);
        let z = opened(1);
        [policy.narrow(z * (policy.widen(hidden) - candidate.clone()) + candidate)]
    }
}
