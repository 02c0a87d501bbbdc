use std::{marker::PhantomData, ops::Range};

use burn::tensor::Tensor;
use burn_backend::{DType, TensorMetadata};
use burn_flex::FlexTensor;

use super::{
    cell::{BackRow, Cell},
    chunks_of_all,
    factor::Factor,
    matrix::RecurrentMatrix,
    rows_of_a_task,
    run::{RunEnd, RunGradients},
    workspace,
};
use crate::{
    any_tensor::{AnyTensor, ranked},
    custom_op::{CustomOp, Workspace},
    flex_tensor::{floats, tensor},
    panels::OutputRows,
    simd::{SimdLoops, vectorised},
    stored_float::{StoredFloat, StoredFloats, with_values},
    uninit::{self, UninitSlice},
    workers,
};

/// A product of hidden units that backward computes again: the matrix that forward multiplied by, and the bias.
#[derive(Debug)]
pub(crate) struct Again {
    pub(crate) matrix: RecurrentMatrix,
    pub(crate) bias: Tensor<1>,
}

/// Goes back by our own kernel. The gradients of gates overwrite gates of 32 bits.
pub(crate) fn own<C: Cell<S>, const S: usize>(
    end: RunEnd<S>,
    recurrent: &RecurrentMatrix,
    again: Option<&Again>,
) -> RunGradients<S> {
    let RunEnd { gates, before, steps, outputs, after } = end;
    let (dims @ [batch, _, _], dtype) = (gates.dims(), gates.dtype());
    let units = recurrent.sizes.columns;
    let of_steps = |width: usize| (vec![batch, steps.len(), width * units], DType::F32);
    let state = (vec![batch, units], DType::F32);
    let workspace = workspace(batch, recurrent, again.map(|again| &again.matrix));
    let mut inputs = vec![gates.into()];
    inputs.extend(before.map(AnyTensor::from));
    inputs.push(outputs.into());
    inputs.extend(after.map(AnyTensor::from));
    inputs.push(recurrent.packed().into());
    if let Some(Again { matrix, bias }) = again {
        inputs.extend([matrix.packed().into(), bias.clone().into()]);
    }
    let mut declared = vec![(dims.to_vec(), DType::F32), of_steps(1)];
    declared.extend(vec![state; S]);
    declared.push(of_steps(C::BESIDE));
    let in_place = usize::from(dtype == DType::F32);
    let operation = CustomOp { name: C::OPERATIONS[1], inputs, outputs: declared, in_place };
    let run = BackwardRun::<C> { steps, recurrent, again, workspace, cell: PhantomData };
    let mut made = operation.run_all(workspace, |inputs| run.on::<S>(inputs)).into_iter();
    // The outputs are declared above, with these ranks.
    let mut next = || made.next().expect("the operation has the outputs that it declares");
    let (gates, previous) = (ranked(next()), ranked(next()));
    let state = std::array::from_fn(|_| ranked(next()));
    // If the kernel alone uses the elements beside the gates, they end here.
    let beside = next();
    RunGradients { gates, of_hidden: C::IS_BESIDE.then(|| ranked(beside)), previous, state }
}

/// A backward pass through a run of steps.
struct BackwardRun<'a, C> {
    steps: Range<usize>,
    recurrent: &'a RecurrentMatrix,
    again: Option<&'a Again>,
    workspace: Workspace,
    cell: PhantomData<C>,
}

