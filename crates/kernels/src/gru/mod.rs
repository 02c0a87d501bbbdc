//! A run of time steps of a GRU layer, forward and backward. Its state is that of the hidden units.
//!
//! Letters: B batch, T steps of the sequence, k of the run, I features of the input, U hidden units. Gates are r, z, n side by
//! side, U each, as in PyTorch. r multiplies q, the product of the hidden units with the last third of their weights, after
//! the bias. So the gradient of q is not that of n, and backward computes q again from r, z and n.

mod cell;
mod composed;

use burn::tensor::Tensor;
use burn_backend::DType;

use crate::{
    cast::cast,
    kernels::Kernels,
    recurrent::{
        LayerCell, RecurrentMatrix, RunEnd, RunGradients, RunStart, RunSteps,
        backward::{Again, own as own_backward},
        composed::forward as composed_forward,
        forward::own as own_forward,
    },
};

use cell::GruCell;

/// The kernels for a layer: composed on a GPU, which has no kernel of a GRU.
pub fn gru_kernels(kernels: Kernels) -> Kernels {
    match kernels {
        Kernels::Gpu | Kernels::Composed => Kernels::Composed,
        Kernels::Cpu => Kernels::Cpu,
    }
}

/// Runs k steps forward. `recurrent` are the weights of the hidden units. The bias of `start`, `[6U]`, is that of the inputs and then that of the hidden units.
pub fn gru_forward(start: RunStart<1>, recurrent: &RecurrentMatrix, kernels: Kernels) -> RunSteps<1> {
    let kernels = gru_kernels(kernels);
    let made = match kernels {
        Kernels::Cpu => own_forward::<GruCell, 1>(start, recurrent),
        Kernels::Gpu | Kernels::Composed => composed_forward(start, recurrent, composed::step),
    };
    // The gates are rounded to this format already, so that backward computes the same hidden units again.
    let gates = made.gates.into_iter().map(|gates| cast(gates, recurrent.dtype, kernels)).collect();
    RunSteps { gates, ..made }
}

/// The factors of a backward pass, which are those of all runs of a sequence.
#[derive(Debug)]
pub struct GruBack {
    /// The matrix whose transpose forward multiplied by.
    recurrent: RecurrentMatrix,
    /// Those of q.
    candidate: Again,
}

impl GruBack {
    /// The factors of a layer with these weights of hidden units, `[3U, U]`, and this bias, `[6U]`, for so many rows of a batch.
    pub fn new(weight: Tensor<2>, bias: Tensor<1>, dtype: DType, rows: usize, kernels: Kernels) -> Self {
        let kernels = gru_kernels(kernels);
        let [_, units] = weight.dims();
        let of_candidate = weight.clone().narrow(0, 2 * units, units);
        Self {
            recurrent: RecurrentMatrix::plain(weight, dtype, rows, kernels),
            candidate: Again {
                matrix: RecurrentMatrix::transposed(of_candidate, dtype, rows, kernels),
                bias: bias.narrow(0, 5 * units, units),
            },
        }
    }
}

/// A layer of gated recurrent units. The bias is that of the inputs and then that of the hidden units.
#[derive(Debug)]
pub struct GruLayer;

impl LayerCell<1> for GruLayer {
    type Factors = GruBack;

    fn kernels(_units: usize, kernels: Kernels) -> Kernels {
        gru_kernels(kernels)
    }

    fn bias(biases: [Tensor<1>; 2]) -> Tensor<1> {
        Tensor::cat(biases.to_vec(), 0)
    }

    fn forward(start: RunStart<1>, recurrent: &RecurrentMatrix, kernels: Kernels) -> RunSteps<1> {
        gru_forward(start, recurrent, kernels)
    }

    fn factors(weight: Tensor<2>, bias: Tensor<1>, rows: usize, dtype: DType, kernels: Kernels) -> GruBack {
        GruBack::new(weight, bias, dtype, rows, kernels)
    }

