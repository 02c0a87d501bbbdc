//! A run of time steps of an LSTM layer.
//!
//! Letters: B batch, T steps of the sequence, k of the run, I features of the input, U hidden units. Gates are i, f, g, o
//! side by side, U each.

mod backward;
mod composed;
mod forward;
mod input;
mod matrix;

use std::ops::Range;

use burn::tensor::Tensor;
use burn_backend::DType;

use super::{Kernels, Workspace, cast, panels::Panelled, place_steps};
use crate::AnyTensor;

pub(crate) use matrix::Matrix;

/// A matrix in the format of products, `dtype`; on the CPU, where 16 bits are a format of storage, rounded to that and
/// wide again.
fn operand<const D: usize>(tensor: Tensor<D>, dtype: DType, kernels: Kernels) -> Tensor<D> {
    let narrow = cast(tensor, dtype, kernels);
    match kernels {
        Kernels::Own => cast(narrow, DType::F32, kernels),
        Kernels::Composed => narrow,
    }
}

/// What a run of steps starts from.
pub(crate) struct LstmStart {
    /// The whole sequence, `[B, T, I]`.
    pub(crate) input: Tensor<3>,
    /// The steps of the run.
    pub(crate) steps: Range<usize>,
    /// `[4U]`.
    pub(crate) bias: Tensor<1>,
    /// Hidden units and cell before the first step, `[B, U]` of 32 bits.
    pub(crate) state: [Tensor<2>; 2],
    pub(crate) outputs: Outputs,
    /// Whether the activated gates are wanted.
    pub(crate) keeps_gates: bool,
}

/// Where outputs are written, `[B, T, U]` in the format of products.
#[expect(clippy::large_enum_variant, reason = "it is handed on once a run of steps")]
pub(crate) enum Outputs {
    /// Nowhere: they are known.
    Known,
    /// Beside those of other runs.
    There(Tensor<3>),
    /// Where nothing was before: the run is the whole sequence.
    New,
}

impl Outputs {
    fn are_wanted(&self) -> bool {
        !matches!(self, Self::Known)
    }

    pub(crate) fn there(self) -> Option<Tensor<3>> {
        match self {
            Self::There(outputs) => Some(outputs),
            Self::Known | Self::New => None,
        }
    }
}

/// What a run of steps gives.
pub(crate) struct LstmSteps {
    /// The activated gates, `[B, k, 4U]`, in the format of products, where they are wanted.
    pub(crate) gates: Option<Tensor<3>>,
    /// All outputs, where they are wanted, with those of the run.
    pub(crate) output: Option<Tensor<3>>,
    /// Hidden units and cell after the last step, `[B, U]` of 32 bits.
    pub(crate) state: [Tensor<2>; 2],
}

/// Runs over k steps. `of_input` are the weights of the inputs, and `recurrent` those of the hidden units.
pub(crate) fn lstm_forward(
    start: LstmStart,
    of_input: &Matrix,
    recurrent: &Matrix,
    kernels: Kernels,
) -> LstmSteps {
    let made = match kernels {
        Kernels::Own => forward::own(start, of_input, recurrent),
        Kernels::Composed => composed::forward(start, of_input, recurrent),
    };
    // They are rounded to it already: cells must be the same when they are computed again of what is kept.
    LstmSteps { gates: made.gates.map(|gates| cast(gates, recurrent.dtype, kernels)), ..made }
}

/// What goes back through a run of steps.
pub(crate) struct LstmGradients {
    /// Of what the gates were activated of, `[B, k, 4U]` of 32 bits.
    pub(crate) gates: Tensor<3>,
    /// The hidden units before each step, `[B, k, U]` of 32 bits: what the gates' products were with.
    pub(crate) previous: Tensor<3>,
    /// Of hidden units and cell before the first step.
    pub(crate) state: [Tensor<2>; 2],
}

/// What a run of steps goes back from.
pub(crate) struct LstmEnd {
    /// The activated gates, `[B, k, 4U]`.
    pub(crate) gates: Tensor<3>,
    /// Hidden units and cell before the first step.
    pub(crate) before: [Tensor<2>; 2],
    /// The steps of the run.
    pub(crate) steps: Range<usize>,
    /// The gradient of all outputs, `[B, T, U]`.
    pub(crate) outputs: Tensor<3>,
    /// The gradient of hidden units and cell after the last step.
    pub(crate) after: [Tensor<2>; 2],
}

/// Goes back through the steps of a run. `recurrent` is what forward multiplied by the transpose of.
pub(crate) fn lstm_backward(end: LstmEnd, recurrent: &Matrix, kernels: Kernels) -> LstmGradients {
    let end = LstmEnd { gates: cast(end.gates, DType::F32, kernels), ..end };
    match kernels {
        Kernels::Own => backward::own(end, recurrent),
        Kernels::Composed => composed::backward(end, recurrent),
    }
}

/// Writes what goes back to the input of a run of steps to those of `whole`, `[B, T, I]`, and gives that: the gradients
/// of its `gates`, `[B, k, 4U]`, times the weights. In place, where nobody else holds that.
pub(crate) fn lstm_input_backward(
    mut whole: Tensor<3>,
    gates: Tensor<3>,
    steps: &Range<usize>,
    of_input: &Matrix,
    kernels: Kernels,
) -> Tensor<3> {
    match kernels {
        Kernels::Own => input::backward(whole, gates, steps, of_input),
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

/// Rows of a batch that one task takes, where a row is multiplied by a matrix at each step: whole tiles, and as few as
/// give each thread two, so that one whose core is slower does less, or all where a task would cost more than it does;
/// at most [`ROWS`], whose gates stay in a cache.
fn rows_of_a_task(batch: usize, steps: usize, recurrent: &Matrix) -> usize {
    const WORTH_A_TASK: usize = 64 << 10;
    let tasks = 2 * rayon::current_num_threads().max(1);
    let work = (steps * recurrent.inner * recurrent.columns).max(1);
    let rows = batch.div_ceil(tasks).max(WORTH_A_TASK.div_ceil(work)).clamp(1, batch.clamp(1, ROWS));
    rows.next_multiple_of(recurrent.sizes().rows_of_a_tile())
}

/// Rows of a sequence that are multiplied at once by the weights of the input.
const ROWS: usize = 64;

/// What is multiplied: of all rows of a batch by the recurrent weights, and of each task, which has some rows of a run,
/// by the weights of the input.
fn workspace(batch: usize, recurrent: Panelled, of_input: Option<Panelled>) -> Workspace {
    Workspace {
        shared: recurrent.elements_beside(batch),
        of_each: of_input.map_or(0, |of_input| of_input.elements_beside(ROWS)),
        tasks: batch.div_ceil(recurrent.rows_of_a_tile()),
    }
}

/// `[B, k, F]`.
fn sequence(output: AnyTensor) -> Tensor<3> {
    // Operations know the rank of what they make.
    output.float().expect("a sequence has rank 3")
}

/// `[B, U]`.
fn state_of(output: AnyTensor) -> Tensor<2> {
    // Operations know the rank of what they make.
    output.float().expect("a state has rank 2")
}
