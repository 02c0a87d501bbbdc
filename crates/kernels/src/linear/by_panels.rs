//! Products by vector instructions, in 32 bits.

use burn_backend::{Shape, TensorMetadata};
use burn_flex::FlexTensor;

use super::{Matrix, WeightSums};
use crate::{
    custom_op::{Workspace, split},
    flex_tensor::zeros,
    panels::{OutputRows, Panelled, Panels},
    simd::{SimdLoops, vectorised},
    stored_float::{StoredFloat, StoredFloats, by_dtype, with_values},
    uninit::{self, UninitSlice},
    workers,
};

/// Rows of a task, at most. So many use each panel while it is in the cache.
const ROWS: usize = 96;

/// Columns whose products a task has at once: with the rows they stay in the second-level cache. It is a multiple of every panel's.
const COLUMNS: usize = 384;

/// A product with a matrix, whose columns are packed into panels.
#[derive(Clone, Copy)]
pub(super) struct ByPanels {
    matrix: Matrix,
    sizes: Panelled,
}

impl ByPanels {
    pub(super) fn new(matrix: Matrix) -> Self {
        Self { matrix, sizes: Panelled::for_many_rows(matrix.inner, matrix.columns) }
    }

    /// The workspace of `rows` rows: the panels, and for each task products and rows in tiles.
    pub(super) fn workspace(self, rows: usize) -> Workspace {
        Workspace {
            shared: self.sizes.elements(),
            of_each: self.parts(rows.min(ROWS)).into_iter().sum(),
            tasks: rows.div_ceil(self.sizes.tile.rows),
            ..Workspace::default()
        }
    }

    /// Elements of a task's workspace: the products, those of a last panel, and the tiles.
    fn parts(self, rows: usize) -> [usize; 3] {
        let Panelled { inner, columns, tile } = self.sizes;
        let padded = tile.padded_rows(rows);
        [columns.min(COLUMNS), tile.columns, inner].map(|columns| padded * columns)
    }

    fn packed(self, right: &FlexTensor) -> Vec<f32> {
        let Matrix { inner, columns, are_columns_along } = self.matrix;
        with_values!(StoredFloats::of(right), values => match are_columns_along {
            true => self.sizes.packed_columns(|column| &values[column * inner..][..inner]),
            false => self.sizes.packed_rows(|row| &values[row * columns..][..columns]),
        })
    }

    /// The rows of a tensor times the matrix, plus a row.
    pub(super) fn multiply(
        self,
        left: &FlexTensor,
        right: &FlexTensor,
        plus: Option<&[f32]>,
        workspace: Workspace,
    ) -> FlexTensor {
        let Panelled { columns, tile, .. } = self.sizes;
        let rows = left.shape()[0];
        let packed = self.packed(right);
        let panels = &Panels::new(&packed, self.sizes);
        let left = StoredFloats::of(left);
        // All threads have tasks.
        let even = rows.div_ceil(4 * rayon::current_num_threads());
        let of_task = even.next_multiple_of(tile.rows).min(ROWS);
        by_dtype!(left.dtype(), E => {
            let (made, ()) = uninit::made::<E, _>(rows * columns, |made| {
                workers::each(made.parts(of_task * columns).enumerate(), workspace, |(part, made), memory| {
                    let first = part * of_task;
                    let count = of_task.min(rows - first);
                    let left = LeftRows { values: left, first, count };
                    vectorised(Rows { product: self, panels, left, plus, memory, made });
                });
            });
            E::tensor(made, Shape::from([rows, columns]))
        })
    }
}

/// Some rows of the left matrix.
#[derive(Clone, Copy)]
struct LeftRows<'a> {
    /// The whole matrix.
    values: StoredFloats<'a>,
    first: usize,
    count: usize,
}

/// Computes some rows of the product, plus a row.
struct Rows<'a, 'b, E> {
    product: ByPanels,
    panels: &'a Panels<'a>,
    left: LeftRows<'a>,
    plus: Option<&'a [f32]>,
    memory: &'a mut [f32],
    made: UninitSlice<'b, E>,
}

