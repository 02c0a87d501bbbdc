//! Products by vector instructions, in 32 bits.

use burn_backend::{Shape, TensorMetadata};
use burn_flex::FlexTensor;

use super::{Matrix, ROWS, WeightSums, write_rows};
use crate::{
    custom_op::Workspace,
    flex_tensor::zeros,
    panels::{OutputRows, Panelled, Panels},
    simd::by_vectors,
    stored_float::{StoredFloat, StoredFloats, by_dtype, with_values},
    uninit, workers,
};

/// A product with a matrix, whose columns are packed into panels.
#[derive(Clone, Copy)]
pub(super) struct ByPanels {
    matrix: Matrix,
    sizes: Panelled,
}

impl ByPanels {
    pub(super) fn new(matrix: Matrix) -> Self {
        Self { matrix, sizes: Panelled::new(matrix.inner, matrix.columns) }
    }

    /// The workspace of `rows` rows: the panels, and for each task rows in tiles and their products.
    pub(super) fn workspace(self, rows: usize) -> Workspace {
        Workspace {
            shared: self.sizes.elements(),
            of_each: self.of_products() + self.sizes.elements_beside(ROWS),
            tasks: rows.div_ceil(ROWS),
            ..Workspace::default()
        }
    }

    fn of_products(self) -> usize {
        self.sizes.tile.padded_rows(ROWS) * self.sizes.columns
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
        let Panelled { inner, columns, .. } = self.sizes;
        let rows = left.shape()[0];
        let packed = self.packed(right);
        let panels = &Panels::new(&packed, self.sizes);
        let left = StoredFloats::of(left);
        by_dtype!(left.dtype(), E => {
            let (made, ()) = uninit::made::<E, _>(rows * columns, |made| {
                workers::each(made.parts(ROWS * columns).enumerate(), workspace, |(part, mut made), memory| {
                    let (first, count) = (part * ROWS, ROWS.min(rows - part * ROWS));
                    by_vectors(|| {
                        let put = |rows, inner_range, tile: &mut [f32]| {
                            with_values!(left, left => {
                                let row = |row: usize| &left[(first + row) * inner..][..inner];
                                self.sizes.put_rows_of(row)(rows, inner_range, tile);
                            });
                        };
                        // Whole rows are written afterwards: memory takes them faster than pieces of many rows.
                        let (products, beside) = memory.split_at_mut(self.of_products());
                        let output = OutputRows { elements: &mut *products, stride: columns };
                        panels.multiply(count, put, output, beside, false);
                        write_rows(products.chunks_exact(columns).take(count), plus, &mut made);
                    });
                });
            });
            E::tensor(made, Shape::from([rows, columns]))
        })
    }
}

/// The workspace of sums over rows: panels of inputs, and for each task gradients in tiles and their products.
pub(super) fn workspace_of_sums(sums: WeightSums) -> Workspace {
    let sizes = Panelled::new(sums.summed(), sums.features);
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
        let sizes = Panelled::new(count, features);
        let packed = with_values!(input, input => {
            sizes.packed_rows(|row| &input[(first + row) * features..][..features])
        });
        let panels = &Panels::new(&packed, sizes);
        let of_each = WeightSums::OUTPUTS;
        let parts = weight.chunks_mut((of_each * features).max(1)).zip(bias.chunks_mut(of_each)).enumerate();
        let from = Gradients { values: gradient, first, outputs };
        workers::each(parts, workspace, |(part, (weight, bias)), workspace| {
            by_vectors(|| from.add_products(part * of_each, panels, [weight, bias], workspace));
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

impl Gradients<'_> {
    /// Adds the products to those outputs whose sums are given.
    #[inline(always)]
    fn add_products(
        self,
        output: usize,
        panels: &Panels<'_>,
        [weight, bias]: [&mut [f32]; 2],
        workspace: &mut [f32],
    ) {
        let (sizes, stride) = (panels.sizes, self.outputs);
        let (tiles, last) = with_values!(self.values, gradient => {
            sizes.columns_in_tiles(&gradient[self.first * stride + output..], stride, bias, workspace)
        });
        let output = OutputRows { elements: weight, stride: sizes.columns };
        panels.multiply_tiles(bias.len(), tiles, output, last, true);
    }
}