    fn backward(end: RunEnd<1>, factors: &GruBack, kernels: Kernels) -> RunGradients<1> {
        gru_backward(end, factors, kernels)
    }
}

/// Goes backward through the steps of a run.
pub fn gru_backward(end: RunEnd<1>, back: &GruBack, kernels: Kernels) -> RunGradients<1> {
    let kernels = gru_kernels(kernels);
    let GruBack { recurrent, candidate } = back;
    match kernels {
        Kernels::Cpu => own_backward::<GruCell, 1>(end, recurrent, Some(candidate)),
        Kernels::Gpu | Kernels::Composed => {
            let end = RunEnd { gates: cast(end.gates, DType::F32, kernels), ..end };
            composed::backward(end, recurrent, candidate)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        recurrent::{RunInput, RunOutputs},
        truth::{distance, stored, values},
    };

    const FEATURES: usize = 5;

    /// A layer in 64 bits, and a sequence.
    struct Truth {
        steps: usize,
        units: usize,
        /// x, h₀, W_ih, W_hh and the biases, which are one tensor.
        tensors: [Vec<f64>; 5],
    }

    impl Truth {
        fn new(inputs: &Inputs, [steps, units]: [usize; 2]) -> Self {
            let Inputs { input, hidden, weights: [of_input, of_hidden], bias } = inputs.clone();
            let tensors = [values(input), values(hidden), values(of_input), values(of_hidden), values(bias)];
            Self { steps, units, tensors }
        }

        /// The hidden units after each step of a row.
        fn outputs(&self, row: usize) -> Vec<f64> {
            let [input, hidden, of_input, of_hidden, bias] = &self.tensors;
            let units = self.units;
            let product = |weight: &[f64], values: &[f64], gate: usize, bias: f64| {
                let weight = &weight[gate * values.len()..][..values.len()];
                bias + weight.iter().zip(values).map(|(weight, value)| weight * value).sum::<f64>()
            };
            let sigmoid = |value: f64| 1.0 / (1.0 + (-value).exp());
            let mut hidden = hidden[row * units..][..units].to_vec();
            let mut outputs = Vec::new();
            for step in 0..self.steps {
                let input = &input[(row * self.steps + step) * FEATURES..][..FEATURES];
                let next = |unit: usize| {
                    let [r, z, n] = [0, 1, 2].map(|gate| {
                        let at = gate * units + unit;
                        let of_hidden = product(of_hidden, &hidden, at, bias[3 * units + at]);
                        (product(of_input, input, at, bias[at]), of_hidden)
                    });
                    let (r, z) = (sigmoid(r.0 + r.1), sigmoid(z.0 + z.1));
                    (1.0 - z) * (n.0 + r * n.1).tanh() + z * hidden[unit]
                };
                hidden = (0..units).map(next).collect();
                outputs.extend_from_slice(&hidden);
            }
            outputs
        }

        /// The change of the outputs, weighted by `weights`, for each unit of h₀: by central differences.
        fn gradient_of_hidden(&mut self, row: usize, weights: &[f64]) -> Vec<f64> {
            const MOVE: f64 = 1e-6;
            let units = self.units;
            let mut loss = |at: usize, by: f64| {
                self.tensors[1][at] += by;
                let outputs = self.outputs(row);
                self.tensors[1][at] -= by;
                outputs.iter().zip(weights).map(|(output, weight)| output * weight).sum::<f64>()
            };
            let at = row * units..(row + 1) * units;
            at.map(|at| (loss(at, MOVE) - loss(at, -MOVE)) / (2.0 * MOVE)).collect()
        }
    }

    #[derive(Clone)]
    struct Inputs {
        input: Tensor<3>,
        hidden: Tensor<2>,
        weights: [Tensor<2>; 2],
        bias: Tensor<1>,
    }

    impl Inputs {
        fn new([batch, steps, units]: [usize; 3]) -> Self {
            let small = |name, columns| stored::<2>(name, [3 * units, columns], DType::F32) * 0.4;
            Self {
                input: stored("x", [batch, steps, FEATURES], DType::F32),
                hidden: stored("h", [batch, units], DType::F32),
                weights: [small("ih", FEATURES), small("hh", units)],
                bias: stored("b", [6 * units], DType::F32),
            }
        }

        /// The outputs, and the gradients of a run: of h₀, of the input's products and of the hidden units' products.
        fn run(&self, upstream: &Tensor<3>, kernels: Kernels) -> [Vec<f64>; 4] {
            let [batch, steps, _] = self.input.dims();
            let steps = 0..steps;
            let [of_input, recurrent] = self
                .weights
                .clone()
                .map(|weight| RecurrentMatrix::transposed(weight, DType::F32, batch, kernels));
            let start = RunStart {
                input: RunInput::Sequence { values: self.input.clone(), weights: of_input },
                steps: steps.clone(),
                run: steps.len(),
                bias: self.bias.clone(),
                state: [self.hidden.clone()],
                outputs: RunOutputs::New,
                keeps_gates: true,
            };
            let RunSteps { mut gates, output, .. } = gru_forward(start, &recurrent, kernels);
            let back = GruBack::new(self.weights[1].clone(), self.bias.clone(), DType::F32, batch, kernels);
            let end = RunEnd {
                gates: gates.pop().unwrap(),
                before: [self.hidden.clone()],
                steps,
                outputs: upstream.clone(),
                after: [self.hidden.clone() * 0.0],
            };
            let RunGradients { gates, of_hidden, state: [hidden], .. } = gru_backward(end, &back, kernels);
            [values(output.unwrap()), values(hidden), values(gates), values(of_hidden.unwrap())]
        }
    }

    #[test]
    fn runs_are_those_of_64_bits_by_our_kernel_and_by_burns_operations() {
        for shape @ [batch, steps, units] in [[1, 1, 3], [3, 7, 5], [17, 12, 16], [70, 9, 33]] {
            let inputs = Inputs::new(shape);
            let upstream = stored("upstream", [batch, steps, units], DType::F32);
            let weights = values(upstream.clone());
            let mut truth = Truth::new(&inputs, [steps, units]);
            let outputs: Vec<f64> = (0..batch).flat_map(|row| truth.outputs(row)).collect();
            let of_hidden: Vec<f64> = (0..batch)
                .flat_map(|row| {
                    truth.gradient_of_hidden(row, &weights[row * steps * units..][..steps * units])
                })
                .collect();
            let [own, composed] =
                [Kernels::Cpu, Kernels::Composed].map(|kernels| inputs.run(&upstream, kernels));
            for (name, found) in [("own", &own), ("composed", &composed)] {
                let errors = [distance(&found[0], &outputs), distance(&found[1], &of_hidden)];
                assert!(errors.iter().all(|error| *error < 2e-6), "{name} {shape:?}: {errors:?}");
            }
            for (own, composed) in own.iter().zip(&composed) {
                assert!(distance(own, composed) < 2e-6, "{shape:?}: {}", distance(own, composed));
            }
        }
    }

    /// Weights that go by vectors, and a candidate's that goes by the matrix unit where there is one.
    #[test]
    fn a_wide_layer_goes_back_through_both_kinds_of_products() {
        let shape = [16, 2, 256];
        let inputs = Inputs::new(shape);
        let upstream = stored("upstream", shape, DType::F32);
        let [own, composed] = [Kernels::Cpu, Kernels::Composed].map(|kernels| inputs.run(&upstream, kernels));
        for (own, composed) in own.iter().zip(&composed) {
            assert!(distance(own, composed) < 2e-6, "{}", distance(own, composed));
        }
    }

    #[test]
    fn a_gpu_has_burns_operations() {
        assert_eq!(gru_kernels(Kernels::Gpu), Kernels::Composed);
        assert_eq!(gru_kernels(Kernels::Cpu), Kernels::Cpu);
    }
}
