//! The gradient of a convolution's weight on tensor cores.

use cubecl::{ir::ElemType, prelude::*};

use super::{
    correlate::{Sums, SumsLaunch, Window, WindowLaunch},
    tensor_cores::{FRAGMENT, Factors, ROOM, no_products},
};
use crate::{
    launch::{THREADS, addresses, cube, vector_width},
    partial_sums::TILE,
    tensor::{GpuRuntime, GpuTensor, sizes},
};

/// Positions whose values are in shared memory at once: a multiple of what an instruction sums.
pub(super) const DEPTH: usize = 32;

/// Elements from a row of a tile to the next one.
const PITCH: usize = TILE + ROOM;

/// Threads of a plane, on every card that has tensor cores.
const PLANE: usize = 32;

/// Elements of a tile that a thread loads.
const OF_THREAD: usize = DEPTH * TILE / THREADS as usize;

/// Writes the partial sums `[splits, C_out, k·k·C_in]` of images channels-last, `[B, H, W, C_in]` and `[B, h, w, C_out]`.
pub(super) fn write_partial_sums(
    input: &GpuTensor,
    gradient: &GpuTensor,
    partial: &GpuTensor,
    sums: SumsLaunch<GpuRuntime>,
    window: WindowLaunch<GpuRuntime>,
    factors: Factors,
) {
    let [splits, outputs, inner] = sizes(partial);
    let [_, _, _, channels] = sizes(input);
    let tiles = [inner, outputs].map(|size| size.div_ceil(TILE) as u32);
    let widths = [outputs, channels].map(|size| vector_width(size, &[input.dtype]).min(OF_THREAD));
    // SAFETY: every index into input, gradient and partial sums is compared with their sizes, which are passed.
    unsafe {
        sum_products_of_tiles::launch_unchecked::<GpuRuntime>(
            &partial.client,
            CubeCount::Static(tiles[0], tiles[1], splits as u32),
            cube(),
            addresses(&[input, gradient, partial]),
            widths[0],
            widths[1],
            input.clone().into_buffer_arg(),
            gradient.clone().into_buffer_arg(),
            partial.clone().into_buffer_arg(),
            sums,
            window,
            factors.step,
            factors.formats,
        );
    }
}

/// A cube sums the products of [`TILE`] outputs and [`TILE`] weights over its positions. Eight planes share the tile: each has
/// 16 outputs and 32 weights. The vectors of the next positions are loaded while tensor cores multiply.
#[cube(launch_unchecked, address_type = "dynamic")]
fn sum_products_of_tiles<E: Float, S: Float, N: Size, M: Size>(
    input: &[Vector<E, M>],
    gradient: &[Vector<E, N>],
    partial: &mut [f32],
    sums: Sums,
    window: Window,
    #[comptime] step: usize,
    #[define(E, S)] _formats: [ElemType; 2],
) {
    let wide = N::value();
    let long = M::value();
    let first_output = CUBE_POS_Y as usize * TILE;
    let first_weight = CUBE_POS_X as usize * TILE;
    let of_gradient = vector_place(wide);
    let of_input = vector_place(long);
    let output = first_output + of_gradient.column * wide;
    let weight = first_weight + of_input.column * long;
    let (tap, channel) = window.of_channels.div_mod(weight);
    let (down, across) = window.across.div_mod(tap);
    let tap = Tap { is_there: weight < sums.inner, channel, down, across };

    let mut outputs = Shared::<[Vector<S, N>]>::new_aligned_slice(comptime!(DEPTH * PITCH / wide), 128usize);
    let mut weights = Shared::<[Vector<S, M>]>::new_aligned_slice(comptime!(DEPTH * PITCH / long), 128usize);
    let mut next_outputs = Array::<Vector<E, N>>::new(comptime!(OF_THREAD / wide));
    let mut next_weights = Array::<Vector<E, M>>::new(comptime!(OF_THREAD / long));
    let plane = UNIT_POS as usize / PLANE;
    let (row, column) = (plane / 2 * FRAGMENT, plane % 2 * (2 * FRAGMENT));
    let left = no_products(step);
    let right = no_products(step);

    // The shares of the last cubes may be beyond the positions.
    let mut chunk = min(CUBE_POS_Z as usize * sums.of_split, sums.positions);
    let end = min(chunk + sums.of_split, sums.positions);
    // The first round only loads, and the last one only multiplies.
    let rounds = (end - chunk).div_ceil(DEPTH) + 1;
    for round in 0..rounds {
        if round > 0 {
            hand_over(&next_outputs, &mut outputs, &of_gradient);
            hand_over(&next_weights, &mut weights, &of_input);
            sync_cube();
        }
        if chunk < end {
            load_gradient(gradient, &mut next_outputs, chunk + of_gradient.row, end, output, &sums);
            load_input(input, &mut next_weights, chunk + of_input.row, end, &tap, &window);
            chunk += DEPTH;
        }
        if round > 0 {
            multiply(&outputs, &weights, row, column, &left, &right, step);
            sync_cube();
        }
    }

    let (first_output, first_weight) = (first_output + row, first_weight + column);
    write_sums(partial, &left, plane, first_output, first_weight, &sums);
    write_sums(partial, &right, plane, first_output, first_weight + FRAGMENT, &sums);
}

/// The place of a thread's first vector in a tile: the others are in the same column, as many rows below as all threads fill.
#[derive(CubeType)]
struct VectorPlace {
    row: usize,
    column: usize,
}

/// The place of the weight whose factors a thread loads.
#[derive(CubeType)]
struct Tap {
    is_there: bool,
    channel: usize,
    down: usize,
    across: usize,
}

