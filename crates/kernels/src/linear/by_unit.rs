//! Products of bf16 by the matrix unit of the processor.

use burn::tensor::bf16;
use burn_backend::{Shape, TensorMetadata};
use burn_flex::FlexTensor;
use oomph_amx::{Line, MatrixUnit, SIDE, Vectors, lines};

use super::{Matrix, Plus, ROWS, WeightSums};
use crate::{
    custom_op::Workspace,
    flex_tensor::zeros,
    simd::{SimdLoops, vectorised},
    stored_float::StoredFloat,
    uninit::{self, UninitSlice},
    workers,
};

/// Elements of 32 bits that take as much memory as a [`Line`].
const OF_LINE: usize = 16;

/// A product with a matrix, whose columns are packed for the unit.
#[derive(Clone, Copy)]
pub(super) struct ByUnit {
    pub(super) unit: MatrixUnit,
    pub(super) matrix: Matrix,
}

impl ByUnit {
    /// The workspace of `rows` rows: the packed columns, and for each task packed rows and their products.
    pub(super) fn workspace(self, rows: usize) -> Workspace {
        let Matrix { inner, columns, .. } = self.matrix;
        Workspace {
            shared: lines(columns, inner) * OF_LINE,
            of_each: self.of_products() + of_lines(ROWS, inner),
            tasks: rows.div_ceil(ROWS),
            ..Workspace::default()
        }
    }

    fn of_products(self) -> usize {
        ROWS * self.stride()
    }

    /// Columns of the products, with those behind the last one.
    fn stride(self) -> usize {
        self.matrix.columns.next_multiple_of(SIDE)
    }

    /// The rows of a tensor times the matrix, plus what is added.
    pub(super) fn multiply(
        self,
        left: &FlexTensor,
        right: &FlexTensor,
        plus: Plus<'_>,
        workspace: Workspace,
    ) -> FlexTensor {
        let Matrix { inner, columns, .. } = self.matrix;
        let (rows, values): (usize, &[bf16]) = (left.shape()[0], left.storage());
        let packed = &self.packed(right.storage());
        let (made, ()) = uninit::made::<bf16, _>(rows * columns, |made| {
            let parts = made.parts(ROWS * columns).enumerate();
            workers::each(parts, workspace, |(part, made), memory| {
                let (first, count) = (part * ROWS, ROWS.min(rows - part * ROWS));
                let (products, memory) = memory.split_at_mut(self.of_products());
                let left = &mut Line::within(memory)[..lines(count, inner)];
                self.unit.pack_left(Vectors::along(&values[first * inner..], inner, count), left);
                self.unit.multiply([left, packed], inner, products, self.stride(), false);
                let products = &products[..count * self.stride()];
                let onto = plus.rows(first * columns);
                vectorised(WriteRows { products, columns, stride: self.stride(), row: plus.row, onto, made });
            });
        });
        bf16::tensor(made, Shape::from([rows, columns]))
    }

    fn packed(self, right: &[bf16]) -> Vec<Line> {
        let Matrix { inner, columns, are_columns_along } = self.matrix;
        packed(columns, inner, |first, count, strip| {
            let columns = match are_columns_along {
                true => Vectors::along(&right[first * inner..], inner, count),
                false => Vectors::across(&right[first..], columns, count, inner),
            };
            self.unit.pack_right(columns, strip);
        })
    }
}

/// Elements in which there are the lines of `count` vectors, wherever the elements begin.
fn of_lines(count: usize, inner: usize) -> usize {
    (lines(count, inner) + 1) * OF_LINE
}

/// Packs `count` vectors strip by strip, in all threads. `pack` takes the first vector of a strip, the number of its vectors, and its lines.
fn packed(count: usize, inner: usize, pack: impl Fn(usize, usize, &mut [Line]) + Sync) -> Vec<Line> {
    uninit::filled_anew(lines(count, inner), lines(1, inner), |index, strip| {
        let first = index * SIDE;
        pack(first, SIDE.min(count - first), strip);
    })
}

/// The workspace of sums over rows: packed inputs, and for each task packed gradients and their products.
pub(super) fn workspace_of_sums(sums: WeightSums) -> Workspace {
    const OUTPUTS: usize = WeightSums::OUTPUTS;
    Workspace {
        shared: lines(sums.features, sums.summed()) * OF_LINE,
        of_each: OUTPUTS * sums.features.next_multiple_of(SIDE) + of_lines(OUTPUTS, sums.summed()),
        tasks: sums.outputs.div_ceil(OUTPUTS),
        ..Workspace::default()
    }
}

/// The gradients of weight and bias.
pub(super) fn weight_sums(
    unit: MatrixUnit,
    sums: WeightSums,
    [gradient, input]: [&[bf16]; 2],
    workspace: Workspace,
) -> [Vec<f32>; 2] {
    const OUTPUTS: usize = WeightSums::OUTPUTS;
    let WeightSums { rows, outputs, features } = sums;
    let (mut weight, mut bias) = (zeros(outputs * features), zeros(outputs));
    let stride = features.next_multiple_of(SIDE);
    for first in (0..rows).step_by(sums.summed().max(1)) {
        let summed = sums.summed().min(rows - first);
        let [gradient, input] = [(gradient, outputs), (input, features)]
            .map(|(values, columns)| &values[first * columns..][..summed * columns]);
        let packed = &packed(features, summed, |at, count, strip| {
            unit.pack_right(Vectors::across(&input[at..], features, count, summed), strip);
        });
        let parts = weight.chunks_mut((OUTPUTS * features).max(1)).zip(bias.chunks_mut(OUTPUTS)).enumerate();
        workers::each(parts, workspace, |(part, (weight, bias)), memory| {
            let (at, count) = (part * OUTPUTS, bias.len());
            let (products, memory) = memory.split_at_mut(OUTPUTS * stride);
            let left = &mut Line::within(memory)[..lines(count, summed)];
            unit.pack_left(Vectors::across(&gradient[at..], outputs, count, summed), left);
            unit.multiply([left, packed], summed, products, stride, false);
            let gradient = gradient.get(at..).unwrap_or_default();
            vectorised(AddSums { products, stride, gradient, outputs, sums: [weight, bias] });
        });
    }
    [weight, bias]
}

/// Writes the rows of a product, plus what is added.
struct WriteRows<'a, 'b> {
    products: &'a [f32],
    columns: usize,
    /// Elements between the begins of two rows of products.
    stride: usize,
    row: Option<&'a [f32]>,
    /// Rows to add.
    onto: Option<&'a [bf16]>,
    made: UninitSlice<'b, bf16>,
}

impl SimdLoops for WriteRows<'_, '_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { products, columns, stride, row, onto, made } = self;
        let products = products.chunks_exact(stride).map(|row| &row[..columns]);
        made.rows(columns).write(products, row, onto);
    }
}

/// Adds products to the sums of the weight, and rows of gradients to those of the bias.
struct AddSums<'a> {
    products: &'a [f32],
    /// Elements between the begins of two rows of products.
    stride: usize,
    gradient: &'a [bf16],
    /// Elements between the begins of two rows of gradients.
    outputs: usize,
    sums: [&'a mut [f32]; 2],
}

impl SimdLoops for AddSums<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { products, stride, gradient, outputs, sums: [weight, bias] } = self;
        let features = weight.len() / bias.len().max(1);
        for (sums, products) in
            weight.chunks_exact_mut(features.max(1)).zip(products.chunks_exact(stride.max(1)))
        {
            sums.iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
        }
        for row in gradient.chunks(outputs) {
            bias.iter_mut().zip(row).for_each(|(sum, value)| *sum += value.widened());
        }
    }
}