impl<C> BackwardRun<'_, C> {
    /// Runs the kernel. `inputs` are the gates, the states before, the outputs' gradient, the states' gradients, and factors.
    fn on<const S: usize>(&self, mut inputs: Vec<FlexTensor>) -> Vec<FlexTensor>
    where
        C: Cell<S>,
    {
        let read = inputs.split_off(1);
        let outputs = &read[S];
        let [batch, units] = [0, 2].map(|dim| outputs.shape()[dim]);
        // The gates are the only input left.
        let mut gates = inputs.swap_remove(0);
        let steps = self.steps.len();
        let mut gradients: [Vec<f32>; S] = std::array::from_fn(|index| floats(&read[S + 1 + index]).to_vec());
        let count = batch * steps * units;
        let mut back = |gates: Gates<'_>| {
            uninit::made(C::BESIDE * count, |beside| {
                uninit::made(count, |previous| {
                    self.write::<S>(&read, gates, &mut gradients, [beside, previous]);
                })
            })
        };
        let (gates, (beside, (previous, ()))) = match gates.dtype() {
            DType::F32 => {
                let made = back(Gates::There(gates.storage_mut()));
                (gates, made)
            }
            _ => {
                let from = StoredFloats::of(&gates);
                let width = C::GATES * units;
                let (wide, made) =
                    uninit::made(count * C::GATES, |wide| back(Gates::Narrow { from, at: 0, to: wide }));
                (tensor(wide, &[batch, steps, width]), made)
            }
        };
        let mut made = vec![gates, tensor(previous, &[batch, steps, units])];
        made.extend(gradients.map(|gradient| tensor(gradient, &[batch, units])));
        made.push(tensor(beside, &[batch, steps, C::BESIDE * units]));
        made
    }

    /// Overwrites `gates` and `gradients`, and writes the elements beside the gates and the hidden units before each step.
    fn write<const S: usize>(
        &self,
        read: &[FlexTensor],
        gates: Gates<'_>,
        gradients: &mut [Vec<f32>; S],
        [beside, previous]: [UninitSlice<'_>; 2],
    ) where
        C: Cell<S>,
    {
        let [batch, all_steps, units] = [0, 1, 2].map(|dim| read[S].shape()[dim]);
        let before: [&[f32]; S] = std::array::from_fn(|index| floats(&read[index]));
        let recurrent = &Factor::new(floats(&read[2 * S + 1]), self.recurrent.sizes);
        let again = self.again.map(|again| Factor::new(floats(&read[2 * S + 2]), again.matrix.sizes));
        let bias = if again.is_some() { floats(&read[2 * S + 3]) } else { &[] };
        let steps = self.steps.len();
        let rows = rows_of_a_task(batch, steps, self.recurrent);
        let of_steps = (rows * steps * units).max(1);
        let gates = gates.parts(C::GATES * of_steps);
        let within = beside.parts(C::BESIDE * of_steps).zip(previous.parts(of_steps));
        let gradients = chunks_of_all(gradients, (rows * units).max(1));
        let tasks = gates.zip(within).zip(gradients).enumerate();
        workers::each(tasks, self.workspace, |(index, ((gates, within), gradients)), products| {
            vectorised(BackwardWork {
                within: <[UninitSlice<'_>; 2]>::from(within),
                gates,
                backward: BackwardTask::<C, S> {
                    recurrent,
                    again: again.as_ref(),
                    bias,
                    before: before.map(|before| &before[index * rows * units..]),
                    outputs: StoredFloats::of(&read[S]),
                    first_row: index * rows,
                    all_steps,
                    first_step: self.steps.start,
                    gates: &mut [],
                    gradients,
                    products,
                    steps,
                    units,
                    dtype: self.recurrent.dtype,
                    cell: PhantomData,
                },
            });
        });
    }
}

/// The steps of some rows of the batch.
struct BackwardTask<'a, C, const S: usize> {
    recurrent: &'a Factor<'a>,
    /// The factor of a product that is computed again, and its bias.
    again: Option<&'a Factor<'a>>,
    bias: &'a [f32],
    /// The states before the first step.
    before: [&'a [f32]; S],
    /// The gradient of the outputs, of all rows and steps.
    outputs: StoredFloats<'a>,
    first_row: usize,
    all_steps: usize,
    first_step: usize,
    /// Activated gates. Their gradients, before the activation, overwrite them.
    gates: &'a mut [f32],
    /// The gradients of the states.
    gradients: [&'a mut [f32]; S],
    /// The workspace of products.
    products: &'a mut [f32],
    steps: usize,
    units: usize,
    /// The format that hidden units are rounded to.
    dtype: DType,
    cell: PhantomData<C>,
}

/// Some rows of the batch, with memory beside the gates and for the hidden units before each step.
struct BackwardWork<'a, C, const S: usize> {
    backward: BackwardTask<'a, C, S>,
    gates: Gates<'a>,
    within: [UninitSlice<'a>; 2],
}

/// The activated gates of some rows, and the memory for their gradients.
enum Gates<'a> {
    /// Gates of 32 bits, which the gradients overwrite.
    There(&'a mut [f32]),
    /// Gates of 16 bits, those of `from` from element `at` on, and other memory.
    Narrow { from: StoredFloats<'a>, at: usize, to: UninitSlice<'a> },
}

impl<'a> Gates<'a> {
    /// Parts of `of_each` elements; the last may have fewer.
    fn parts(self, of_each: usize) -> impl Iterator<Item = Self> + Send {
        let (there, narrow) = match self {
            Self::There(there) => (Some(there.chunks_mut(of_each)), None),
            Self::Narrow { from, at, to } => (
                None,
                Some(to.parts(of_each).zip((at..).step_by(of_each)).map(move |(to, at)| Self::Narrow {
                    from,
                    at,
                    to,
                })),
            ),
        };
        there.into_iter().flatten().map(Self::There).chain(narrow.into_iter().flatten())
    }

    /// The gates in 32 bits, in the memory for the gradients.
    #[inline(always)]
    fn widened(self) -> &'a mut [f32] {
        match self {
            Self::There(there) => there,
            Self::Narrow { from, at, to } => to.loaded(from, at),
        }
    }
}

impl<C: Cell<S>, const S: usize> SimdLoops for BackwardWork<'_, C, S> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let [beside, previous] = self.within.map(UninitSlice::left_over);
        let mut backward = BackwardTask { gates: self.gates.widened(), ..self.backward };
        backward.again::<FUSED>(beside, previous);
        backward.run::<FUSED>(beside, previous);
    }
}