#[cube]
fn vector_place(#[comptime] width: usize) -> VectorPlace {
    let columns = comptime!(TILE / width);
    VectorPlace { row: UNIT_POS as usize / columns, column: UNIT_POS as usize % columns }
}

/// Loads a thread's vectors of the output's gradient, from `position` on; zeros beyond the positions and outputs.
#[cube]
fn load_gradient<E: Float, N: Size>(
    gradient: &[Vector<E, N>],
    next: &mut Array<Vector<E, N>>,
    position: usize,
    end: usize,
    output: usize,
    sums: &Sums,
) {
    let width = N::value();
    #[unroll]
    for index in 0..comptime!(OF_THREAD / width) {
        let position = position + index * comptime!(THREADS as usize * width / TILE);
        let mut values = Vector::new(E::from_int(0));
        if position < end && output < sums.outputs {
            values = gradient[(position * sums.outputs + output) / width];
        }
        next[index] = values;
    }
}

/// Loads a thread's vectors of the input, each from the pixel that meets the tap at its position; zeros beyond the image.
#[cube]
fn load_input<E: Float, M: Size>(
    input: &[Vector<E, M>],
    next: &mut Array<Vector<E, M>>,
    position: usize,
    end: usize,
    tap: &Tap,
    window: &Window,
) {
    let width = M::value();
    #[unroll]
    for index in 0..comptime!(OF_THREAD / width) {
        let position = position + index * comptime!(THREADS as usize * width / TILE);
        let mut values = Vector::new(E::from_int(0));
        if position < end && tap.is_there {
            let (line, x) = window.columns.div_mod(position);
            let (sample, y) = window.rows.div_mod(line);
            let line = y * window.stride_down + tap.down;
            let place = x * window.stride_across + tap.across;
            if line >= window.padding_down
                && line < window.padding_down + window.height
                && place >= window.padding_across
                && place < window.padding_across + window.width
            {
                let line = sample * window.height + line - window.padding_down;
                let pixel = line * window.width + place - window.padding_across;
                values = input[(pixel * window.channels + tap.channel) / width];
            }
        }
        next[index] = values;
    }
}

/// Writes a thread's vectors into the tile.
#[cube]
fn hand_over<E: Float, S: Float, N: Size>(
    next: &Array<Vector<E, N>>,
    tile: &mut Shared<[Vector<S, N>]>,
    place: &VectorPlace,
) {
    let width = N::value();
    #[unroll]
    for index in 0..comptime!(OF_THREAD / width) {
        let row = place.row + index * comptime!(THREADS as usize * width / TILE);
        tile[row * comptime!(PITCH / width) + place.column] = Vector::cast_from(next[index]);
    }
}

/// Adds the products of a plane: 16 outputs from `row` on, 32 weights from `column` on.
#[cube]
fn multiply<S: Float, N: Size, M: Size>(
    outputs: &Shared<[Vector<S, N>]>,
    weights: &Shared<[Vector<S, M>]>,
    row: usize,
    column: usize,
    left: &cmma::Matrix<f32>,
    right: &cmma::Matrix<f32>,
    #[comptime] step: usize,
) {
    let wide = N::value();
    let long = M::value();
    #[unroll]
    for index in 0..comptime!(DEPTH / step) {
        let first = comptime!(index * step * PITCH);
        let factor = cmma::Matrix::<Vector<S, N>>::from_slice(
            cmma::MatrixIdent::A,
            FRAGMENT,
            FRAGMENT,
            step,
            cmma::MatrixLayout::ColMajor,
            &outputs[(first + row) / wide..comptime!(DEPTH * PITCH / wide)],
            comptime!(PITCH as u32),
        );
        #[unroll]
        for half in 0..2usize {
            let of_half = cmma::Matrix::<Vector<S, M>>::from_slice(
                cmma::MatrixIdent::B,
                FRAGMENT,
                FRAGMENT,
                step,
                cmma::MatrixLayout::RowMajor,
                &weights
                    [(first + column + comptime!(half * FRAGMENT)) / long..comptime!(DEPTH * PITCH / long)],
                comptime!(PITCH as u32),
            );
            if comptime!(half == 0) {
                cmma::execute(&factor, &of_half, left, left);
            } else {
                cmma::execute(&factor, &of_half, right, right);
            }
        }
    }
}

/// Writes the sums of an instruction, as far as there are such outputs and weights.
#[cube]
fn write_sums(
    partial: &mut [f32],
    sum: &cmma::Matrix<f32>,
    plane: usize,
    first_output: usize,
    first_weight: usize,
    sums: &Sums,
) {
    let patch = comptime!(FRAGMENT * FRAGMENT);
    let planes = comptime!(THREADS as usize / PLANE);
    let mut patches = Shared::<[f32]>::new_aligned_slice(comptime!(planes * patch), 128usize);
    let first = plane * patch;
    cmma::store(
        &mut patches[first..first + patch],
        sum,
        comptime!(FRAGMENT as u32),
        cmma::MatrixLayout::RowMajor,
    );
    sync_cube();
    #[unroll]
    for index in 0..comptime!(FRAGMENT * FRAGMENT / PLANE) {
        let element = UNIT_POS_PLANE as usize + index * PLANE;
        let output = first_output + element / FRAGMENT;
        let weight = first_weight + element % FRAGMENT;
        if output < sums.outputs && weight < sums.inner {
            let at = (CUBE_POS_Z as usize * sums.outputs + output) * sums.inner + weight;
            partial[at] = patches[first + element];
        }
    }
}
