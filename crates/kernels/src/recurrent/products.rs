use std::ops::Range;

use burn::tensor::Tensor;

use super::{
    ROWS,
    factor::{Factor, FactorSizes},
    matrix::RecurrentMatrix,
};
use crate::{
    any_tensor::ranked,
    custom_op::{CustomOp, Workspace},
    flex_tensor::floats,
    panels::OutputRows,
    simd::{SimdLoops, vectorised},
    stored_float::{StoredFloat, by_dtype},
    workers,
};

/// Writes the products by our own kernel: in place, if nobody else holds the sequence.
pub(super) fn place(
    whole: Tensor<3>,
    rows: Tensor<3>,
    steps: &Range<usize>,
    matrix: &RecurrentMatrix,
) -> Tensor<3> {
    let dims @ [batch, all_steps, columns] = whole.dims();
    let dtype = whole.dtype();
    let most = (ROWS / steps.len().max(1)).clamp(1, batch.max(1));
    let at_once = most * steps.len();
    let workspace = Workspace {
        of_each: matrix.sizes.elements_beside(at_once) + at_once * columns,
        tasks: batch,
        ..Workspace::default()
    };
    let operation = CustomOp {
        name: "lstm_input_backward",
        inputs: vec![whole.into(), rows.into(), matrix.packed().into()],
        outputs: vec![(dims.to_vec(), dtype)],
        in_place: 1,
    };
    // Each thread has a task.
    let samples = most.min(batch.div_ceil(workers::threads()).max(1));
    let run = ProductsRun { all_steps, steps: steps.clone(), samples, matrix, workspace };
    let [made] = operation.run_within(workspace, |mut inputs| {
        let rest = inputs.split_off(1);
        let [rows, matrix] = [0, 1].map(|index| floats(&rest[index]));
        by_dtype!(dtype, E => run.on(E::storage(&mut inputs[0]), rows, matrix));
        inputs
    });
    ranked(made)
}

struct ProductsRun<'a> {
    all_steps: usize,
    steps: Range<usize>,
    /// Samples of a task.
    samples: usize,
    matrix: &'a RecurrentMatrix,
    workspace: Workspace,
}

impl ProductsRun<'_> {
    fn on<E: StoredFloat>(&self, whole: &mut [E], rows: &[f32], matrix: &[f32]) {
        let (FactorSizes { inner, columns, .. }, steps) = (self.matrix.sizes, self.steps.len());
        let matrix = &Factor::new(matrix, self.matrix.sizes);
        let rows = rows.chunks((self.samples * steps * inner).max(1));
        let tasks = whole.chunks_mut((self.samples * self.all_steps * columns).max(1)).zip(rows);
        workers::each(tasks, self.workspace, |(whole, rows), workspace| {
            vectorised(SampleProducts { matrix, whole, rows, run: self, workspace });
        });
    }
}

/// Some samples.
struct SampleProducts<'a, E> {
    matrix: &'a Factor<'a>,
    /// All steps of the samples.
    whole: &'a mut [E],
    /// The rows of the run.
    rows: &'a [f32],
    run: &'a ProductsRun<'a>,
    workspace: &'a mut [f32],
}

impl<E: StoredFloat> SimdLoops for SampleProducts<'_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { matrix, whole, rows, run, workspace } = self;
        let FactorSizes { inner, columns, .. } = run.matrix.sizes;
        let (count, steps) = (rows.len() / inner, run.steps.len());
        let (sums, beside) = workspace.split_at_mut(count * columns);
        let put = matrix.sizes.put_rows_of(|row| &rows[row * inner..][..inner]);
        matrix.multiply(count, put, OutputRows { elements: &mut *sums, stride: columns }, beside, false);
        let samples = whole.chunks_exact_mut(run.all_steps * columns);
        for (sample, sums) in samples.zip(sums.chunks_exact(steps * columns)) {
            let to = &mut sample[run.steps.start * columns..];
            to.iter_mut().zip(sums).for_each(|(to, sum)| *to = E::rounded(*sum));
        }
    }
}
