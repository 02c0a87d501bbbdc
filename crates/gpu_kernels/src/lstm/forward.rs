use burn_backend::{DType, cubecl::dtype_to_storage_type};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use super::{
    layout::{Card, Layout, Product, width},
    product::{SumPlace, add_products, hand_over, next_cell, put_out, rounded, sigmoid, sum_of_slices},
    run::{LstmOutputs, LstmStart, LstmSteps},
    steps::{address_type, copied, project},
};
use crate::tensor::{contiguous, empty, sizes};

/// Runs k steps forward. `of_input` are the weights of the inputs, `[I, 4U]`, and `recurrent` those of the hidden units,
/// `[U, 4U]`, both in the format of products: F32, F16 or BF16. Gates are i, f, g, o side by side.
///
/// It makes two launches: the product of inputs and weights, in 32 bits, and the steps. A run that is a part of its sequence
/// or whose inputs have another format copies its inputs first, and outputs that somebody else holds are copied too.
///
/// # Panics
/// Panics if there are no steps, if the card has no product in the format, or if there are more than
/// [`MOST_LSTM_UNITS`](crate::MOST_LSTM_UNITS).
pub fn lstm_forward<R: CubeRuntime>(
    start: LstmStart<R>,
    of_input: CubeTensor<R>,
    recurrent: CubeTensor<R>,
) -> LstmSteps<R> {
    let LstmStart { input, steps, bias, state, outputs, keeps_gates } = start;
    assert!(!steps.is_empty(), "a run of an LSTM has at least one step");
    let dtype = recurrent.dtype;
    let [batch, all_steps, _] = sizes(&input);
    let [units, _] = sizes(&recurrent);
    let of_state = [batch, units];
    let of_gates = [batch, steps.len(), 4 * units];
    let projected = project(contiguous(input), &steps, contiguous(of_input));
    let made = [(); 2].map(|()| empty(&projected, &of_state, DType::F32));
    let gates = match dtype {
        // They overwrite the inputs of the gates.
        DType::F32 => None,
        _ => keeps_gates.then(|| empty(&projected, &of_gates, dtype)),
    };
    let output = match outputs {
        LstmOutputs::Known => None,
        LstmOutputs::There(outputs) => Some(copied(contiguous(outputs))),
        LstmOutputs::New => Some(empty(&projected, &[batch, all_steps, units], dtype)),
    };
    let run = ForwardRun {
        projected: projected.clone(),
        read: [bias, recurrent].map(contiguous),
        state: state.map(contiguous),
        made: made.clone(),
        output: output.clone(),
        gates: gates.clone(),
    };
    let writes = Writes {
        outputs: output.is_some(),
        gates: gates.is_some(),
        gates_in_place: keeps_gates && gates.is_none(),
    };
    run.launch([batch, steps.len(), all_steps, steps.start], units, writes);
    LstmSteps { gates: keeps_gates.then(|| gates.unwrap_or(projected)), output, state: made }
}

/// What the kernel writes beside the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Writes {
    outputs: bool,
    /// Gates in the format of products, in a tensor of their own.
    gates: bool,
    /// Gates over the inputs of the gates.
    gates_in_place: bool,
}

/// The tensors of a launch.
struct ForwardRun<R: CubeRuntime> {
    projected: CubeTensor<R>,
    /// Bias and recurrent weights.
    read: [CubeTensor<R>; 2],
    state: [CubeTensor<R>; 2],
    made: [CubeTensor<R>; 2],
    output: Option<CubeTensor<R>>,
    gates: Option<CubeTensor<R>>,
}

impl<R: CubeRuntime> ForwardRun<R> {
    /// `counts`: batch, steps of the run and of the sequence, first step.
    fn launch(self, counts: [usize; 4], units: usize, writes: Writes) {
        // Four gates for each row would fill the registers with wider vectors.
        let width = width(units, 2);
        let vectors = units / width;
        let product = Product { units: vectors, width, parts: 4, inner: vectors, has_chunks: false };
        let [batch, steps, all_steps, first_step] = counts;
        let client = self.projected.client.clone();
        let layout = Layout::new(product, batch, Card::of(&self.projected));
        let addresses = address_type([Some(&self.projected), self.output.as_ref()].into_iter().flatten());
        let [bias, recurrent] = self.read;
        let dtype = dtype_to_storage_type(recurrent.dtype);
        let [before_hidden, before_cell] = self.state.map(CubeTensor::into_buffer_arg);
        // The kernel does not touch an output that is not wanted.
        let unwanted = self.made[0].clone();
        let [hidden, cell] = self.made.map(CubeTensor::into_buffer_arg);
        // Safety: the kernel stays within tensors of the sizes that `lstm_forward` documents.
        unsafe {
            forward_steps::launch_unchecked(
                &client,
                CubeCount::Static(batch.div_ceil(layout.rows) as u32, 1, 1),
                CubeDim::new_2d(layout.columns as u32, layout.slices as u32),
                addresses,
                width,
                self.projected.into_buffer_arg(),
                bias.into_buffer_arg(),
                recurrent.into_buffer_arg(),
                before_hidden,
                before_cell,
                hidden,
                cell,
                self.output.unwrap_or_else(|| unwanted.clone()).into_buffer_arg(),
                self.gates.unwrap_or(unwanted).into_buffer_arg(),
                batch,
                steps,
                all_steps,
                first_step,
                layout,
                writes,
                dtype,
            );
        }
    }
}

