//! A layer over time, run of steps by run of steps.

use std::ops::Range;

use burn::tensor::Tensor;
use burn_backend::DType;

use crate::{
    AnyTensor, Policy,
    kernel::{
        self, Kernels, LstmEnd, LstmGradients, LstmStart, LstmSteps, Matrix, Outputs, Steps, Sums, Terms,
    },
};

/// A layer with its input, off the graph.
pub(super) struct Layer {
    pub(super) input: Tensor<3>,
    /// Of the input and of the hidden units.
    pub(super) weights: [Tensor<2>; 2],
    /// The sum of both biases.
    pub(super) bias: Tensor<1>,
    pub(super) policy: Policy,
}

/// What is kept of a run of steps.
pub(super) struct Run {
    steps: Range<usize>,
    /// Hidden units and cell before it.
    before: [Tensor<2>; 2],
    /// `[B, k, 4U]`; where they are not kept they are computed again.
    gates: Option<Tensor<3>>,
}

/// What forward gives.
pub(super) struct Made {
    pub(super) output: Tensor<3>,
    /// Hidden units and cell after the last step, of 32 bits.
    pub(super) state: [Tensor<2>; 2],
    pub(super) kept: Vec<Run>,
}

/// The gradients that backward starts from.
pub(super) struct Upstream {
    /// Of the output.
    pub(super) output: Tensor<3>,
    /// Of hidden units and cell after the last step, where they have one: of 32 bits.
    pub(super) state: [Option<Tensor<2>>; 2],
}

/// About √T steps: of the states that are kept of each run, and of what one run needs in backward, there is then about as
/// much.
fn length_of_runs(steps: usize) -> usize {
    (steps as f64).sqrt().ceil() as usize
}

/// Runs of that length.
fn runs(steps: usize, length: usize) -> impl Iterator<Item = Range<usize>> {
    (0..steps).step_by(length.max(1)).map(move |start| start..(start + length).min(steps))
}

impl Layer {
    pub(super) fn units(&self) -> usize {
        self.weights[1].dims()[1]
    }

    /// What forward multiplies inputs and hidden units by.
    fn matrices(&self) -> [Matrix; 2] {
        let Policy { kernels, .. } = self.policy;
        self.weights.clone().map(|weight| Matrix::transposed(weight, self.policy.dtype(), kernels))
    }

    /// What backward multiplies by.
    fn matrix_back(&self, weight: usize) -> Matrix {
        Matrix::plain(self.weights[weight].clone(), self.policy.dtype(), self.policy.kernels)
    }

    fn run(
        &self,
        steps: &Range<usize>,
        state: [Tensor<2>; 2],
        outputs: Outputs,
        keeps_gates: bool,
        [of_input, recurrent]: &[Matrix; 2],
    ) -> LstmSteps {
        let (input, bias) = (self.input.clone(), self.bias.clone());
        let start = LstmStart { input, steps: steps.clone(), bias, state, outputs, keeps_gates };
        kernel::lstm_forward(start, of_input, recurrent, self.policy.kernels)
    }

    /// Runs over the sequence, and keeps what backward needs where there may be one.
    pub(super) fn forward(&self, start: [Tensor<2>; 2], keeps: bool) -> Made {
        let [batch, steps, _] = self.input.dims();
        let Policy { kernels, recompute, .. } = self.policy;
        let matrices = self.matrices();
        // A kernel of our own needs no room for the gates of a run, and one is enough where none begins again.
        let at_once = if !keeps && kernels == Kernels::Own { steps } else { length_of_runs(steps) };
        let room =
            || kernel::room([batch, steps, self.units()], self.policy.dtype(), self.bias.clone(), kernels);
        let mut outputs = if at_once < steps { Outputs::There(room()) } else { Outputs::New };
        let (mut kept, mut state) = (Vec::new(), start);
        for steps in runs(steps, at_once) {
            let made = self.run(&steps, state.clone(), outputs, keeps && !recompute, &matrices);
            // Every run gives back what it is given.
            outputs = Outputs::There(made.output.expect("outputs are asked for"));
            let before = std::mem::replace(&mut state, made.state);
            if keeps {
                kept.push(Run { steps, before, gates: made.gates });
            }
        }
        // There is a run, for there is a step.
        let output = outputs.there().expect("outputs are where they were written");
        Made { output, state, kept }
    }

