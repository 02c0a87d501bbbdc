//! A run of time steps of an LSTM layer.
//!
//! Letters: B batch, k steps of the run, U hidden units. Gates are i, f, g, o side by side, U each.

mod backward;
mod composed;
mod forward;

use burn::tensor::Tensor;
use burn_backend::DType;

use super::{
    Kernels, Own, Workspace, cast,
    panels::Panelled,
};

/// A matrix in the format of products, `dtype`; on the CPU, where 16 bits are a format of storage, rounded to that and
/// wide again.
pub(crate) fn operand<const D: usize>(tensor: Tensor<D>, dtype: DType, kernels: Kernels) -> Tensor<D> {
    let narrow = cast(tensor, dtype, kernels);
    match kernels {
        Kernels::Own => cast(narrow, DType::F32, kernels),
        Kernels::Composed => narrow,
    }
}

/// The recurrent weights, as products of a pass want them.
pub(crate) struct Recurrent {
    /// The matrix that a row is multiplied by, or its panels.
    matrix: Matrix,
    units: usize,
    /// The format of products.
    dtype: DType,
}

enum Matrix {
    Panels(Tensor<1>),
    Plain(Tensor<2>),
}

impl Recurrent {
    /// From hidden units to gates. `weight` is `[4U, U]`.
    pub(crate) fn forward(weight: Tensor<2>, dtype: DType, kernels: Kernels) -> Self {
        Self::new(weight, dtype, kernels, true)
    }

    /// From gates back to hidden units.
    pub(crate) fn backward(weight: Tensor<2>, dtype: DType, kernels: Kernels) -> Self {
        Self::new(weight, dtype, kernels, false)
    }

    fn new(weight: Tensor<2>, dtype: DType, kernels: Kernels, transposed: bool) -> Self {
        let [_, units] = weight.dims();
        let weight = operand(weight, dtype, kernels);
        let matrix = match kernels {
            Kernels::Own => Matrix::Panels(in_panels(weight, transposed)),
            Kernels::Composed if transposed => Matrix::Plain(weight.transpose()),
            Kernels::Composed => Matrix::Plain(weight),
        };
        Self { matrix, units, dtype }
    }
}

/// `weight` of `[4U, U]`, or that transposed, in panels.
fn in_panels(weight: Tensor<2>, transposed: bool) -> Tensor<1> {
    let [gates, units] = weight.dims();
    let sizes = if transposed { Panelled::new(units, gates) } else { Panelled::new(gates, units) };
    let operation = Own {
        name: "matrix_panels",
        outputs: vec![(vec![sizes.elements()], DType::F32)],
        inputs: vec![weight.into()],
        in_place: false,
    };
    operation.run_one(|inputs| {
        let weight: &[f32] = inputs[0].storage();
        if transposed { sizes.of_columns(weight) } else { sizes.of_rows(weight) }
    })
}

/// What a run of steps gives.
pub(crate) struct LstmSteps {
    /// The activated gates, `[B, k, 4U]`, in the format of products.
    pub(crate) gates: Tensor<3>,
    /// The outputs, `[B, k, U]`.
    pub(crate) hidden: Tensor<3>,
    /// Hidden units and cell after the last step, `[B, U]` of 32 bits.
    pub(crate) state: [Tensor<2>; 2],
}

/// Runs over k steps from `state`. `projected` are what the inputs give to the gates, `[B, k, 4U]`, and `bias`, `[4U]`,
/// what is added to them: of 32 bits, as is all but products, gates and hidden units.
pub(crate) fn lstm_forward(
    projected: Tensor<3>,
    bias: Tensor<1>,
    state: [Tensor<2>; 2],
    recurrent: &Recurrent,
    kernels: Kernels,
) -> LstmSteps {
    let made = match &recurrent.matrix {
        Matrix::Panels(panels) => forward::own(projected, bias, state, panels.clone(), recurrent),
        Matrix::Plain(matrix) => composed::forward(projected, bias, state, matrix, recurrent),
    };
    // They are rounded to it already: cells must be the same when they are computed again of what is kept.
    LstmSteps { gates: cast(made.gates, recurrent.dtype, kernels), ..made }
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

/// Goes back through the steps of which `gates` are the activated gates, and which started from the state `before`.
/// `outputs` is the gradient of the outputs of each step, `[B, k, U]`, and `after` that of the state after the last.
pub(crate) fn lstm_backward(
    gates: Tensor<3>,
    before: [Tensor<2>; 2],
    outputs: Tensor<3>,
    after: [Tensor<2>; 2],
    recurrent: &Recurrent,
    kernels: Kernels,
) -> LstmGradients {
    let [gates, outputs] = [gates, outputs].map(|tensor| cast(tensor, DType::F32, kernels));
    match &recurrent.matrix {
        Matrix::Panels(panels) => backward::own(gates, before, outputs, after, panels.clone(), recurrent),
        Matrix::Plain(matrix) => composed::backward(gates, before, outputs, after, matrix, recurrent),
    }
}

/// Rows of a batch that one task takes, where a row is multiplied by a matrix at each step: whole tiles, and as few as
/// keep all threads busy, or all where a task would cost more than it does.
fn rows_of_a_task(batch: usize, steps: usize, units: usize, matrix: Panelled) -> usize {
    const WORTH_A_TASK: usize = 64 << 10;
    let threads = rayon::current_num_threads().max(1);
    let work = (steps * 4 * units * units).max(1);
    let rows = batch.div_ceil(threads).max(WORTH_A_TASK.div_ceil(work)).clamp(1, batch.max(1));
    rows.next_multiple_of(matrix.rows_of_a_tile())
}

/// What is multiplied, of all rows of a batch.
fn workspace(batch: usize, matrix: Panelled) -> Workspace {
    Workspace { shared: matrix.elements_beside(batch), ..Workspace::default() }
}
