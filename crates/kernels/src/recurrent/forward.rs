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
    run::{RunInput, RunOutputs, RunStart, RunSteps, runs},
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
    uninit::{self, UninitSlice, list},
    workers,
};

/// Elements between the gates of two rows while they are computed. At a power of two they would compete for the same few
/// lines of the first-level cache.
fn stride(width: usize) -> usize {
    const LINE: usize = 16;
    width + LINE
}

/// Runs the steps by our own kernel. Outputs, gates and states are new.
pub(crate) fn own<C: Cell<S>, const S: usize>(
    start: RunStart<S>,
    recurrent: &RecurrentMatrix,
) -> RunSteps<S> {
    let RunStart { input, steps, run: of_run, bias, state, outputs, keeps_gates } = start;
    let [batch, all_steps] = input.rows();
    let units = recurrent.sizes.inner;
    let width = C::GATES * units;
    let of_state = (vec![batch, units], DType::F32);
    let makes_outputs = !matches!(outputs, RunOutputs::Known);
    let of_outputs = makes_outputs.then(|| (vec![batch, all_steps, units], recurrent.dtype));
    let runs: Vec<_> = charge(Account::Host, || runs(steps.clone(), of_run).map(|run| run.len()).collect());
    let kept = if keeps_gates { &runs[..] } else { &[] };
    let of_gates = kept.iter().map(|steps| (vec![batch, *steps, width], recurrent.dtype));
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
        makes_outputs,
        keeps_gates,
        steps,
        runs: &runs,
        of_input,
        recurrent,
        workspace: Workspace { of_each: of_rows + beside, steps: count, ..workspace },
        cell: PhantomData,
    };
    let inputs = [input, bias.into()].into_iter().chain(state.map(AnyTensor::from));
    let factors = [factor, recurrent.packed().into()];
    let operation = CustomOp {
        name: C::OPERATIONS[0],
        inputs: inputs.chain(factors).collect(),
        outputs: of_outputs
            .into_iter()
            .chain(of_gates)
            .chain(vec![of_state; S * runs.len().max(1)])
            .collect(),
        in_place: 0,
    };
    let made =
        operation.run_all(run.workspace, |inputs| by_dtype!(recurrent.dtype, E => run.on::<E, S>(&inputs)));
    let mut made = made.into_iter();
    // The outputs are declared above, with these ranks.
    let mut next = || made.next().expect("the operation has the outputs that it declares");
    let output = makes_outputs.then(|| ranked(next()));
    let gates = kept.iter().map(|_| ranked(next())).collect();
    let mut next_state = || std::array::from_fn(|_| ranked(next()));
    let between = runs.iter().skip(1).map(|_| next_state()).collect();
    RunSteps { output, gates, between, state: next_state() }
}

/// A forward pass over some steps.
struct ForwardRun<'a, C> {
    steps: Range<usize>,
    /// The steps of each run.
    runs: &'a [usize],
    /// The sizes of the weights of the input; `None` if the inputs are tokens, whose products are known.
    of_input: Option<FactorSizes>,
    recurrent: &'a RecurrentMatrix,
    workspace: Workspace,
    makes_outputs: bool,
    keeps_gates: bool,
    cell: PhantomData<C>,
}

