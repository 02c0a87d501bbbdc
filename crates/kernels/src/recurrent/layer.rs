//! A recurrent layer over time, run of steps by run of steps.

use std::{marker::PhantomData, ops::Range};

use burn::tensor::{Int, Tensor};
use burn_backend::DType;

use super::{
    RecurrentMatrix, RunEnd, RunGradients, RunInput, RunOutputs, RunStart, RunSteps,
    layer_input::RecurrentInput, place_products, run::runs, tokens::add_by_token,
};
use crate::{
    accumulate::{RowSums, RowTerms, StepRange},
    any_tensor::AnyTensor,
    kernels::Kernels,
    sequence::zeros,
};

/// A kind of recurrent layer, with `S` states between two time steps: the hidden units first.
pub trait LayerCell<const S: usize>: Send + 'static {
    /// The factors of a backward pass.
    type Factors;

    /// The kernels for a layer of so many hidden units.
    fn kernels(units: usize, kernels: Kernels) -> Kernels;

    /// The bias that [`forward`](Self::forward) reads, of the biases of inputs and hidden units.
    fn bias(biases: [Tensor<1>; 2]) -> Tensor<1>;

    /// Runs forward. The matrix is that of the hidden units.
    fn forward(start: RunStart<S>, recurrent: &RecurrentMatrix, kernels: Kernels) -> RunSteps<S>;

    /// The factors of a backward pass of so many rows, by the weight of hidden units and the bias.
    fn factors(
        weight: Tensor<2>,
        bias: Tensor<1>,
        rows: usize,
        dtype: DType,
        kernels: Kernels,
    ) -> Self::Factors;

    /// Goes backward through a run.
    fn backward(end: RunEnd<S>, factors: &Self::Factors, kernels: Kernels) -> RunGradients<S>;
}

/// A layer with its input, off the graph.
pub struct SegmentedLayer<C> {
    /// The input, with vectors in the format of products.
    pub input: RecurrentInput,
    /// The weights of the input and of the hidden units.
    pub weights: [Tensor<2>; 2],
    /// The bias of the gates, as the cell reads it.
    pub bias: Tensor<1>,
    /// The format of products, gates and outputs.
    pub dtype: DType,
    /// The kernels that run it.
    pub kernels: Kernels,
    /// Whether backward recomputes the gates.
    pub recompute: bool,
    /// The kind of the layer.
    pub cell: PhantomData<C>,
}

/// What forward reads of a layer.
struct ReadLayer {
    input: RunInput,
    /// The factor of the hidden units.
    recurrent: RecurrentMatrix,
}

/// The tensors that backward keeps of a run of steps.
pub struct KeptRun<const S: usize> {
    steps: Range<usize>,
    /// The states before it.
    before: [Tensor<2>; S],
    /// The activated gates, `[B, k, G·U]`; `None` if backward recomputes them.
    gates: Option<Tensor<3>>,
}

/// The results of a forward pass.
pub struct ForwardRuns<const S: usize> {
    /// All outputs, `[B, T, U]`.
    pub output: Tensor<3>,
    /// The states after the last step, of 32 bits.
    pub state: [Tensor<2>; S],
    /// What backward needs.
    pub kept: Vec<KeptRun<S>>,
}

/// The gradients of a layer that are wanted: of the input, of both weights and of both biases.
pub type Wanted = [bool; 5];

/// The gradients of a layer.
pub struct LayerGradients<const S: usize> {
    /// Those of the input, of both weights and of both biases, if wanted.
    pub of_inputs: [Option<AnyTensor>; 5],
    /// Those of the states before the first step.
    pub of_state: [Tensor<2>; S],
}

/// About √T steps. Then the kept states of all runs take about as much memory as the workspace of one backward run.
fn length_of_runs(steps: usize) -> usize {
    (steps as f64).sqrt().ceil() as usize
}

impl<C> SegmentedLayer<C> {
    /// The hidden units, U.
    pub fn units(&self) -> usize {
        self.weights[1].dims()[1]
    }

