//! The product of some rows with the recurrent weights, and the cell, inside kernels.

use cubecl::prelude::*;

use super::layout::Layout;

/// `values` rounded to the nearest that `E` can hold.
#[cube]
pub(super) fn rounded<E: Float, N: Size>(values: Vector<f32, N>) -> Vector<f32, N> {
    Vector::cast_from(Vector::<E, N>::cast_from(values))
}

/// 1 / (1 + e⁻ˣ).
#[cube]
pub(super) fn sigmoid<N: Size>(values: Vector<f32, N>) -> Vector<f32, N> {
    let one = Vector::<f32, N>::new(1.0);
    one / (one + (-values).exp())
}

/// The next cell, f·c + i·g. Backward computes it again, to the same bits.
#[cube]
pub(super) fn next_cell<N: Size>(
    input: Vector<f32, N>,
    forget: Vector<f32, N>,
    candidate: Vector<f32, N>,
    cell: Vector<f32, N>,
) -> Vector<f32, N> {
    fma(forget, cell, input * candidate)
}

/// The hidden units, o·tanh(c), rounded. Backward computes them again, to the same bits.
#[cube]
pub(super) fn put_out<E: Float, N: Size>(output: Vector<f32, N>, cell: Vector<f32, N>) -> Vector<f32, N> {
    rounded::<E, N>(output * cell.tanh())
}

/// The part of a product that a thread computes.
#[derive(CubeType)]
pub(super) struct SumPlace {
    /// The column of vectors.
    pub(super) column: usize,
    /// The first vector of the factor in shared memory.
    pub(super) factor: usize,
    /// The first vector of the chunk within a row of the factor.
    pub(super) chunk_start: usize,
    /// The first and the last vector but one of the thread's slice, within the chunk.
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Adds the products of the factor, `[rows][chunk]` vectors, and the weights, `[inner · N][parts][units]`, to `sums`,
/// `[rows][parts]`.
#[cube]
pub(super) fn add_products<E: Float, N: Size>(
    sums: &mut Array<Vector<f32, N>>,
    factor: &Shared<[Vector<f32, N>]>,
    weights: &[Vector<E, N>],
    place: &SumPlace,
    #[comptime] layout: Layout,
) {
    // Loads of several rows of the weights are under way at once.
    let at_once = comptime!((4 / layout.product.width).max(1));
    let mut at = place.start;
    while at + at_once <= place.end {
        #[unroll]
        for offset in 0..at_once {
            add_product::<E, N>(sums, factor, weights, place, at + offset, layout);
        }
        at += at_once;
    }
    while at < place.end {
        add_product::<E, N>(sums, factor, weights, place, at, layout);
        at += 1;
    }
}

/// Adds the products of the vectors `at` of the factor.
#[cube]
fn add_product<E: Float, N: Size>(
    sums: &mut Array<Vector<f32, N>>,
    factor: &Shared<[Vector<f32, N>]>,
    weights: &[Vector<E, N>],
    place: &SumPlace,
    at: usize,
    #[comptime] layout: Layout,
) {
    let parts = comptime!(layout.product.parts);
    let units = comptime!(layout.product.units);
    let width = comptime!(layout.product.width);
    let first = (place.chunk_start + at) * width;
    #[unroll]
    for inner in 0..width {
        #[unroll]
        for part in 0..parts {
            let weight = weights[((first + inner) * parts + part) * units + place.column];
            let weight = Vector::<f32, N>::cast_from(weight);
            #[unroll]
            for row in 0..layout.rows {
                let value = factor[place.factor + row * layout.chunk + at].extract(inner);
                let index = comptime!(row * parts + part);
                sums[index] = fma(Vector::<f32, N>::new(value), weight, sums[index]);
            }
        }
    }
}

/// Writes the sums of a thread's slice, `[rows][parts]`, to shared memory, `[slices][rows][parts][columns]`.
#[cube]
pub(super) fn hand_over<N: Size>(
    sums: &Array<Vector<f32, N>>,
    shared: &mut Shared<[Vector<f32, N>]>,
    #[comptime] layout: Layout,
) {
    let count = comptime!(layout.rows * layout.product.parts);
    let first = UNIT_POS_Y as usize * count;
    #[unroll]
    for index in 0..count {
        shared[(first + index) * layout.columns + UNIT_POS_X as usize] = sums[index];
    }
}

/// The sum over the slices for a row and part of the thread's column.
#[cube]
pub(super) fn sum_of_slices<N: Size>(
    shared: &Shared<[Vector<f32, N>]>,
    row: usize,
    #[comptime] part: usize,
    #[comptime] layout: Layout,
) -> Vector<f32, N> {
    let parts = comptime!(layout.product.parts);
    let first = (row * parts + part) * layout.columns + UNIT_POS_X as usize;
    let mut sum = shared[first];
    #[unroll]
    for slice in 1..layout.slices {
        sum += shared[first + slice * comptime!(layout.rows * parts * layout.columns)];
    }
    sum
}