impl<E: StoredFloat> SimdLoops for Rows<'_, '_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { product, panels, left: LeftRows { values, first, count }, plus, memory, made } = self;
        let Panelled { inner, columns, .. } = product.sizes;
        let [products, last, tiles] = split(memory, product.parts(count));
        let tiles = with_values!(values, values => {
            let row = |row: usize| &values[(first + row) * inner..][..inner];
            product.sizes.in_tiles(count, product.sizes.put_rows_of(row), tiles)
        });
        let mut made = made.rows(columns);
        for first in (0..columns).step_by(COLUMNS) {
            let columns = first..(first + COLUMNS).min(columns);
            let stride = columns.len();
            let output = OutputRows { elements: &mut *products, stride };
            panels.multiply_columns(count, tiles, columns.clone(), output, last, false);
            // Long pieces of rows are written afterwards: memory takes them faster than short ones of many rows.
            let plus = plus.map(|plus| &plus[columns]);
            made.write_columns(products.chunks_exact(stride).take(count), plus);
        }
    }
}

/// The workspace of sums over rows: panels of inputs, and for each task gradients in tiles and their products.
pub(super) fn workspace_of_sums(sums: WeightSums) -> Workspace {
    let sizes = Panelled::for_many_rows(sums.summed(), sums.features);
    Workspace {
        shared: sizes.elements(),
        of_each: sizes.elements_beside(WeightSums::OUTPUTS),
        tasks: sums.outputs.div_ceil(WeightSums::OUTPUTS),
        ..Workspace::default()
    }
}

/// The gradients of weight and bias.
pub(super) fn weight_sums(
    sums: WeightSums,
    [gradient, input]: [StoredFloats<'_>; 2],
    workspace: Workspace,
) -> [Vec<f32>; 2] {
    let WeightSums { rows, outputs, features } = sums;
    let (mut weight, mut bias) = (zeros(outputs * features), zeros(outputs));
    for first in (0..rows).step_by(sums.summed().max(1)) {
        let count = sums.summed().min(rows - first);
        let sizes = Panelled::for_many_rows(count, features);
        let packed = with_values!(input, input => {
            sizes.packed_rows(|row| &input[(first + row) * features..][..features])
        });
        let panels = &Panels::new(&packed, sizes);
        let of_each = WeightSums::OUTPUTS;
        let parts = weight.chunks_mut((of_each * features).max(1)).zip(bias.chunks_mut(of_each)).enumerate();
        let from = Gradients { values: gradient, first, outputs };
        workers::each(parts, workspace, |(part, (weight, bias)), workspace| {
            vectorised(Outputs { from, first: part * of_each, panels, sums: [weight, bias], workspace });
        });
    }
    [weight, bias]
}

/// The gradients of some rows.
#[derive(Clone, Copy)]
struct Gradients<'a> {
    values: StoredFloats<'a>,
    /// The first of the rows.
    first: usize,
    outputs: usize,
}

/// Adds the products of gradients and inputs to the sums of some outputs.
struct Outputs<'a> {
    from: Gradients<'a>,
    /// The first of the outputs.
    first: usize,
    panels: &'a Panels<'a>,
    /// Those of the weight, and of the bias.
    sums: [&'a mut [f32]; 2],
    workspace: &'a mut [f32],
}

impl SimdLoops for Outputs<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { from, first, panels, sums: [weight, bias], workspace } = self;
        let (sizes, stride) = (panels.sizes, from.outputs);
        let (tiles, last) = with_values!(from.values, gradient => {
            sizes.columns_in_tiles(&gradient[from.first * stride + first..], stride, bias, workspace)
        });
        let output = OutputRows { elements: weight, stride: sizes.columns };
        panels.multiply_tiles(bias.len(), tiles, output, last, true);
    }
}
