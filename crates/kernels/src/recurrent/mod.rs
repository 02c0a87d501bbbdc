//! What the kernels of recurrent layers share: runs of time steps, forward and backward. A cell says what happens in a step.
//!
//! Letters: B batch, T steps of the sequence, k of the run, I features of the input, U hidden units, G gates of a unit,
//! which stand side by side: U elements each.

pub(crate) mod backward;
pub(crate) mod cell;
pub(crate) mod composed;
mod factor;
pub(crate) mod forward;
mod layer;
mod layer_input;
mod matrix;
mod on_gpu;
mod products;
mod projection;
mod run;
mod tokens;

use std::ops::Range;

use burn::tensor::Tensor;
use gemm_common::cache::CACHE_INFO;

use crate::{cast::cast, custom_op::Workspace, kernels::Kernels, sequence::place_steps, workers};

pub use layer::{ForwardRuns, KeptRun, LayerCell, LayerGradients, SegmentedLayer, Wanted};
pub use layer_input::RecurrentInput;
pub use matrix::RecurrentMatrix;
pub(crate) use on_gpu::words;
pub use run::{RunEnd, RunGradients, RunInput, RunOutputs, RunStart, RunSteps};

/// Writes the products of `rows`, `[B, k, R]` in 32 bits, and a matrix into a run of steps of `whole`, `[B, T, C]`, and
/// returns `whole`. They are written in place, if nobody else holds `whole`. The gradient of a run's input is that of its gates
/// times the weights.
pub fn place_products(
    mut whole: Tensor<3>,
    rows: Tensor<3>,
    steps: &Range<usize>,
    matrix: &RecurrentMatrix,
    kernels: Kernels,
) -> Tensor<3> {
    match kernels {
        Kernels::Cpu => products::place(whole, rows, steps, matrix),
        Kernels::Gpu => on_gpu::place_products(whole, rows, steps, matrix),
        Kernels::Composed => {
            let [batch, count, width] = rows.dims();
            let rows = cast(rows.reshape([batch * count, width]), matrix.dtype, kernels);
            let columns = whole.dims()[2];
            let part = rows.matmul(matrix.tensor()).reshape([batch, count, columns]);
            place_steps(&mut whole, part, steps.start, kernels);
            whole
        }
    }
}

/// Rows of a batch for one task, in which each row is multiplied by a matrix at each step. They are whole tiles, and each thread has a
/// task. They are at least the work that a task is worth, and at most two tiles, whose factors fit into a core's first-level cache; but
/// [`ROWS`], whose gates fit into the second one, where the matrix comes from a cache that all cores share.
fn rows_of_a_task(batch: usize, steps: usize, recurrent: &RecurrentMatrix) -> usize {
    const WORTH_A_TASK: usize = 64 << 10;
    // A task reads the whole matrix at each step.
    let is_near = recurrent.sizes.elements() * size_of::<f32>() <= CACHE_INFO[1].cache_bytes / 2;
    let of_tile = recurrent.sizes.rows_of_tile();
    let most = if is_near { (2 * of_tile).min(ROWS) } else { ROWS };
    let work = (steps * recurrent.sizes.inner * recurrent.sizes.columns).max(1);
    let rows =
        batch.div_ceil(workers::threads()).max(WORTH_A_TASK.div_ceil(work)).clamp(1, batch.clamp(1, most));
    rows.next_multiple_of(of_tile).min(most / of_tile * of_tile)
}

/// Rows of a sequence that are multiplied by the input weights at once.
const ROWS: usize = 64;

/// The workspace to multiply the rows of a task by the recurrent weights, and by another matrix if there is one, whatever the number of
/// threads.
fn workspace(batch: usize, recurrent: &RecurrentMatrix, other: Option<&RecurrentMatrix>) -> Workspace {
    let of_tile = recurrent.sizes.rows_of_tile();
    let rows = batch.min(ROWS).next_multiple_of(of_tile);
    let beside = |matrix: &RecurrentMatrix| matrix.sizes.elements_beside(rows);
    let of_each = beside(recurrent).max(other.map_or(0, beside));
    Workspace { of_each, tasks: batch.div_ceil(of_tile), ..Workspace::default() }
}

/// The first `N` parts of `values`, of `units` elements each: the gates of a step, one after the other.
#[inline(always)]
pub(crate) fn parts_of<const N: usize>(values: &[f32], units: usize) -> [&[f32]; N] {
    std::array::from_fn(|part| &values[part * units..][..units])
}

/// The parts of all `N` vectors, of `of_each` elements each: the first of every vector, then the second, and so on.
fn chunks_of_all<const N: usize>(
    vectors: &mut [Vec<f32>; N],
    of_each: usize,
) -> impl Iterator<Item = [&mut [f32]; N]> + Send {
    let mut chunks = vectors.each_mut().map(|vector| vector.chunks_mut(of_each));
    std::iter::from_fn(move || {
        let next = chunks.each_mut().map(Iterator::next);
        next.iter().all(Option::is_some).then(|| next.map(Option::unwrap_or_default))
    })
}