/// All steps of the rows of a cube. A thread keeps the cells of its rows and column in global memory, where nobody else
/// touches them, and the hidden units are in shared memory, where all threads read them.
#[cube(launch_unchecked, address_type = "dynamic")]
fn forward_steps<E: Float, N: Size>(
    projected: &mut [Vector<f32, N>],
    bias: &[Vector<f32, N>],
    weights: &[Vector<E, N>],
    before_hidden: &[Vector<f32, N>],
    before_cell: &[Vector<f32, N>],
    hidden: &mut [Vector<f32, N>],
    cell: &mut [Vector<f32, N>],
    outputs: &mut [Vector<E, N>],
    gates: &mut [Vector<E, N>],
    batch: usize,
    steps: usize,
    all_steps: usize,
    first_step: usize,
    #[comptime] layout: Layout,
    #[comptime] writes: Writes,
    #[define(E)] _dtype: ElemType,
) {
    let units = comptime!(layout.product.units);
    let copies = comptime!(layout.copies());
    let factor_vectors = comptime!(layout.factor_vectors());
    let rows_of_thread = comptime!(layout.rows_of_thread());
    let of_slice = comptime!(units.div_ceil(layout.slices));
    let first_row = CUBE_POS_X as usize * layout.rows;
    let slice = UNIT_POS_Y as usize;
    let start = slice * of_slice;
    let end = (start + of_slice).min(units);

    let mut state = Shared::<[Vector<f32, N>]>::new_slice(copies * factor_vectors);
    let mut shared = Shared::<[Vector<f32, N>]>::new_slice(comptime!(layout.sum_vectors()));
    let mut at = UNIT_POS as usize;
    while at < factor_vectors {
        let row = first_row + at / units;
        // Rows beyond the batch have a state too, which nobody reads.
        state[at] = Vector::new(0.0);
        if row < batch {
            state[at] = rounded::<E, N>(before_hidden[row * units + at % units]);
        }
        at += CUBE_DIM as usize;
    }
    sync_cube();

    for step in 0..steps {
        let factor = (step % copies) * factor_vectors;
        let next = ((step + 1) % copies) * factor_vectors;
        for tile in 0..comptime!(layout.tiles()) {
            let column = tile * layout.columns + UNIT_POS_X as usize;
            // They are loaded before the product, so that they arrive while it is computed.
            let mut loaded = Array::<Vector<f32, N>>::new(comptime!(5 * rows_of_thread));
            #[unroll]
            for index in 0..rows_of_thread {
                let row = slice + index * layout.slices;
                if column < units && row < layout.rows && first_row + row < batch {
                    let row = first_row + row;
                    let first = (row * steps + step) * 4 * units + column;
                    #[unroll]
                    for gate in 0..4 {
                        loaded[comptime!(5 * index + gate)] = projected[first + gate * units];
                    }
                    let at = row * units + column;
                    loaded[comptime!(5 * index + 4)] = if step == 0 { before_cell[at] } else { cell[at] };
                }
            }
            if column < units {
                let mut sums = Array::<Vector<f32, N>>::new(comptime!(4 * layout.rows));
                let place = SumPlace { column, factor, chunk_start: 0usize, start, end };
                add_products::<E, N>(&mut sums, &state, weights, &place, layout);
                hand_over(&sums, &mut shared, layout);
            }
            sync_cube();
            #[unroll]
            for index in 0..rows_of_thread {
                let row_of_cube = slice + index * layout.slices;
                if column < units && row_of_cube < layout.rows && first_row + row_of_cube < batch {
                    let row = first_row + row_of_cube;
                    let mut activated = Array::<Vector<f32, N>>::new(4usize);
                    #[unroll]
                    for gate in 0..4 {
                        let sum = sum_of_slices(&shared, row_of_cube, gate, layout)
                            + loaded[comptime!(5 * index + gate)]
                            + bias[gate * units + column];
                        let value = if comptime!(gate == 2) { sum.tanh() } else { sigmoid(sum) };
                        let value = rounded::<E, N>(value);
                        activated[gate] = value;
                        let at = ((row * steps + step) * 4 + gate) * units + column;
                        if comptime!(writes.gates_in_place) {
                            projected[at] = value;
                        }
                        if comptime!(writes.gates) {
                            gates[at] = Vector::cast_from(value);
                        }
                    }
                    let old = loaded[comptime!(5 * index + 4)];
                    let new = next_cell(activated[0], activated[1], activated[2], old);
                    let put = put_out::<E, N>(activated[3], new);
                    cell[row * units + column] = new;
                    state[next + row_of_cube * units + column] = put;
                    if comptime!(writes.outputs) {
                        let at = (row * all_steps + first_step + step) * units + column;
                        outputs[at] = Vector::cast_from(put);
                    }
                    if step + 1 == steps {
                        hidden[row * units + column] = put;
                    }
                }
            }
            sync_cube();
        }
    }
}
