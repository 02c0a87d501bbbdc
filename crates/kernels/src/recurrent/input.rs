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

/// Writes the input gradient by our own kernel: in place, if nobody else holds the sequence.
pub(super) fn backward(
    whole: Tensor<3>,
    gates: Tensor<3>,
    steps: &Range<usize>,
    of_input: &RecurrentMatrix,
) -> Tensor<3> {
    let dims @ [batch, all_steps, features] = whole.dims();
    let dtype = whole.dtype();
    let samples = (ROWS / steps.len().max(1)).clamp(1, batch.max(1));
    let rows = samples * steps.len();
    let workspace = Workspace {
        of_each: of_input.sizes.elements_beside(rows) + rows * features,
        tasks: batch.div_ceil(samples),
        ..Workspace::default()
    };
    let operation = CustomOp {
        name: "lstm_input_backward",
        inputs: vec![whole.into(), gates.into(), of_input.packed().into()],
        outputs: vec![(dims.to_vec(), dtype)],
        in_place: 1,
    };
    let run = InputRun { all_steps, steps: steps.clone(), samples, of_input, workspace };
    let [made] = operation.run_within(workspace, |mut inputs| {
        let rest = inputs.split_off(1);
        let [gates, matrix] = [0, 1].map(|index| floats(&rest[index]));
        by_dtype!(dtype, E => run.on(E::storage(&mut inputs[0]), gates, matrix));
        inputs
    });
    ranked(made)
}

struct InputRun<'a> {
    all_steps: usize,
    steps: Range<usize>,
    /// Samples of a task.
    samples: usize,
    of_input: &'a RecurrentMatrix,
    workspace: Workspace,
}

impl InputRun<'_> {
    fn on<E: StoredFloat>(&self, whole: &mut [E], gates: &[f32], matrix: &[f32]) {
        let (features, steps) = (self.of_input.sizes.columns, self.steps.len());
        let matrix = &Factor::new(matrix, self.of_input.sizes);
        let gates = gates.chunks((self.samples * steps * self.of_input.sizes.inner).max(1));
        let tasks = whole.chunks_mut((self.samples * self.all_steps * features).max(1)).zip(gates);
        workers::each(tasks, self.workspace, |(whole, gates), workspace| {
            vectorised(InputSamples { matrix, whole, gates, run: self, workspace });
        });
    }
}

/// Some samples.
struct InputSamples<'a, E> {
    matrix: &'a Factor<'a>,
    /// All steps of the samples.
    whole: &'a mut [E],
    /// The gradients of the gates of the run.
    gates: &'a [f32],
    run: &'a InputRun<'a>,
    workspace: &'a mut [f32],
}

impl<E: StoredFloat> SimdLoops for InputSamples<'_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { matrix, whole, gates, run, workspace } = self;
        let FactorSizes { inner, columns: features, .. } = run.of_input.sizes;
        let (count, steps) = (gates.len() / inner, run.steps.len());
        let (sums, beside) = workspace.split_at_mut(run.samples * steps * features);
        let sums = &mut sums[..count * features];
        let put = matrix.sizes.put_rows_of(|row| &gates[row * inner..][..inner]);
        matrix.multiply(count, put, OutputRows { elements: &mut *sums, stride: features }, beside, false);
        let samples = whole.chunks_exact_mut(run.all_steps * features);
        for (sample, sums) in samples.zip(sums.chunks_exact(steps * features)) {
            let to = &mut sample[run.steps.start * features..];
            to.iter_mut().zip(sums).for_each(|(to, sum)| *to = E::rounded(*sum));
        }
    }
}