    /// The input and the factor of the hidden units in forward.
    fn read(&self) -> ReadLayer {
        let ([batch, steps, _], kernels) = (self.input.dims(), self.kernels);
        let [of_input, of_hidden] = self.weights.clone();
        let matrix = |weight, rows| RecurrentMatrix::transposed(weight, self.dtype, rows, kernels);
        // Inputs of a run of steps are multiplied at once.
        let weights = matrix(of_input, self.input.rows(length_of_runs(steps)));
        ReadLayer { input: self.input.of_run(weights, kernels), recurrent: matrix(of_hidden, batch) }
    }

    /// Runs over `steps`, in runs of `run` steps.
    fn run<const S: usize>(
        &self,
        steps: &Range<usize>,
        run: usize,
        state: [Tensor<2>; S],
        outputs: RunOutputs,
        keeps_gates: bool,
        read: &ReadLayer,
    ) -> RunSteps<S>
    where
        C: LayerCell<S>,
    {
        let (input, bias) = (read.input.clone(), self.bias.clone());
        let start = RunStart { input, steps: steps.clone(), run, bias, state, outputs, keeps_gates };
        C::forward(start, &read.recurrent, self.kernels)
    }

    /// Runs over the sequence. `keeps`: whether to keep what backward needs.
    pub fn forward<const S: usize>(&self, start: [Tensor<2>; S], keeps: bool) -> ForwardRuns<S>
    where
        C: LayerCell<S>,
    {
        let [batch, steps, _] = self.input.dims();
        let Self { kernels, recompute, .. } = *self;
        let read = self.read();
        let at_once = match kernels {
            // Our own kernel gives each run its gates, and threads do not wait for each other between runs.
            Kernels::Cpu => steps,
            // Each run launches kernels. Two runs halve the workspace of one.
            Kernels::Gpu if !recompute => steps.div_ceil(2),
            Kernels::Gpu | Kernels::Composed => length_of_runs(steps),
        };
        let of_run = if keeps && kernels == Kernels::Cpu { length_of_runs(steps) } else { at_once };
        let new = || zeros([batch, steps, self.units()], self.dtype, self.bias.clone(), kernels);
        let mut outputs = if at_once < steps { RunOutputs::There(new()) } else { RunOutputs::New };
        let (mut kept, mut state) = (Vec::new(), start);
        for steps in runs(0..steps, at_once) {
            let made = self.run(&steps, of_run, state.clone(), outputs, keeps && !recompute, &read);
            // Every run returns the outputs that it was given.
            outputs = RunOutputs::There(made.output.expect("outputs are asked for"));
            let first = std::mem::replace(&mut state, made.state);
            if keeps {
                let mut gates = made.gates.into_iter();
                let before = std::iter::once(first).chain(made.between);
                let of_runs = runs(steps, of_run).zip(before);
                kept.extend(of_runs.map(|(steps, before)| KeptRun { steps, before, gates: gates.next() }));
            }
        }
        // A sequence has at least one step, and so one run.
        let output = outputs.there().expect("outputs are where they were written");
        ForwardRuns { output, state, kept }
    }

