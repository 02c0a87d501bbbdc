//! Products by vector instructions, in 32 bits.

use burn_backend::{Shape, TensorMetadata};
use burn_flex::FlexTensor;

use super::{Matrix, ROWS, SUMMED, WeightSums};
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
        let Self { sizes, .. } = self;
        let (inner, columns, rows) = (sizes.inner, sizes.columns, left.shape()[0]);
        let (values, packed) = (StoredFloats::of(left), self.packed(right));
        let panels = &Panels::new(&packed, sizes);
        by_dtype!(left.dtype(), E => {
            let (made, ()) = uninit::made::<E, _>(rows * columns, |made| {
                let parts = made.parts(ROWS * columns).enumerate();
                workers::each(parts, workspace, |(part, mut made), workspace| {
                    by_vectors(|| {
                        let (first, count) = (part * ROWS, ROWS.min(rows - part * ROWS));
                        let (results, beside) = workspace.split_at_mut(self.of_products());
                        let put = |rows, inner_range, tile: &mut [f32]| {
                            with_values!(values, left => {
                                let row = |row: usize| &left[(first + row) * inner..][..inner];
                                sizes.put_rows_of(row)(rows, inner_range, tile);
                            });
                        };
                        let output = OutputRows { elements: &mut *results, stride: columns };
                        panels.multiply(count, put, output, beside, false);
                        for row in results.chunks_exact_mut(columns).take(count) {
                            if let Some(plus) = plus {
                                row.iter_mut().zip(plus).for_each(|(value, plus)| *value += plus);
                            }
                            made.write_first(row);
                        }
                    });
                });
            });
            E::tensor(made, Shape::from([rows, columns]))
        })
    }
}

/// The workspace of sums over rows: panels of inputs, and for each task gradients in tiles and their products.
pub(super) fn workspace_of_sums(WeightSums { rows, outputs, features }: WeightSums) -> Workspace {
    let sizes = Panelled::new(SUMMED.min(rows), features);
    Workspace {
        shared: sizes.elements(),
        of_each: sizes.elements_beside(ROWS),
        tasks: outputs.div_ceil(ROWS),
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
    for first in (0..rows).step_by(SUMMED) {
        let count = SUMMED.min(rows - first);
        let sizes = Panelled::new(count, features);
        let packed = with_values!(input, input => {
            sizes.packed_rows(|row| &input[(first + row) * features..][..features])
        });
        let panels = &Panels::new(&packed, sizes);
        let parts = weight.chunks_mut((ROWS * features).max(1)).zip(bias.chunks_mut(ROWS)).enumerate();
        let from = Gradients { values: gradient, first, outputs };
        workers::each(parts, workspace, |(part, (weight, bias)), workspace| {
            by_vectors(|| from.add_products(part * ROWS, panels, [weight, bias], workspace));
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
        let put = |columns, inner, tile: &mut [f32]| {
            with_values!(self.values, gradient => {
                let gradient = &gradient[self.first * stride + output..];
                sizes.put_columns_of(gradient, stride)(columns, inner, tile);
            });
        };
        let (tiles, last) = sizes.in_tiles(bias.len(), put, workspace);
        sizes.add_row_sums(tiles, bias);
        let output = OutputRows { elements: weight, stride: sizes.columns };
        panels.multiply_tiles(bias.len(), tiles, output, last, true);
    }
}