impl<C: Cell<S>, const S: usize> BackwardTask<'_, C, S> {
    fn rows(&self) -> usize {
        self.gradients[0].len() / self.units
    }

    /// Computes again what backward reads: the hidden units before each step, and the elements beside the gates.
    #[inline(always)]
    fn again<const FUSED: bool>(&mut self, beside: &mut [f32], previous: &mut [f32]) {
        let Self { steps, units, .. } = *self;
        let of_row = steps * units;
        for row in 0..self.rows() {
            let before = self.before.map(|before| &before[row * units..][..units]);
            let gates = &self.gates[row * C::GATES * of_row..][..C::GATES * of_row];
            let beside = &mut beside[row * C::BESIDE * of_row..][..C::BESIDE * of_row];
            C::again::<FUSED>(gates, before, beside, &mut previous[row * of_row..][..of_row], self.dtype);
        }
        let Some(matrix) = self.again else { return };
        // The products are the last of the elements beside the gates of a step.
        let (rows, width) = (self.rows(), C::BESIDE * units);
        for step in 0..steps {
            let put = matrix.sizes.put_rows_of(|row| &previous[row * of_row + step * units..][..units]);
            let elements = &mut beside[step * width + (width - units)..];
            let output = OutputRows { elements, stride: steps * width };
            matrix.multiply(rows, put, output, &mut *self.products, false);
        }
    }

    /// Goes back step by step.
    #[inline(always)]
    fn run<const FUSED: bool>(mut self, beside: &mut [f32], previous: &[f32]) {
        let (steps, units, rows) = (self.steps, self.units, self.rows());
        let width = C::GATES * units;
        for step in (0..steps).rev() {
            for row in 0..rows {
                self.step::<FUSED>(row, step, beside, previous);
            }
            let Self { gates, gradients, products, recurrent, .. } = &mut self;
            let of_products: &[f32] = if C::IS_BESIDE { beside } else { gates };
            let put =
                recurrent.sizes.put_rows_of(|row| &of_products[(row * steps + step) * width..][..width]);
            let output = OutputRows { elements: &mut *gradients[0], stride: units };
            // A cell that keeps a part of its hidden units has left the gradient of that part.
            recurrent.multiply(rows, put, output, products, C::IS_BESIDE);
        }
    }

    /// Goes back through one step of one row.
    #[inline(always)]
    fn step<const FUSED: bool>(&mut self, row: usize, step: usize, beside: &mut [f32], previous: &[f32]) {
        let (steps, units) = (self.steps, self.units);
        let of_row = C::BESIDE * steps * units;
        let gradients = self.gradients.each_mut().map(|gradient| &mut gradient[row * units..][..units]);
        let output = ((self.first_row + row) * self.all_steps + self.first_step + step) * units;
        with_values!(self.outputs, outputs => add(&outputs[output..], &mut *gradients[0]));
        let width = C::GATES * units;
        let row = BackRow {
            gates: &mut self.gates[(row * steps + step) * width..][..width],
            beside: &mut beside[row * of_row..][..of_row],
            before: self.before.map(|before| &before[row * units..][..units]),
            previous: &previous[(row * steps + step) * units..][..units],
            bias: self.bias,
            gradients,
        };
        C::back::<FUSED>(step, row);
    }
}

#[inline(always)]
fn add<E: StoredFloat>(values: &[E], sums: &mut [f32]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value.widened());
}