    /// The gradients of input, weights, biases and states. `output` is the gradient of the output, and `state` those of the
    /// states after the last step, in 32 bits, if they have one.
    pub fn backward<const S: usize>(
        self,
        mut kept: Vec<KeptRun<S>>,
        output: Tensor<3>,
        state: [Option<Tensor<2>>; S],
        wanted: Wanted,
    ) -> LayerGradients<S>
    where
        C: LayerCell<S>,
    {
        let Self { kernels, recompute, .. } = self;
        let forward = recompute.then(|| self.read());
        let [batch, steps, _] = self.input.dims();
        let factors = C::factors(self.weights[1].clone(), self.bias.clone(), batch, self.dtype, kernels);
        let mut by_token = self.sums_by_token();
        let of_each_run = wanted[0] && by_token.is_none();
        let of_input = of_each_run.then(|| self.back_to_input(batch * length_of_runs(steps)));
        let mut input = wanted[0].then(|| self.memory_for_input(&output)).flatten();
        let mut output = Some(output);
        let new = || zeros(kept[0].before[0].dims(), DType::F32, self.bias.clone(), kernels);
        let mut state = state.map(|gradient| gradient.unwrap_or_else(new));
        let mut sums = Sums::default();
        while let Some(KeptRun { steps, before, gates }) = kept.pop() {
            let again = || {
                let forward = forward.as_ref()?;
                self.run(&steps, steps.len(), before.clone(), RunOutputs::Known, true, forward).gates.pop()
            };
            let gates = gates.or_else(again);
            // Gates are kept if forward is not run again.
            let gates = gates.expect("gates are kept or computed again");
            // It ends with its last reader, as a plan says, unless the gradient of the input overwrites it.
            let is_last = kept.is_empty() && (of_input.is_none() || input.is_some());
            let outputs = if is_last { output.take() } else { output.clone() };
            // It was taken for an earlier run only if that was the last.
            let outputs = outputs.expect("the gradient of the outputs is there up to the last run");
            let end = RunEnd { gates, before, steps: steps.clone(), outputs, after: state };
            let RunGradients { gates, of_hidden, previous, state: before } =
                C::backward(end, &factors, kernels);
            by_token = by_token.map(|(sums, tokens)| {
                (add_by_token(sums, gates.clone(), tokens.clone(), &steps, kernels), tokens)
            });
            let of_input = of_input.as_ref().map(|of_input| (of_input, gates.clone()));
            sums = self.add(sums, &steps, RunTerms { gates, of_hidden, previous }, wanted);
            state = before;
            if let Some((of_input, gates)) = of_input {
                let back = |whole| place_products(whole, gates, &steps, of_input, kernels);
                match input.take() {
                    Some(whole) => input = Some(back(whole)),
                    None => output = output.map(back),
                }
            }
        }
        // They end with the runs, as a plan says.
        drop((forward, factors, of_input));
        let input = match (&self.input, by_token) {
            (RecurrentInput::Tokens { vectors, .. }, Some((products, _))) => {
                sums = self.add_tokens(sums, vectors.clone(), products.clone(), wanted);
                wanted[0].then(|| self.of_vectors(vectors, products).into())
            }
            _ => wanted[0].then(|| input.or(output)).flatten().map(AnyTensor::from),
        };
        let [of_input, of_hidden, bias_ih, bias_hh] = sums.finish();
        LayerGradients { of_inputs: [input, of_input, of_hidden, bias_ih, bias_hh], of_state: state }
    }

    /// Memory for the sums of the gradients of each token's products, and the tokens.
    fn sums_by_token(&self) -> Option<(Tensor<3>, Tensor<2, Int>)> {
        let RecurrentInput::Tokens { tokens, vectors } = &self.input else { return None };
        let dims = [vectors.dims()[0], 1, self.weights[0].dims()[0]];
        Some((zeros(dims, DType::F32, self.bias.clone(), self.kernels), tokens.clone()))
    }

    /// Adds the gradients of the parameters that the products of all tokens depend on.
    fn add_tokens(&self, sums: Sums, vectors: Tensor<2>, products: Tensor<3>, wanted: Wanted) -> Sums {
        let [tokens, features] = vectors.dims();
        let vectors = StepRange { of: vectors.reshape([tokens, 1, features]), steps: 0..1 };
        let terms = RowTerms {
            left: products,
            rights: [wanted[1].then_some(vectors), None],
            rows: wanted[3] || wanted[4],
            dtype: self.dtype,
        };
        let RowSums { products: [of_input, _], rows } = RowSums::default().add(terms, self.kernels);
        let [_, of_hidden] = sums.of_gates.products;
        Sums { of_gates: RowSums { products: [of_input, of_hidden], rows }, ..sums }
    }

