//! A run of time steps of an LSTM layer, forward and backward. Its states are hidden units and cell.
//!
//! Letters: B batch, T steps of the sequence, k of the run, I features of the input, U hidden units. Gates are i, f, g, o
//! side by side, U each.

mod cell;
mod composed;
mod on_gpu;

use burn::tensor::Tensor;
use burn_backend::DType;

use crate::{
    cast::cast,
    kernels::Kernels,
    recurrent::{
        LayerCell, RecurrentMatrix, RunEnd, RunGradients, RunInput, RunStart, RunSteps,
        backward::own as own_backward, composed::forward as composed_forward, forward::own as own_forward,
    },
};

use cell::LstmCell;

/// The kernels for a layer of so many hidden units: composed, where those of a GPU have no room for them.
pub fn lstm_kernels(units: usize, kernels: Kernels) -> Kernels {
    match kernels {
        Kernels::Gpu if units > oomph_gpu_kernels::MOST_LSTM_UNITS => Kernels::Composed,
        Kernels::Cpu | Kernels::Gpu | Kernels::Composed => kernels,
    }
}

/// Runs k steps forward. `recurrent` are the weights of the hidden units. The bias of `start`, `[4U]`, is the sum of both biases. A GPU reads tokens by Burn's operations.
pub fn lstm_forward(start: RunStart<2>, recurrent: &RecurrentMatrix, kernels: Kernels) -> RunSteps<2> {
    let made = match (kernels, &start.input) {
        (Kernels::Cpu, _) => own_forward::<LstmCell, 2>(start, recurrent),
        (Kernels::Gpu, RunInput::Sequence { values, weights }) => {
            let (input, weights) = (values.clone(), weights.clone());
            on_gpu::forward(input, &weights, start, recurrent)
        }
        _ => composed_forward(start, recurrent, composed::step),
    };
    // The gates are rounded to this format already, so that backward computes the same cells again.
    let gates = made.gates.into_iter().map(|gates| cast(gates, recurrent.dtype, kernels)).collect();
    RunSteps { gates, ..made }
}

/// A layer of long short-term memory. The bias is the sum of both biases.
#[derive(Debug)]
pub struct LstmLayer;

impl LayerCell<2> for LstmLayer {
    type Factors = RecurrentMatrix;

    fn kernels(units: usize, kernels: Kernels) -> Kernels {
        lstm_kernels(units, kernels)
    }

    fn bias([of_input, of_hidden]: [Tensor<1>; 2]) -> Tensor<1> {
        of_input + of_hidden
    }

    fn forward(start: RunStart<2>, recurrent: &RecurrentMatrix, kernels: Kernels) -> RunSteps<2> {
        lstm_forward(start, recurrent, kernels)
    }

    fn factors(
        weight: Tensor<2>,
        _bias: Tensor<1>,
        rows: usize,
        dtype: DType,
        kernels: Kernels,
    ) -> RecurrentMatrix {
        RecurrentMatrix::plain(weight, dtype, rows, kernels)
    }

    fn backward(end: RunEnd<2>, recurrent: &RecurrentMatrix, kernels: Kernels) -> RunGradients<2> {
        lstm_backward(end, recurrent, kernels)
    }
}

/// Goes backward through the steps of a run. `recurrent` is the matrix whose transpose forward multiplied by.
pub fn lstm_backward(end: RunEnd<2>, recurrent: &RecurrentMatrix, kernels: Kernels) -> RunGradients<2> {
    let widened = |end: RunEnd<2>| RunEnd { gates: cast(end.gates, DType::F32, kernels), ..end };
    match kernels {
        Kernels::Cpu => own_backward::<LstmCell, 2>(end, recurrent, None),
        Kernels::Gpu => on_gpu::backward(end, recurrent),
        Kernels::Composed => composed::backward(widened(end), recurrent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        recurrent::RunOutputs,
        truth::{distance, stored, values},
    };

    const FEATURES: usize = 37;

    /// Outputs and last states of a run, and the gradients of its gates and of the states before it.
    fn run([batch, steps, units]: [usize; 3], dtype: DType, kernels: Kernels) -> Vec<Vec<f64>> {
        let wide = DType::F32;
        let weight = |name, columns| stored::<2>(name, [4 * units, columns], wide) * 0.3;
        let [of_input, of_hidden] = [weight("ih", FEATURES), weight("hh", units)];
        let matrix = |weight, rows| RecurrentMatrix::transposed(weight, dtype, rows, kernels);
        let state = || [stored("h", [batch, units], dtype), stored("c", [batch, units], wide)];
        let state = || state().map(|state: Tensor<2>| cast(state, wide, Kernels::Composed));
        let start = RunStart {
            input: RunInput::Sequence {
                values: stored("x", [batch, steps, FEATURES], dtype),
                weights: matrix(of_input, batch * steps),
            },
            steps: 0..steps,
            run: steps,
            bias: stored("b", [4 * units], wide),
            state: state(),
            outputs: RunOutputs::New,
            keeps_gates: true,
        };
        let mut made = lstm_forward(start, &matrix(of_hidden.clone(), batch), kernels);
        let end = RunEnd {
            gates: made.gates.pop().expect("they are kept"),
            before: state(),
            steps: 0..steps,
            outputs: stored("upstream", [batch, steps, units], dtype),
            after: state(),
        };
        let back = RecurrentMatrix::plain(of_hidden, dtype, batch, kernels);
        let gradients = lstm_backward(end, &back, kernels);
        let mut all = vec![values(made.output.expect("outputs are asked for")), values(gradients.gates)];
        all.extend(made.state.into_iter().chain(gradients.state).map(values));
        all
    }

    const SHAPES: [[usize; 3]; 5] = [[1, 5, 3], [3, 4, 16], [17, 6, 33], [32, 8, 96], [70, 3, 64]];

    #[test]
    fn runs_are_those_of_burns_operations_in_either_format() {
        for (dtype, limit) in [(DType::F32, 2e-6), (DType::BF16, 2e-2)] {
            for shape in SHAPES {
                let [own, composed] =
                    [Kernels::Cpu, Kernels::Composed].map(|kernels| run(shape, dtype, kernels));
                for (own, composed) in own.iter().zip(&composed) {
                    let error = distance(own, composed);
                    assert!(error < limit, "{dtype:?} {shape:?}: {error}");
                }
            }
        }
    }

    #[test]
    fn bits_do_not_depend_on_the_number_of_threads() {
        for dtype in [DType::F32, DType::BF16] {
            for shape in SHAPES {
                let [one, three] = [1, 3].map(|threads| {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                    pool.expect("a pool of few threads").install(|| run(shape, dtype, Kernels::Cpu))
                });
                assert!(one == three, "{dtype:?} {shape:?}");
            }
        }
    }

    #[test]
    fn a_layer_too_wide_for_a_gpu_is_composed() {
        let most = oomph_gpu_kernels::MOST_LSTM_UNITS;
        assert_eq!(lstm_kernels(most, Kernels::Gpu), Kernels::Gpu);
        assert_eq!(lstm_kernels(most + 1, Kernels::Gpu), Kernels::Composed);
        assert_eq!(lstm_kernels(most + 1, Kernels::Cpu), Kernels::Cpu);
    }
}
