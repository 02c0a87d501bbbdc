use std::{marker::PhantomData, ops::Range};

use burn_backend::{DType, Shape, TensorMetadata};
use burn_flex::FlexTensor;
use oomph_core::{Account, charge};

use super::{
    ROWS,
    cell::Cell,
    chunks_of_all,
    factor::{Factor, FactorSizes},
    matrix::RecurrentMatrix,
    projection::{Projection, TaskInputs},
    rows_of_a_task,
    run::{RunInput, RunOutputs, RunStart, RunSteps},
    workspace,
};
use crate::{
    any_tensor::{AnyTensor, ranked},
    custom_op::{CustomOp, Workspace},
    flex_tensor::{floats, tensor},
    indices::indices,
    panels::OutputRows,
    simd::{SimdLoops, vectorised},
    stored_float::{StoredFloat, StoredFloats, by_dtype},
    uninit::{self, UninitSlice},
    workers,
};

/// Elements between the gates of two rows while they are computed. At a power of two they would compete for the same few
/// lines of the first-level cache.
fn stride(width: usize) -> usize {
    const LINE: usize = 16;
    width + LINE
}

/// Runs the steps by our own kernel. Outputs are written into the tensor of the sequence, if there is one; gates and states
/// are new.
pub(crate) fn own<C: Cell<S>, const S: usize>(
    start: RunStart<S>,
    recurrent: &RecurrentMatrix,
) -> RunSteps<S> {
    let RunStart { input, steps, bias, state, outputs, keeps_gates } = start;
    let [batch, all_steps] = input.rows();
    let units = recurrent.sizes.inner;
    let width = C::GATES * units;
    let of_state = (vec![batch, units], DType::F32);
    let writes = !matches!(outputs, RunOutputs::Known);
    let of_outputs = writes.then(|| (vec![batch, all_steps, units], recurrent.dtype));
    let of_gates = keeps_gates.then(|| (vec![batch, steps.len(), width], recurrent.dtype));
    // The gates of some rows and, where they are apart, the products of hidden units.
    let of_rows = if C::IS_SUM { ROWS * stride(width) } else { 2 * ROWS * stride(width) };
    let workspace = workspace(batch, recurrent, None);
    let (input, factor, of_input): (AnyTensor, AnyTensor, _) = match input {
        RunInput::Sequence { values, weights } => {
            (values.into(), weights.packed().into(), Some(weights.sizes))
        }
        RunInput::Tokens { tokens, products } => (tokens.into(), products.into(), None),
    };
    let beside = of_input.map_or(0, |sizes| sizes.elements_beside(ROWS)).max(workspace.of_each);
    let count = steps.len();
    let run = ForwardRun::<C> {
        makes_outputs: matches!(outputs, RunOutputs::New),
        keeps_gates,
        steps,
        of_input,
        recurrent,
        workspace: Workspace { of_each: of_rows + beside, steps: count, ..workspace },
        cell: PhantomData,
    };
    let there = outputs.there().map(AnyTensor::from);
    let in_place = usize::from(there.is_some());
    let inputs = [input, bias.into()].into_iter().chain(state.map(AnyTensor::from));
    let factors = [factor, recurrent.packed().into()];
    let operation = CustomOp {
        name: C::OPERATIONS[0],
        inputs: there.into_iter().chain(inputs).chain(factors).collect(),
        outputs: of_outputs.into_iter().chain(of_gates).chain(vec![of_state; S]).collect(),
        in_place,
    };
    let made = operation
        .run_all(run.workspace, |inputs| by_dtype!(recurrent.dtype, E => run.on::<E, S>(inputs, in_place)));
    let mut made = made.into_iter();
    // The outputs are declared above, with these ranks.
    let mut next = || made.next().expect("the operation has the outputs that it declares");
    let output = writes.then(|| ranked(next()));
    let gates = keeps_gates.then(|| ranked(next()));
    RunSteps { output, gates, state: std::array::from_fn(|_| ranked(next())) }
}

/// A forward pass over a run of steps.
struct ForwardRun<'a, C> {
    steps: Range<usize>,
    /// The sizes of the weights of the input; `None` if the inputs are tokens, whose products are known.
    of_input: Option<FactorSizes>,
    recurrent: &'a RecurrentMatrix,
    workspace: Workspace,
    /// Whether the outputs are a new tensor.
    makes_outputs: bool,
    keeps_gates: bool,
    cell: PhantomData<C>,
}

