use burn_backend::{DType, cubecl::dtype_to_storage_type};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use super::{
    layout::{Card, Layout, Product, width},
    product::{SumPlace, add_products, hand_over, next_cell, put_out, sum_of_slices},
    run::{LstmEnd, LstmGradients},
    steps::address_type,
};
use crate::tensor::{contiguous, empty, sizes};

/// Goes backward through the steps of a run. `recurrent` is `[4U, U]` in the format of products: the matrix whose transpose
/// forward multiplied by.
///
/// It makes one launch. Beside its results it needs the cells of all steps, `[B, k, U]` in 32 bits, which it computes again.
///
/// # Panics
/// Panics if there are no steps.
pub fn lstm_backward<R: CubeRuntime>(end: LstmEnd<R>, recurrent: CubeTensor<R>) -> LstmGradients<R> {
    let LstmEnd { gates, before, steps, outputs, after } = end;
    assert!(!steps.is_empty(), "a run of an LSTM has at least one step");
    let gates = contiguous(gates);
    let [batch, count, columns] = sizes(&gates);
    assert_eq!(count, steps.len(), "gates of another number of steps");
    let [_, all_steps, units] = sizes(&outputs);
    let in_place = gates.dtype == DType::F32 && gates.can_mut();
    let made = |shape: &[usize]| empty(&gates, shape, DType::F32);
    let gradients = if in_place { gates.clone() } else { made(&[batch, count, columns]) };
    let [previous, cells] = [(); 2].map(|()| made(&[batch, count, units]));
    let state = [(); 2].map(|()| made(&[batch, units]));
    let run = BackwardRun {
        gates,
        gradients: gradients.clone(),
        read: [outputs, recurrent].map(contiguous),
        state: [before, after].map(|state| state.map(contiguous)),
        of_steps: [previous.clone(), cells],
        made: state.clone(),
    };
    run.launch([batch, count, all_steps, steps.start], units, in_place);
    LstmGradients { gates: gradients, previous, state }
}

/// The tensors of a launch.
struct BackwardRun<R: CubeRuntime> {
    gates: CubeTensor<R>,
    gradients: CubeTensor<R>,
    /// The outputs' gradient and the recurrent weights.
    read: [CubeTensor<R>; 2],
    /// The states before the first step, and the gradients of those after the last one.
    state: [[CubeTensor<R>; 2]; 2],
    /// Previous hidden units, and cells.
    of_steps: [CubeTensor<R>; 2],
    made: [CubeTensor<R>; 2],
}

impl<R: CubeRuntime> BackwardRun<R> {
    /// `counts`: batch, steps of the run and of the sequence, first step.
    fn launch(self, counts: [usize; 4], units: usize, in_place: bool) {
        let width = width(units, 4);
        let vectors = units / width;
        let product = Product { units: vectors, width, parts: 1, inner: 4 * vectors, has_chunks: true };
        let [batch, steps, all_steps, first_step] = counts;
        let client = self.gates.client.clone();
        let layout = Layout::new(product, batch, Card::of(&self.gates));
        let [outputs, recurrent] = self.read;
        let addresses = address_type([&self.gradients, &outputs]);
        let dtypes = [self.gates.dtype, outputs.dtype, recurrent.dtype].map(dtype_to_storage_type);
        let [[before_hidden, before_cell], [after_hidden, after_cell]] =
            self.state.map(|state| state.map(CubeTensor::into_buffer_arg));
        let [previous, cells] = self.of_steps.map(CubeTensor::into_buffer_arg);
        let [hidden, cell] = self.made.map(CubeTensor::into_buffer_arg);
        // Safety: the kernel stays within tensors of the sizes that `lstm_backward` documents.
        unsafe {
            backward_steps::launch_unchecked(
                &client,
                CubeCount::Static(batch.div_ceil(layout.rows) as u32, 1, 1),
                CubeDim::new_2d(layout.columns as u32, layout.slices as u32),
                addresses,
                width,
                self.gates.into_buffer_arg(),
                self.gradients.into_buffer_arg(),
                outputs.into_buffer_arg(),
                recurrent.into_buffer_arg(),
                before_hidden,
                before_cell,
                after_hidden,
                after_cell,
                previous,
                cells,
                hidden,
                cell,
                batch,
                steps,
                all_steps,
                first_step,
                layout,
                in_place,
                dtypes,
            );
        }
    }
}

