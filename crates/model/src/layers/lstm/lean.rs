use burn::tensor::Tensor;
use burn_backend::DType;

use oomph_kernels::{SecondOutput, cast, differentiable, lstm::lstm_kernels, ranked, zeros};

use super::{Lstm, LstmState, segments::SegmentedLayer};
use crate::{AnyTensor, Policy, autodiff};

impl Lstm {
    /// The layer as one operation. Backward keeps the input, the state before each run of steps and, unless the policy asks
    /// for recompute, the gates.
    pub(super) fn lean(
        &self,
        input: Tensor<3>,
        state: Option<LstmState>,
        policy: Policy,
    ) -> (Tensor<3>, LstmState) {
        let [batch, _, _] = input.dims();
        let [_, units] = self.weight_hh.val().dims();
        let policy = Policy { kernels: lstm_kernels(units, policy.kernels), ..policy };
        let weights = [self.weight_ih.val(), self.weight_hh.val()];
        let biases = [self.bias_ih.val(), self.bias_hh.val()];
        let [bias_ih, bias_hh] = biases.clone().map(autodiff::inner);
        let mut layer = SegmentedLayer {
            input: autodiff::inner(input.clone()),
            weights: weights.clone().map(autodiff::inner),
            bias: bias_ih + bias_hh,
            policy,
        };
        let start = match state {
            Some(LstmState { hidden, cell }) => {
                // Rounded to the format of outputs, as the hidden units of every other step.
                [policy.widen(policy.narrow(hidden)), policy.widen(cell)]
            }
            None => {
                let zeros = zeros([batch, units], DType::F32, layer.bias.clone(), policy.kernels);
                [zeros.clone(), zeros]
            }
        };
        // The gradient of the weight reads the input, and so does recompute. Of a frozen layer only its shape is read.
        let reads_input = autodiff::wants_gradient(&weights[0]) || policy.recompute;
        let [weight_ih, weight_hh] = weights.map(AnyTensor::from);
        let [bias_ih, bias_hh] = biases.map(AnyTensor::from);
        let [hidden, cell] = start.clone().map(AnyTensor::from);
        let inputs = [input.into(), weight_ih, weight_hh, bias_ih, bias_hh, hidden, cell];
        let differentiable_here = inputs.iter().any(|input| input.device().is_autodiff());
        let made = layer.forward(start.map(autodiff::inner), differentiable_here);
        if differentiable_here && !reads_input {
            let one = Tensor::<3>::zeros([1; 3], (&layer.input.device(), layer.input.dtype()));
            layer.input = one.expand(layer.input.dims());
        }
        let (ends, kept) = ([SecondOutput::default(), SecondOutput::default()], made.kept);
        let of_ends = ends.clone();
        let output: Tensor<3> = ranked(differentiable(inputs, made.output.into(), move |output, wanted| {
            let state = of_ends.map(|end| end.take().map(|gradient| policy.widen(ranked(gradient))));
            layer.backward(kept, ranked(output), state, wanted)
        }));
        let [of_hidden, of_cell] = ends;
        let [hidden, cell] = made.state;
        let hidden = cast(hidden, policy.dtype(), policy.kernels);
        let [hidden, cell] = [of_hidden.output(&output, hidden), of_cell.output(&output, cell)];
        (output, LstmState { hidden, cell })
    }
}