impl<C> ForwardRun<'_, C> {
    /// Runs the kernel. `inputs`: the outputs of other runs, if any, and then the tensors that are read.
    fn on<E: StoredFloat, const S: usize>(
        &self,
        mut inputs: Vec<FlexTensor>,
        in_place: usize,
    ) -> Vec<FlexTensor>
    where
        C: Cell<S>,
    {
        let read = inputs.split_off(in_place);
        let [batch, all_steps] = [0, 1].map(|dim| read[0].shape()[dim]);
        let (steps, units) = (self.steps.len(), self.recurrent.sizes.inner);
        let there = inputs.first_mut().map(E::storage);
        let of_outputs = if self.makes_outputs { batch * all_steps * units } else { 0 };
        let of_gates = if self.keeps_gates { batch * steps * C::GATES * units } else { 0 };
        let (outputs, (gates, state)) = uninit::made(of_outputs, |outputs| {
            uninit::made(of_gates, |gates| {
                let outputs = self.makes_outputs.then_some(outputs);
                self.write::<E, S>(&read, there, outputs, self.keeps_gates.then_some(gates))
            })
        });
        let shape = Shape::from([batch, all_steps, units]);
        inputs.extend(self.makes_outputs.then(|| E::tensor(outputs, shape)));
        let of_gates = Shape::from([batch, steps, C::GATES * units]);
        inputs.extend(self.keeps_gates.then(|| E::tensor(gates, of_gates)));
        inputs.extend(state.map(|state| tensor(state, &[batch, units])));
        inputs
    }

    /// Writes outputs, to `there` or to `new`, and gates if they are kept. Gives the last state.
    fn write<E: StoredFloat, const S: usize>(
        &self,
        read: &[FlexTensor],
        there: Option<&mut [E]>,
        new: Option<UninitSlice<'_, E>>,
        gates: Option<UninitSlice<'_, E>>,
    ) -> [Vec<f32>; S]
    where
        C: Cell<S>,
    {
        let [bias, factor, recurrent] = [1, 2 + S, 3 + S].map(|index| floats(&read[index]));
        let [batch, all_steps] = [0, 1].map(|dim| read[0].shape()[dim]);
        let mut state: [Vec<f32>; S] = std::array::from_fn(|index| floats(&read[2 + index]).to_vec());
        let (steps, units) = (self.steps.len(), self.recurrent.sizes.inner);
        let rows = rows_of_a_task(batch, steps, self.recurrent);
        let recurrent = &Factor::new(recurrent, self.recurrent.sizes);
        let projection = match self.of_input {
            None => Projection::Known { tokens: indices(&read[0]), products: factor },
            Some(sizes) => Projection::Product {
                values: StoredFloats::of(&read[0]),
                weights: Factor::new(factor, sizes),
                dtype: self.recurrent.dtype,
            },
        };
        let mut there = there.map(|there| there.chunks_mut((rows * all_steps * units).max(1)));
        let mut new = new.map(|new| new.parts(rows * all_steps * units));
        let of_gates = steps * C::GATES * units;
        let mut gates = gates.map(|gates| gates.parts(rows * of_gates));
        let states = chunks_of_all(&mut state, (rows * units).max(1));
        let tasks = states.enumerate().map(|(index, state)| ForwardTask::<C, E, S> {
            inputs: TaskInputs {
                projection: &projection,
                first_row: index * rows,
                all_steps,
                steps: self.steps.clone(),
            },
            dtype: self.recurrent.dtype,
            bias,
            recurrent,
            first_step: self.steps.start,
            gates: StepOutputs::of(None, gates.as_mut().and_then(Iterator::next), of_gates),
            outputs: StepOutputs::of(
                there.as_mut().and_then(Iterator::next),
                new.as_mut().and_then(Iterator::next),
                all_steps * units,
            ),
            state,
            cell: PhantomData,
        });
        workers::each(tasks, self.workspace, |forward, workspace| {
            vectorised(ForwardWork { forward, workspace });
        });
        state
    }
}

