use burn::{
    module::{Module, Param},
    tensor::{
        Tensor,
        activation::{sigmoid, tanh},
    },
};
use oomph_kernels::{lstm::LstmLayer, recurrent::RecurrentInput};
use oomph_onnx::{Attribute, Graph, Value};

use super::{
    cell::{Cell, Parameters, gate, uniform},
    onnx::Operator,
    run::run,
};
use crate::{Init, LayerKind, ModelError, Pass, Policy};

/// One layer of long short-term memory (Hochreiter & Schmidhuber 1997; gates as in PyTorch's `nn.LSTM`).
///
/// With gates i, f, g, o = x W_ihᵀ + b_ih + h W_hhᵀ + b_hh, cut in four:
/// c′ = σ(f)·c + σ(i)·tanh(g), h′ = σ(o)·tanh(c′).
///
/// A [lean](crate::Policy::lean) layer has its own backward pass through time, run by run of about √T steps. It keeps the
/// activated gates and the initial state of each run. If the policy asks for [recompute](crate::Policy::recompute) it keeps
/// only the initial states, as in Chen et al. 2016 (<https://arxiv.org/abs/1604.06174>) and, for networks over time,
/// Gruslys et al. 2016 (<https://arxiv.org/abs/1606.03401>). Both give the same bits.
///
/// Matrix products, gates and outputs have the format of the policy. Cells and sums over time have 32 bits.
///
/// # Shapes
/// - input `[B, T, I]`, output `[B, T, U]`, state `[B, U]` each
/// - `weight_ih` `[4U, I]`, `weight_hh` `[4U, U]`, `bias_ih` and `bias_hh` `[4U]`, gates in the order i, f, g, o
///
/// All start uniform in ±1/√U, as PyTorch's.
#[derive(Module, Debug)]
pub struct Lstm {
    /// The weight from the input to the gates.
    pub weight_ih: Param<Tensor<2>>,
    /// The weight from the last output to the gates.
    pub weight_hh: Param<Tensor<2>>,
    /// Shift of the gates; separate from `bias_hh`, as in PyTorch.
    pub bias_ih: Param<Tensor<1>>,
    /// Shift of the gates.
    pub bias_hh: Param<Tensor<1>>,
}

/// The state of an LSTM layer between two time steps. Gradients go back through it.
#[derive(Clone, Debug)]
pub struct LstmState {
    /// The last output, `[B, U]`.
    pub hidden: Tensor<2>,
    /// The cell, `[B, U]`.
    pub cell: Tensor<2>,
}

impl Lstm {
    /// A layer from `features[0]` inputs to `features[1]` hidden units.
    pub fn new(init: &Init, features: [usize; 2]) -> Self {
        let ([weight_ih, weight_hh], [bias_ih, bias_hh]) = uniform(init, features, 4);
        Self { weight_ih, weight_hh, bias_ih, bias_hh }
    }

    /// Runs over a sequence, from `state` or from zeros; gives all outputs and the last state.
    ///
    /// # Errors
    /// [`ModelError::Shape`] where the input has another number of features or no time step, or the state another
    /// shape.
    pub fn forward(
        &self,
        input: impl Into<RecurrentInput>,
        state: Option<LstmState>,
        pass: &mut Pass,
    ) -> Result<(Tensor<3>, LstmState), ModelError> {
        let parameters = Parameters::of([&self.weight_ih, &self.weight_hh], [&self.bias_ih, &self.bias_hh]);
        let state = state.map(|LstmState { hidden, cell }| [hidden, cell]);
        let (output, [hidden, cell]) = run::<Self, 2, 7>(parameters, input.into(), state, pass)?;
        Ok((output, LstmState { hidden, cell }))
    }

    /// Adds the layer, from an initial state of zeros, to an ONNX graph: `[B, T, I]` to `[B, T, U]`.
    ///
    /// The source is <https://onnx.ai/onnx/operators/onnx__LSTM.html>.
    pub fn to_onnx(&self, graph: &mut Graph, input: &Value) -> Value {
        let [_, units] = self.weight_hh.val().dims();
        let operator = Operator {
            name: "LSTM",
            // i, o, f, g
            gates: [0, 3, 1, 2],
            attributes: [("hidden_size", Attribute::Int(units as i64))],
        };
        operator.add(graph, self.weight_ih.val().dims(), input)
    }
}

impl Cell<2> for Lstm {
    const KIND: LayerKind = LayerKind("Lstm");
    const SUMS_BIASES: bool = true;
    type Kernels = LstmLayer;

    fn step(
        [of_input, of_hidden]: [Tensor<2>; 2],
        [_, cell]: [Tensor<2>; 2],
        policy: Policy,
    ) -> [Tensor<2>; 2] {
        let gates = of_input + of_hidden;
        let gate = |index| gate::<4>(&gates, index);
        let cell = sigmoid(gate(1)) * policy.widen(cell) + sigmoid(gate(0)) * tanh(gate(2));
        let hidden = sigmoid(gate(3)) * tanh(cell.clone());
        [policy.narrow(hidden), cell]
    }
}