/// All steps of the rows of a cube, from the first to the last to compute cells and hidden units again, and back. A thread
/// keeps the gradients of its rows and column in global memory, where nobody else touches them. The gradients of a step's
/// gates are in shared memory, where all threads read them, or in chunks of it.
#[cube(launch_unchecked, address_type = "dynamic")]
fn backward_steps<G: Float, O: Float, E: Float, N: Size>(
    gates: &[Vector<G, N>],
    gradients: &mut [Vector<f32, N>],
    outputs: &[Vector<O, N>],
    weights: &[Vector<E, N>],
    before_hidden: &[Vector<f32, N>],
    before_cell: &[Vector<f32, N>],
    after_hidden: &[Vector<f32, N>],
    after_cell: &[Vector<f32, N>],
    previous: &mut [Vector<f32, N>],
    cells: &mut [Vector<f32, N>],
    hidden: &mut [Vector<f32, N>],
    cell: &mut [Vector<f32, N>],
    batch: usize,
    steps: usize,
    all_steps: usize,
    first_step: usize,
    #[comptime] layout: Layout,
    #[comptime] in_place: bool,
    #[define(G, O, E)] _dtypes: [ElemType; 3],
) {
    let units = comptime!(layout.product.units);
    let tiles = comptime!(layout.tiles());
    let rows_of_thread = comptime!(layout.rows_of_thread());
    let is_one_chunk = comptime!(layout.chunks() == 1);
    let first_row = CUBE_POS_X as usize * layout.rows;
    let slice = UNIT_POS_Y as usize;
    let mut factor = Shared::<[Vector<f32, N>]>::new_slice(comptime!(layout.factor_vectors()));
    let mut shared = Shared::<[Vector<f32, N>]>::new_slice(comptime!(layout.sum_vectors()));
    // Rows beyond the batch are multiplied too, but nobody reads the result.
    let mut at = UNIT_POS as usize;
    while at < comptime!(layout.factor_vectors()) {
        factor[at] = Vector::new(0.0);
        at += CUBE_DIM as usize;
    }

    for tile in 0..tiles {
        let column = tile * layout.columns + UNIT_POS_X as usize;
        #[unroll]
        for index in 0..rows_of_thread {
            let row = slice + index * layout.slices;
            if column < units && row < layout.rows && first_row + row < batch {
                let row = first_row + row;
                let at = row * units + column;
                hidden[at] = after_hidden[at];
                cell[at] = after_cell[at];
                let mut hidden_units = before_hidden[at];
                let mut cell_units = before_cell[at];
                for step in 0..steps {
                    let of_step = row * steps + step;
                    let first = of_step * 4 * units + column;
                    let i = gate_at::<G, N>(gates, gradients, first, in_place);
                    let f = gate_at::<G, N>(gates, gradients, first + units, in_place);
                    let g = gate_at::<G, N>(gates, gradients, first + 2 * units, in_place);
                    let o = gate_at::<G, N>(gates, gradients, first + 3 * units, in_place);
                    previous[of_step * units + column] = hidden_units;
                    cell_units = next_cell(i, f, g, cell_units);
                    cells[of_step * units + column] = cell_units;
                    hidden_units = put_out::<E, N>(o, cell_units);
                }
            }
        }
    }
    sync_cube();

    for passed in 0..steps {
        let step = steps - 1 - passed;
        for tile in 0..tiles {
            let column = tile * layout.columns + UNIT_POS_X as usize;
            #[unroll]
            for index in 0..rows_of_thread {
                let row_of_cube = slice + index * layout.slices;
                if column < units && row_of_cube < layout.rows && first_row + row_of_cube < batch {
                    let row = first_row + row_of_cube;
                    let at = row * units + column;
                    let of_step = row * steps + step;
                    let of_hidden = hidden[at]
                        + Vector::cast_from(outputs[(row * all_steps + first_step + step) * units + column]);
                    let of_cells = of_step * units + column;
                    let before = if step == 0 { before_cell[at] } else { cells[of_cells - units] };
                    let first = of_step * 4 * units + column;
                    let i = gate_at::<G, N>(gates, gradients, first, in_place);
                    let f = gate_at::<G, N>(gates, gradients, first + units, in_place);
                    let g = gate_at::<G, N>(gates, gradients, first + 2 * units, in_place);
                    let o = gate_at::<G, N>(gates, gradients, first + 3 * units, in_place);
                    // With σ′ = σ(1 − σ) and tanh′ = 1 − tanh²:
                    // dc′ = dc + dh·o·tanh′(c), di = dc′·g·σ′, df = dc′·c₋₁·σ′, dg = dc′·i·tanh′, do = dh·tanh(c)·σ′,
                    // dc₋₁ = dc′·f.
                    let one = Vector::<f32, N>::new(1.0);
                    let activated = cells[of_cells].tanh();
                    let of_cell = fma(of_hidden, o * (one - activated * activated), cell[at]);
                    cell[at] = of_cell * f;
                    let mut made = Array::<Vector<f32, N>>::new(4usize);
                    made[0] = of_cell * g * (i * (one - i));
                    made[1] = of_cell * before * (f * (one - f));
                    made[2] = of_cell * i * (one - g * g);
                    made[3] = of_hidden * activated * (o * (one - o));
                    #[unroll]
                    for gate in 0..4 {
                        gradients[first + gate * units] = made[gate];
                        if is_one_chunk {
                            factor[row_of_cube * layout.chunk + gate * units + column] = made[gate];
                        }
                    }
                }
            }
        }
        sync_cube();
        for tile in 0..tiles {
            let column = tile * layout.columns + UNIT_POS_X as usize;
            let mut sums = Array::<Vector<f32, N>>::new(layout.rows);
            for chunk in 0..comptime!(layout.chunks()) {
                let chunk_start = chunk * layout.chunk;
                let length = (layout.product.inner - chunk_start).min(layout.chunk);
                if comptime!(!is_one_chunk) {
                    // There is one row, since several are not divided.
                    let first = (first_row * steps + step) * 4 * units + chunk_start;
                    let mut at = UNIT_POS as usize;
                    while at < length {
                        factor[at] = gradients[first + at];
                        at += CUBE_DIM as usize;
                    }
                    sync_cube();
                }
                if column < units {
                    let of_slice = (length + comptime!(layout.slices - 1)) / layout.slices;
                    let start = slice * of_slice;
                    let end = (start + of_slice).min(length);
                    let place = SumPlace { column, factor: 0usize, chunk_start, start, end };
                    add_products::<E, N>(&mut sums, &factor, weights, &place, layout);
                }
                if comptime!(!is_one_chunk) {
                    sync_cube();
                }
            }
            if column < units {
                hand_over(&sums, &mut shared, layout);
            }
            sync_cube();
            #[unroll]
            for index in 0..rows_of_thread {
                let row = slice + index * layout.slices;
                if column < units && row < layout.rows && first_row + row < batch {
                    hidden[(first_row + row) * units + column] = sum_of_slices(&shared, row, 0usize, layout);
                }
            }
            // The next tile overwrites the sums.
            if comptime!(tiles > 1) {
                sync_cube();
            }
        }
    }
}

/// A vector of gates, which lie in a tensor of their own or where their gradients will be.
#[cube]
fn gate_at<G: Float, N: Size>(
    gates: &[Vector<G, N>],
    gradients: &mut [Vector<f32, N>],
    at: usize,
    #[comptime] in_place: bool,
) -> Vector<f32, N> {
    if in_place { gradients[at] } else { Vector::<f32, N>::cast_from(gates[at]) }
}