impl<C> ForwardRun<'_, C> {
    /// Runs the kernel.
    fn on<E: StoredFloat, const S: usize>(&self, read: &[FlexTensor]) -> Vec<FlexTensor>
    where
        C: Cell<S>,
    {
        let [batch, all_steps] = [0, 1].map(|dim| read[0].shape()[dim]);
        let (units, width) = (self.recurrent.sizes.inner, self.recurrent.sizes.columns);
        let outputs = self.makes_outputs.then_some([batch, all_steps, units]);
        let runs = if self.keeps_gates { self.runs } else { &[] };
        let shapes = outputs.into_iter().chain(runs.iter().map(|steps| [batch, *steps, width]));
        let shapes: Vec<_> = charge(Account::Host, || shapes.collect());
        let counts = shapes.iter().map(|shape| shape.iter().product());
        let (made, states) = uninit::all_made(counts, |made| {
            let of_rows = shapes.iter().map(|[_, steps, features]| steps * features);
            self.write::<E, S>(read, made.into_iter().zip(of_rows))
        });
        let made = made.into_iter().zip(&shapes).map(|(made, shape)| E::tensor(made, Shape::from(*shape)));
        made.chain(states.into_iter().flatten().map(|state| tensor(state, &[batch, units]))).collect()
    }

    /// Writes the outputs, if they are wanted, and the gates of each run, if they are kept: to memory with the elements of a row.
    /// Gives the states after each run.
    fn write<'b, E: StoredFloat + 'b, const S: usize>(
        &self,
        read: &[FlexTensor],
        made: impl ExactSizeIterator<Item = (UninitSlice<'b, E>, usize)>,
    ) -> Vec<[Vec<f32>; S]>
    where
        C: Cell<S>,
    {
        let [bias, factor, recurrent] = [1, 2 + S, 3 + S].map(|index| floats(&read[index]));
        let [batch, all_steps] = [0, 1].map(|dim| read[0].shape()[dim]);
        let rows = rows_of_a_task(batch, self.steps.len(), self.recurrent);
        let mut states = list(self.runs.len().max(1));
        let of_state = batch * self.recurrent.sizes.inner;
        states.extend(self.runs.iter().skip(1).map(|_| std::array::from_fn(|_| vec![0.0; of_state])));
        states.push(std::array::from_fn(|index| floats(&read[2 + index]).to_vec()));
        let recurrent = &Factor::new(recurrent, self.recurrent.sizes);
        let projection = match self.of_input {
            None => Projection::Known { tokens: indices(&read[0]), products: factor },
            Some(sizes) => Projection::Product {
                values: StoredFloats::of(&read[0]),
                weights: Factor::new(factor, sizes),
                dtype: self.recurrent.dtype,
            },
        };
        let mut parts = list(made.len());
        parts.extend(made.map(|(made, of_row)| (made.parts(rows * of_row), of_row)));
        let mut of_runs = list(states.len());
        let of_task = (rows * self.recurrent.sizes.inner).max(1);
        of_runs.extend(states.iter_mut().map(|run| chunks_of_all(run, of_task)));
        let tasks = (0..batch.div_ceil(rows)).map(|index| ForwardTask::<C, E, S> {
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
            of_run: self.runs.first().copied().unwrap_or(1),
            makes_outputs: self.makes_outputs,
            made: charge(Account::Host, || {
                let of_task = parts.iter_mut().filter_map(|(parts, of_row)| Some((parts.next()?, *of_row)));
                of_task.map(|(part, of_row)| part.parts(of_row).collect()).collect()
            }),
            states: charge(Account::Host, || of_runs.iter_mut().filter_map(Iterator::next).collect()),
            cell: PhantomData,
        });
        workers::each(tasks, self.workspace, |forward, workspace| {
            vectorised(ForwardWork { forward, workspace });
        });
        drop(of_runs);
        states
    }
}

/// The steps of some rows of the batch.
struct ForwardTask<'a, C, E, const S: usize> {
    inputs: TaskInputs<'a>,
    /// The format of gates and hidden units.
    dtype: DType,
    bias: &'a [f32],
    recurrent: &'a Factor<'a>,
    /// The first step of all.
    first_step: usize,
    /// Steps of a run.
    of_run: usize,
    makes_outputs: bool,
    /// The outputs of all steps of the sequence, if they are wanted, and the gates of each run, if they are kept: the part of each row
    /// that is not yet written.
    made: Vec<Vec<UninitSlice<'a, E>>>,
    /// The states after each run. Those after the last one are the states of every step before.
    states: Vec<[&'a mut [f32]; S]>,
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
        let rows = forward.rows();
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
    /// The rows of the batch.
    #[inline(always)]
    fn rows(&self) -> usize {
        self.states.last().map_or(0, |states| states[0].len()) / self.recurrent.sizes.inner
    }

    /// Runs the steps whose inputs were projected to `gates`. `products` are those of hidden units, if they are apart; `beside` is the
    /// workspace of them.
    #[inline(always)]
    fn run<const FUSED: bool>(&mut self, gates: &mut [f32], [products, beside]: [&mut [f32]; 2]) {
        let rows = self.rows();
        let Self { inputs, recurrent, made, states, .. } = self;
        let units = recurrent.sizes.inner;
        let width = C::GATES * units;
        let (stride, at_once) = (stride(width), inputs.steps.len());
        let (outputs, of_gates) = made.split_at_mut(usize::from(self.makes_outputs));
        let Some((state, between)) = states.split_last_mut() else { return };
        for (index, step) in inputs.steps.clone().enumerate() {
            let run = (step - self.first_step) / self.of_run;
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
                if let Some(rows) = of_gates.get_mut(run) {
                    rows[row].write_first(gates);
                }
                if let Some(rows) = outputs.first_mut() {
                    rows[row].write_first(&state[0][row * units..][..units]);
                }
            }
            if (step + 1 - self.first_step).is_multiple_of(self.of_run)
                && let Some(after) = between.get_mut(run)
            {
                after.iter_mut().zip(&*state).for_each(|(after, state)| after.copy_from_slice(state));
            }
        }
    }
}