    /// The gradients of input, both weights, both biases and both states, where they are wanted.
    pub(super) fn backward(
        self,
        mut kept: Vec<Run>,
        upstream: Upstream,
        wanted: [bool; 7],
    ) -> [Option<AnyTensor>; 7] {
        let Policy { kernels, recompute, .. } = self.policy;
        let forward = recompute.then(|| self.matrices());
        let recurrent = self.matrix_back(1);
        let of_input = wanted[0].then(|| self.matrix_back(0));
        let Upstream { mut output, state } = upstream;
        let mut input = wanted[0].then(|| self.room_for_input(&output)).flatten();
        let zeros = || self.zeros(kept[0].before[1].dims());
        let mut state = state.map(|gradient| gradient.unwrap_or_else(zeros));
        let mut sums = Sums::default();
        while let Some(Run { steps, before, gates }) = kept.pop() {
            let again = || self.run(&steps, before.clone(), Outputs::Known, true, forward.as_ref()?).gates;
            let gates = gates.or_else(again);
            // They are kept where nothing is there to compute them again.
            let gates = gates.expect("gates are kept or computed again");
            let end = LstmEnd { gates, before, steps: steps.clone(), outputs: output.clone(), after: state };
            let back = kernel::lstm_backward(end, &recurrent, kernels);
            sums = sums.add(self.terms(&steps, &back, wanted), kernels);
            let LstmGradients { gates, state: before, .. } = back;
            state = before;
            if let Some(of_input) = &of_input {
                let back = |whole| kernel::lstm_input_backward(whole, gates, &steps, of_input, kernels);
                match input.take() {
                    Some(whole) => input = Some(back(whole)),
                    None => output = back(output),
                }
            }
        }
        let input = wanted[0].then(|| input.unwrap_or(output).into());
        let [hidden, cell] = state.map(AnyTensor::from);
        let [of_input, of_hidden] = sums.products.map(|sum| sum.map(AnyTensor::from));
        let bias = sums.rows.map(AnyTensor::from);
        [input, of_input, of_hidden, bias.clone(), bias, Some(hidden), Some(cell)]
    }

    /// Room for the input's gradient. `None` where it may be written over the output's, which is read run by run just
    /// before.
    fn room_for_input(&self, output: &Tensor<3>) -> Option<Tensor<3>> {
        let (dims, dtype) = (self.input.dims(), self.input.dtype());
        let fits = dims == output.dims() && dtype == output.dtype();
        (!fits).then(|| kernel::room(dims, dtype, self.bias.clone(), self.policy.kernels))
    }

    /// What a run gives to the parameters' gradients.
    fn terms(&self, steps: &Range<usize>, back: &LstmGradients, wanted: [bool; 7]) -> Terms {
        let of_input = wanted[1].then(|| Steps { of: self.input.clone(), steps: steps.clone() });
        let of_hidden = wanted[2].then(|| Steps { of: back.previous.clone(), steps: 0..steps.len() });
        Terms {
            left: back.gates.clone(),
            rights: [of_input, of_hidden],
            rows: wanted[3] || wanted[4],
            dtype: self.policy.dtype(),
        }
    }

    /// Of 32 bits.
    fn zeros<const D: usize>(&self, shape: [usize; D]) -> Tensor<D> {
        kernel::room(shape, DType::F32, self.bias.clone(), self.policy.kernels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_of_about_the_root_and_leave_nothing_out() {
        let of_root = |steps| runs(steps, length_of_runs(steps));
        assert!(of_root(1).eq(std::iter::once(0..1)));
        assert!(of_root(7).eq([0..3, 3..6, 6..7]));
        assert_eq!(of_root(1024).count(), 32);
    }
}