/// The destination of a result: for each row of the batch, its steps one after the other.
enum StepOutputs<'a, E> {
    /// None: the result is not wanted.
    Nowhere,
    /// An existing tensor, and the elements of a row.
    There(&'a mut [E], usize),
    /// A new tensor: the part of each row that is not yet written.
    New(Vec<UninitSlice<'a, E>>),
}

impl<'a, E: StoredFloat> StepOutputs<'a, E> {
    /// A destination whose rows have `of_row` elements.
    fn of(there: Option<&'a mut [E]>, new: Option<UninitSlice<'a, E>>, of_row: usize) -> Self {
        match (there, new) {
            (Some(there), _) => Self::There(there, of_row),
            (None, Some(new)) => Self::New(charge(Account::Host, || new.parts(of_row).collect())),
            (None, None) => Self::Nowhere,
        }
    }

    /// Writes the result of a step of a row. Steps are written in their order.
    #[inline(always)]
    fn write(&mut self, row: usize, step: usize, values: &[f32]) {
        match self {
            Self::Nowhere => {}
            Self::There(rows, of_row) => {
                let place = &mut rows[row * *of_row + step * values.len()..][..values.len()];
                place.iter_mut().zip(values).for_each(|(to, value)| *to = E::rounded(*value));
            }
            Self::New(rows) => rows[row].write_first(values),
        }
    }
}

/// The steps of some rows of the batch.
struct ForwardTask<'a, C, E, const S: usize> {
    inputs: TaskInputs<'a>,
    /// The format of gates and hidden units.
    dtype: DType,
    bias: &'a [f32],
    recurrent: &'a Factor<'a>,
    /// The first step of the run.
    first_step: usize,
    /// The gates of all steps of the run.
    gates: StepOutputs<'a, E>,
    /// The outputs of all steps of the sequence.
    outputs: StepOutputs<'a, E>,
    state: [&'a mut [f32]; S],
    cell: PhantomData<C>,
}

struct ForwardWork<'a, 'b, C, E, const S: usize> {
    forward: ForwardTask<'a, C, E, S>,
    /// [`ROWS`] of gates, as many of products if they are apart, and the workspace of products with either matrix.
    workspace: &'b mut [f32],
}

impl<C: Cell<S>, E: StoredFloat, const S: usize> SimdLoops for ForwardWork<'_, '_, C, E, S> {
    /// Runs as many steps at once as the workspace has space for their gates.
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { mut forward, workspace } = self;
        let units = forward.recurrent.sizes.inner;
        let width = C::GATES * units;
        let stride = stride(width);
        let (gates, rest) = workspace.split_at_mut(ROWS * stride);
        let (products, beside) = rest.split_at_mut(if C::IS_SUM { 0 } else { ROWS * stride });
        let Range { start, end } = forward.inputs.steps;
        let rows = forward.state[0].len() / units;
        let at_once = (ROWS / rows.max(1)).max(1);
        for start in (start..end).step_by(at_once) {
            forward.inputs.steps = start..(start + at_once).min(end);
            let projected = OutputRows { elements: &mut *gates, stride };
            forward.inputs.project(rows, width, projected, beside);
            forward.run::<FUSED>(gates, [&mut *products, &mut *beside]);
        }
    }
}

impl<C: Cell<S>, E: StoredFloat, const S: usize> ForwardTask<'_, C, E, S> {
    /// Runs the steps whose inputs were projected to `gates`. `products` are those of hidden units, if they are apart; `beside` is the
    /// workspace of them.
    #[inline(always)]
    fn run<const FUSED: bool>(&mut self, gates: &mut [f32], [products, beside]: [&mut [f32]; 2]) {
        let Self { inputs, recurrent, state, .. } = self;
        let units = recurrent.sizes.inner;
        let width = C::GATES * units;
        let (rows, stride, at_once) = (state[0].len() / units, stride(width), inputs.steps.len());
        for (index, step) in inputs.steps.clone().enumerate() {
            let of_step = if C::IS_SUM {
                OutputRows { elements: &mut gates[index * stride..], stride: at_once * stride }
            } else {
                OutputRows { elements: &mut *products, stride }
            };
            let put = recurrent.sizes.put_rows_of(|row| &state[0][row * units..][..units]);
            recurrent.multiply(rows, put, of_step, beside, C::IS_SUM);
            for row in 0..rows {
                let gates = &mut gates[(row * at_once + index) * stride..][..width];
                let product = if C::IS_SUM { &[][..] } else { &products[row * stride..][..width] };
                let of_row = state.each_mut().map(|state| &mut state[row * units..][..units]);
                C::step::<FUSED>(gates, product, self.bias, of_row, self.dtype);
                self.gates.write(row, step - self.first_step, gates);
                self.outputs.write(row, step, &state[0][row * units..][..units]);
            }
        }
    }
}
