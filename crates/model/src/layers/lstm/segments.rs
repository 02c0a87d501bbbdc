//! An LSTM layer over time, run of steps by run of steps.

use std::ops::Range;

use burn::tensor::Tensor;
use burn_backend::DType;
use oomph_kernels::{
    RowSums, RowTerms, StepRange,
    lstm::{
        LstmEnd, LstmGradients, LstmMatrix, LstmOutputs, LstmStart, LstmSteps, lstm_backward, lstm_forward,
        lstm_input_backward,
    },
    zeros,
};

use crate::{AnyTensor, Kernels, Policy};

/// A layer with its input, off the graph.
pub(super) struct SegmentedLayer {
    pub(super) input: Tensor<3>,
    /// The weights of the input and of the hidden units.
    pub(super) weights: [Tensor<2>; 2],
    /// The sum of both biases.
    pub(super) bias: Tensor<1>,
    pub(super) policy: Policy,
}

/// The tensors that backward keeps of a run of steps.
pub(super) struct KeptRun {
    steps: Range<usize>,
    /// Hidden units and cell before it.
    before: [Tensor<2>; 2],
    /// The activated gates, `[B, k, 4U]`; `None` if backward recomputes them.
    gates: Option<Tensor<3>>,
}

/// The results of a forward pass.
pub(super) struct ForwardRuns {
    pub(super) output: Tensor<3>,
    /// Hidden units and cell after the last step, of 32 bits.
    pub(super) state: [Tensor<2>; 2],
    pub(super) kept: Vec<KeptRun>,
}

/// About √T steps. Then the kept states of all runs take about as much memory as the workspace of one backward run.
fn length_of_runs(steps: usize) -> usize {
    (steps as f64).sqrt().ceil() as usize
}

/// Runs of that length.
fn runs(steps: usize, length: usize) -> impl Iterator<Item = Range<usize>> {
    (0..steps).step_by(length.max(1)).map(move |start| start..(start + length).min(steps))
}

impl SegmentedLayer {
    pub(super) fn units(&self) -> usize {
        self.weights[1].dims()[1]
    }

    /// The factors of inputs and hidden units in forward.
    fn matrices(&self) -> [LstmMatrix; 2] {
        let Policy { kernels, .. } = self.policy;
        self.weights.clone().map(|weight| LstmMatrix::transposed(weight, self.policy.dtype(), kernels))
    }

    /// The factor of a gradient in backward.
    fn matrix_back(&self, weight: usize) -> LstmMatrix {
        LstmMatrix::plain(self.weights[weight].clone(), self.policy.dtype(), self.policy.kernels)
    }

    fn run(
        &self,
        steps: &Range<usize>,
        state: [Tensor<2>; 2],
        outputs: LstmOutputs,
        keeps_gates: bool,
        [of_input, recurrent]: &[LstmMatrix; 2],
    ) -> LstmSteps {
        let (input, bias) = (self.input.clone(), self.bias.clone());
        let start = LstmStart { input, steps: steps.clone(), bias, state, outputs, keeps_gates };
        lstm_forward(start, of_input, recurrent, self.policy.kernels)
    }

    /// Runs over the sequence. `keeps`: whether to keep what backward needs.
    pub(super) fn forward(&self, start: [Tensor<2>; 2], keeps: bool) -> ForwardRuns {
        let [batch, steps, _] = self.input.dims();
        let Policy { kernels, recompute, .. } = self.policy;
        let matrices = self.matrices();
        let at_once = match kernels {
            // Without a backward pass our own kernel needs no memory for gates, and one run is enough.
            Kernels::Cpu if !keeps => steps,
            // Each run launches kernels. Two runs halve the workspace of one.
            Kernels::Gpu if !recompute => steps.div_ceil(2),
            _ => length_of_runs(steps),
        };
        let new = || zeros([batch, steps, self.units()], self.policy.dtype(), self.bias.clone(), kernels);
        let mut outputs = if at_once < steps { LstmOutputs::There(new()) } else { LstmOutputs::New };
        let (mut kept, mut state) = (Vec::new(), start);
        for steps in runs(steps, at_once) {
            let made = self.run(&steps, state.clone(), outputs, keeps && !recompute, &matrices);
            // Every run returns the outputs that it was given.
            outputs = LstmOutputs::There(made.output.expect("outputs are asked for"));
            let before = std::mem::replace(&mut state, made.state);
            if keeps {
                kept.push(KeptRun { steps, before, gates: made.gates });
            }
        }
        // A sequence has at least one step, and so one run.
        let output = outputs.there().expect("outputs are where they were written");
        ForwardRuns { output, state, kept }
    }

    /// The gradients of input, both weights, both biases and both states, if wanted. `output` is the gradient of the output,
    /// and `state` those of hidden units and cell after the last step, in 32 bits, if they have one.
    pub(super) fn backward(
        self,
        mut kept: Vec<KeptRun>,
        mut output: Tensor<3>,
        state: [Option<Tensor<2>>; 2],
        wanted: [bool; 7],
    ) -> [Option<AnyTensor>; 7] {
        let Policy { kernels, recompute, .. } = self.policy;
        let forward = recompute.then(|| self.matrices());
        let recurrent = self.matrix_back(1);
        let of_input = wanted[0].then(|| self.matrix_back(0));
        let mut input = wanted[0].then(|| self.memory_for_input(&output)).flatten();
        let new = || zeros(kept[0].before[1].dims(), DType::F32, self.bias.clone(), kernels);
        let mut state = state.map(|gradient| gradient.unwrap_or_else(new));
        let mut sums = RowSums::default();
        while let Some(KeptRun { steps, before, gates }) = kept.pop() {
            let again =
                || self.run(&steps, before.clone(), LstmOutputs::Known, true, forward.as_ref()?).gates;
            let gates = gates.or_else(again);
            // Gates are kept if forward is not run again.
            let gates = gates.expect("gates are kept or computed again");
            let end = LstmEnd { gates, before, steps: steps.clone(), outputs: output.clone(), after: state };
            let back = lstm_backward(end, &recurrent, kernels);
            sums = sums.add(self.terms(&steps, &back, wanted), kernels);
            let LstmGradients { gates, state: before, .. } = back;
            state = before;
            if let Some(of_input) = &of_input {
                let back = |whole| lstm_input_backward(whole, gates, &steps, of_input, kernels);
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

    /// Memory for the input's gradient. `None` if it may overwrite the output's gradient, which each run reads before.
    fn memory_for_input(&self, output: &Tensor<3>) -> Option<Tensor<3>> {
        let (dims, dtype) = (self.input.dims(), self.input.dtype());
        let fits = dims == output.dims() && dtype == output.dtype();
        (!fits).then(|| zeros(dims, dtype, self.bias.clone(), self.policy.kernels))
    }

    /// The terms of a run in the parameters' gradients.
    fn terms(&self, steps: &Range<usize>, back: &LstmGradients, wanted: [bool; 7]) -> RowTerms {
        let of_input = wanted[1].then(|| StepRange { of: self.input.clone(), steps: steps.clone() });
        let of_hidden = wanted[2].then(|| StepRange { of: back.previous.clone(), steps: 0..steps.len() });
        RowTerms {
            left: back.gates.clone(),
            rights: [of_input, of_hidden],
            rows: wanted[3] || wanted[4],
            dtype: self.policy.dtype(),
        }
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
