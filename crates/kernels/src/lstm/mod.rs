//! A run of time steps of an LSTM layer, forward and backward.
//!
//! Letters: B batch, T steps of the sequence, k of the run, I features of the input, U hidden units. Gates are i, f, g, o
//! side by side, U each.

mod backward;
mod cell;
mod composed;
mod forward;
mod input;
mod matrix;
mod on_gpu;
mod run;

use std::ops::Range;

use burn::tensor::Tensor;
use burn_backend::DType;

use crate::{cast::cast, custom_op::Workspace, kernels::Kernels, sequence::place_steps};

pub use matrix::LstmMatrix;
pub use run::{LstmEnd, LstmGradients, LstmOutputs, LstmStart, LstmSteps};

/// The kernels for a layer of so many hidden units: composed, where those of a GPU have no room for them.
pub fn lstm_kernels(units: usize, kernels: Kernels) -> Kernels {
    match kernels {
        Kernels::Gpu if units > oomph_gpu_kernels::MOST_LSTM_UNITS => Kernels::Composed,
        Kernels::Cpu | Kernels::Gpu | Kernels::Composed => kernels,
    }
}

/// Runs k steps forward. `of_input` are the weights of the inputs, and `recurrent` those of the hidden units.
pub fn lstm_forward(
    start: LstmStart,
    of_input: &LstmMatrix,
    recurrent: &LstmMatrix,
    kernels: Kernels,
) -> LstmSteps {
    let made = match kernels {
        Kernels::Cpu => forward::own(start, of_input, recurrent),
        Kernels::Gpu => on_gpu::forward(start, of_input, recurrent),
        Kernels::Composed => composed::forward(start, of_input, recurrent),
    };
    // The gates are rounded to this format already, so that backward computes the same cells again.
    LstmSteps { gates: made.gates.map(|gates| cast(gates, recurrent.dtype, kernels)), ..made }
}

/// Goes backward through the steps of a run. `recurrent` is the matrix whose transpose forward multiplied by.
pub fn lstm_backward(end: LstmEnd, recurrent: &LstmMatrix, kernels: Kernels) -> LstmGradients {
    let widened = |end: LstmEnd| LstmEnd { gates: cast(end.gates, DType::F32, kernels), ..end };
    match kernels {
        Kernels::Cpu => backward::own(widened(end), recurrent),
        Kernels::Gpu => on_gpu::backward(end, recurrent),
        Kernels::Composed => composed::backward(widened(end), recurrent),
    }
}

/// Writes the input gradient of a run of steps into `whole`, `[B, T, I]`, and returns `whole`. The gradient is that of
/// `gates`, `[B, k, 4U]`, times the weights. It is written in place, if nobody else holds `whole`.
pub fn lstm_input_backward(
    mut whole: Tensor<3>,
    gates: Tensor<3>,
    steps: &Range<usize>,
    of_input: &LstmMatrix,
    kernels: Kernels,
) -> Tensor<3> {
    match kernels {
        Kernels::Cpu => input::backward(whole, gates, steps, of_input),
        Kernels::Gpu => on_gpu::input_backward(whole, gates, steps, of_input),
        Kernels::Composed => {
            let [batch, count, width] = gates.dims();
            let gates = cast(gates.reshape([batch * count, width]), of_input.dtype, kernels);
            let features = whole.dims()[2];
            let part = gates.matmul(of_input.tensor()).reshape([batch, count, features]);
            place_steps(&mut whole, part, steps.start, kernels);
            whole
        }
    }
}

/// Rows of a batch for one task, in which each row is multiplied by a matrix at each step. They are whole tiles, and so few
/// that each thread has two tasks, and a thread on a slower core takes one; but at least the work that a task is worth,
/// and at most [`ROWS`], whose gates fit into a cache.
fn rows_of_a_task(batch: usize, steps: usize, recurrent: &LstmMatrix) -> usize {
    const WORTH_A_TASK: usize = 64 << 10;
    let tasks = 2 * rayon::current_num_threads().max(1);
    let work = (steps * recurrent.sizes.inner * recurrent.sizes.columns).max(1);
    let rows = batch.div_ceil(tasks).max(WORTH_A_TASK.div_ceil(work)).clamp(1, batch.clamp(1, ROWS));
    rows.next_multiple_of(recurrent.sizes.tile.rows)
}

/// Rows of a sequence that are multiplied by the input weights at once.
const ROWS: usize = 64;

/// The workspace: all rows of a batch times the recurrent weights, and `of_each` elements for each task.
fn workspace(batch: usize, recurrent: &LstmMatrix, of_each: usize) -> Workspace {
    let sizes = recurrent.sizes;
    let tasks = batch.div_ceil(sizes.tile.rows);
    Workspace { shared: sizes.elements_beside(batch), of_each, tasks, ..Workspace::default() }
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
