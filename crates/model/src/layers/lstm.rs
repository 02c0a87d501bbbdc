use burn::{
    module::{Module, Param},
    tensor::{
        Tensor,
        activation::{sigmoid, tanh},
    },
};

use crate::{Init, LayerKind, ModelError, Pass};

/// One layer of long short-term memory (Hochreiter & Schmidhuber 1997; gates as in PyTorch's `nn.LSTM`).
///
/// With gates i, f, g, o = x W_ihᵀ + b_ih + h W_hhᵀ + b_hh, cut in four:
/// c′ = σ(f)·c + σ(i)·tanh(g), h′ = σ(o)·tanh(c′).
///
/// The whole sequence is projected by one matrix product, and each step takes one more for all four gates.
///
/// # Shapes
/// - input `[B, T, I]`, output `[B, T, U]`, state `[B, U]` each
/// - `weight_ih` `[4U, I]`, `weight_hh` `[4U, U]`, `bias_ih` and `bias_hh` `[4U]`, gates in the order i, f, g, o
///
/// All start uniform in ±1/√U, as PyTorch's.
#[derive(Module, Debug)]
pub struct Lstm {
    /// From input to gates.
    pub weight_ih: Param<Tensor<2>>,
    /// From the last output to gates.
    pub weight_hh: Param<Tensor<2>>,
    /// Shift of the gates; kept apart from `bias_hh` as PyTorch does.
    pub bias_ih: Param<Tensor<1>>,
    /// Shift of the gates.
    pub bias_hh: Param<Tensor<1>>,
}

/// The state of an LSTM layer between two time steps.
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
        let [input, hidden] = features;
        let bound = 1.0 / (hidden as f64).sqrt();
        Self {
            weight_ih: init.uniform("weight_ih", [4 * hidden, input], bound),
            weight_hh: init.uniform("weight_hh", [4 * hidden, hidden], bound),
            bias_ih: init.uniform("bias_ih", [4 * hidden], bound),
            bias_hh: init.uniform("bias_hh", [4 * hidden], bound),
        }
    }

    /// Runs over a sequence, from `state` or from zeros; gives all outputs and the last state.
    ///
    /// # Errors
    /// [`ModelError::Shape`] where the input has another number of features or no time step, or the state another
    /// shape.
    pub fn forward(
        &self,
        input: Tensor<3>,
        state: Option<LstmState>,
        pass: &mut Pass,
    ) -> Result<(Tensor<3>, LstmState), ModelError> {
        let dims @ [batch, steps, found] = input.dims();
        let [gates, features] = self.weight_ih.val().dims();
        let hidden = gates / 4;
        pass.expect_shape(found == features && steps > 0, &format!("[B, T ≥ 1, {features}]"), &dims)?;
        let mut state = match state {
            Some(state) => {
                let found = state.hidden.dims();
                let fits = found == [batch, hidden] && state.cell.dims() == found;
                pass.expect_shape(fits, &format!("a state of [{batch}, {hidden}]"), &found)?;
                state
            }
            None => {
                let zeros = Tensor::zeros([batch, hidden], &input.device());
                LstmState { hidden: zeros.clone(), cell: zeros }
            }
        };
        let bias = (self.bias_ih.val() + self.bias_hh.val()).unsqueeze();
        let flat = input.reshape([batch * steps, features]);
        let projected = flat.matmul(self.weight_ih.val().transpose()) + bias;
        let projected = projected.reshape([batch, steps, gates]);
        let recurrent = self.weight_hh.val().transpose();
        let mut outputs = Vec::with_capacity(steps);
        for at in projected.split(1, 1) {
            state = Self::step(at.reshape([batch, gates]), &recurrent, state);
            outputs.push(state.hidden.clone());
        }
        let output = Tensor::stack(outputs, 1);
        let parameters = gates * (features + hidden + 2);
        pass.layer(LayerKind("Lstm"), &dims, &output.dims(), parameters);
        Ok((output, state))
    }

    fn step(projected: Tensor<2>, recurrent: &Tensor<2>, state: LstmState) -> LstmState {
        let gates = projected + state.hidden.matmul(recurrent.clone());
        let [batch, width] = gates.dims();
        let hidden = width / 4;
        let gate = |index: usize| gates.clone().slice([0..batch, index * hidden..(index + 1) * hidden]);
        let cell = sigmoid(gate(1)) * state.cell + sigmoid(gate(0)) * tanh(gate(2));
        let hidden = sigmoid(gate(3)) * tanh(cell.clone());
        LstmState { hidden, cell }
    }
}
