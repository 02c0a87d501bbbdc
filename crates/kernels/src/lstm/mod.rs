//! A run of time steps of an LSTM layer, forward and backward. Its states are hidden units and cell.
//!
//! Letters: B batch, T steps of the sequence, k of the run, I features of the input, U hidden units. Gates are i, f, g, o
//! side by side, U each.

mod cell;
mod composed;
mod on_gpu;

use burn_backend::DType;

use crate::{
    cast::cast,
    kernels::Kernels,
    recurrent::{
        RecurrentMatrix, RunEnd, RunGradients, RunStart, RunSteps, backward::own as own_backward,
        composed::forward as composed_forward, forward::own as own_forward,
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

/// Runs k steps forward. `of_input` are the weights of the inputs, and `recurrent` those of the hidden units. The bias of
/// `start`, `[4U]`, is the sum of both biases.
pub fn lstm_forward(
    start: RunStart<2>,
    of_input: &RecurrentMatrix,
    recurrent: &RecurrentMatrix,
    kernels: Kernels,
) -> RunSteps<2> {
    let made = match kernels {
        Kernels::Cpu => own_forward::<LstmCell, 2>(start, of_input, recurrent),
        Kernels::Gpu => on_gpu::forward(start, of_input, recurrent),
        Kernels::Composed => composed_forward(start, of_input, recurrent, composed::step),
    };
    // The gates are rounded to this format already, so that backward computes the same cells again.
    RunSteps { gates: made.gates.map(|gates| cast(gates, recurrent.dtype, kernels)), ..made }
}

/// Goes backward through the steps of a run. `recurrent` is the matrix whose transpose forward multiplied by.
pub fn lstm_backward(end: RunEnd<2>, recurrent: &RecurrentMatrix, kernels: Kernels) -> RunGradients<2> {
    let widened = |end: RunEnd<2>| RunEnd { gates: cast(end.gates, DType::F32, kernels), ..end };
    match kernels {
        Kernels::Cpu => own_backward::<LstmCell, 2>(widened(end), recurrent, None),
        Kernels::Gpu => on_gpu::backward(end, recurrent),
        Kernels::Composed => composed::backward(widened(end), recurrent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_too_wide_for_a_gpu_is_composed() {
        let most = oomph_gpu_kernels::MOST_LSTM_UNITS;
        assert_eq!(lstm_kernels(most, Kernels::Gpu), Kernels::Gpu);
        assert_eq!(lstm_kernels(most + 1, Kernels::Gpu), Kernels::Composed);
        assert_eq!(lstm_kernels(most + 1, Kernels::Cpu), Kernels::Cpu);
    }
}
