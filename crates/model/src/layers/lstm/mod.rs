mod lean;
mod onnx;
mod segments;

use burn::{
    module::{Module, Param},
    tensor::{
        Tensor,
        activation::{sigmoid, tanh},
    },
};

use oomph_kernels::{differentiable, place_steps, ranked, zeros};

use crate::{Init, LayerKind, ModelError, Pass, Policy, autodiff};

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
        if let Some(LstmState { hidden: found, cell }) = &state {
            let fits = found.dims() == [batch, hidden] && cell.dims() == found.dims();
            pass.expect_shape(fits, &format!("a state of [{batch}, {hidden}]"), &found.dims())?;
        }
        let policy = pass.policy();
        let (output, state) = match policy.lean {
            true => self.lean(input, state, policy),
            false => self.plain(input, state, policy),
        };
        let parameters = gates * (features + hidden + 2);
        pass.layer(LayerKind("Lstm"), &dims, &output.dims(), parameters);
        Ok((output, state))
    }

    /// The layer composed of Burn's operations, which keep all that their own backward passes need.
    ///
    /// The whole sequence is projected by one matrix product, and each step takes one more for all four gates.
    fn plain(&self, input: Tensor<3>, state: Option<LstmState>, policy: Policy) -> (Tensor<3>, LstmState) {
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
