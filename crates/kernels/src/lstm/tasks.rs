use super::matrix::LstmMatrix;
use crate::{panels::Panelled, workspace::Workspace};

/// Rows of a batch for one task, in which each row is multiplied by a matrix at each step. They are whole tiles, and so few
/// that each thread has two tasks, and a thread on a slower core takes one; but at least the work that a task is worth,
/// and at most [`ROWS`], whose gates fit into a cache.
pub(super) fn rows_of_a_task(batch: usize, steps: usize, recurrent: &LstmMatrix) -> usize {
    const WORTH_A_TASK: usize = 64 << 10;
    let tasks = 2 * rayon::current_num_threads().max(1);
    let work = (steps * recurrent.inner * recurrent.columns).max(1);
    let rows = batch.div_ceil(tasks).max(WORTH_A_TASK.div_ceil(work)).clamp(1, batch.clamp(1, ROWS));
    rows.next_multiple_of(recurrent.sizes().rows_of_a_tile())
}

/// Rows of a sequence that are multiplied by the input weights at once.
pub(super) const ROWS: usize = 64;

/// The workspace: all rows of a batch times the recurrent weights, and for each task some rows of a run times the input
/// weights.
pub(super) fn workspace(batch: usize, recurrent: Panelled, of_input: Option<Panelled>) -> Workspace {
    Workspace {
        shared: recurrent.elements_beside(batch),
        of_each: of_input.map_or(0, |of_input| of_input.elements_beside(ROWS)),
        tasks: batch.div_ceil(recurrent.rows_of_a_tile()),
    }
}