    /// The gradient of the tokens' vectors, in 32 bits, by that of their products.
    fn of_vectors(&self, vectors: &Tensor<2>, products: Tensor<3>) -> Tensor<2> {
        let ([tokens, features], kernels) = (vectors.dims(), self.kernels);
        let whole = zeros([tokens, 1, features], DType::F32, self.bias.clone(), kernels);
        let of_input = self.back_to_input(tokens);
        place_products(whole, products, &(0..1), &of_input, kernels).reshape([tokens, features])
    }

    /// The factor of the gates' gradients, of which `rows` are multiplied at once.
    fn back_to_input(&self, rows: usize) -> RecurrentMatrix {
        RecurrentMatrix::plain(self.weights[0].clone(), self.dtype, rows, self.kernels)
    }

    /// Memory for the input's gradient. `None` if it may overwrite the output's gradient, which each run reads before, or there is
    /// none for each step.
    fn memory_for_input(&self, output: &Tensor<3>) -> Option<Tensor<3>> {
        let RecurrentInput::Vectors(input) = &self.input else { return None };
        let (dims, dtype) = (input.dims(), input.dtype());
        let fits = dims == output.dims() && dtype == output.dtype();
        (!fits).then(|| zeros(dims, dtype, self.bias.clone(), self.kernels))
    }

    /// Adds the terms of a run to the parameters' gradients. The terms end here, as a plan says.
    fn add(&self, sums: Sums, steps: &Range<usize>, run: RunTerms, wanted: Wanted) -> Sums {
        let RunTerms { gates, of_hidden, previous } = run;
        let kernels = self.kernels;
        let (of_input, of_bias) = match &self.input {
            RecurrentInput::Vectors(input) => {
                let of_input = wanted[1].then(|| StepRange { of: input.clone(), steps: steps.clone() });
                (of_input, [wanted[3], wanted[4]])
            }
            // Those come from the products of all tokens.
            RecurrentInput::Tokens { .. } => (None, [false; 2]),
        };
        let of_previous = wanted[2].then(|| StepRange { of: previous, steps: 0..steps.len() });
        let terms = |left, rights, rows| RowTerms { left, rights, rows, dtype: self.dtype };
        let Some(products) = of_hidden else {
            let terms = terms(gates, [of_input, of_previous], of_bias.contains(&true));
            return Sums { of_gates: sums.of_gates.add(terms, kernels), ..sums };
        };
        let of_gates = sums.of_gates.add(terms(gates, [of_input, None], of_bias[0]), kernels);
        let products = terms(products, [None, of_previous], wanted[4]);
        let of_products = sums.of_products.unwrap_or_default().add(products, kernels);
        Sums { of_gates, of_products: Some(of_products) }
    }
}

/// The gradients of a run, as far as those of the parameters need them.
struct RunTerms {
    gates: Tensor<3>,
    of_hidden: Option<Tensor<3>>,
    previous: Tensor<3>,
}

/// Sums over the rows of all runs: the gradients of weights and biases.
#[derive(Default)]
struct Sums {
    of_gates: RowSums,
    /// Those of the hidden units' products, where their gradient is not that of the gates.
    of_products: Option<RowSums>,
}

impl Sums {
    /// The gradients of both weights and both biases, if wanted.
    fn finish(self) -> [Option<AnyTensor>; 4] {
        let RowSums { products: [of_input, of_hidden], rows } = self.of_gates;
        let (of_hidden, of_bias) = match self.of_products {
            Some(RowSums { products: [_, of_hidden], rows }) => (of_hidden, rows),
            None => (of_hidden, rows.clone()),
        };
        let [of_input, of_hidden] = [of_input, of_hidden].map(|sum| sum.map(AnyTensor::from));
        let [bias_ih, bias_hh] = [rows, of_bias].map(|sum| sum.map(AnyTensor::from));
        [of_input, of_hidden, bias_ih, bias_hh]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_of_about_the_root_and_leave_nothing_out() {
        let of_root = |steps| runs(0..steps, length_of_runs(steps));
        assert!(of_root(1).eq(std::iter::once(0..1)));
        assert!(of_root(7).eq([0..3, 3..6, 6..7]));
        assert_eq!(of_root(1024).count(), 32);
    }
}
