//! Products by the matrix unit of the processor, of numbers of 32 bits or of bf16.

use std::ops::Range;

use burn_backend::{DType, Shape, TensorMetadata};
use burn_flex::FlexTensor;
use oomph_bf16::{Element, Line, MatrixUnit, SIDE, Vectors, lines};

use super::{Matrix, Plus, WeightSums};
use crate::{
    custom_op::{Workspace, split},
    feed_forward::Activation,
    matrix_unit::{
        AddRows, Summands, UnitElement, UnitSums, columns_of, elements_around_lines, elements_of_lines,
        of_task, packed_in, parts_of, some_strips, strips_at_once,
    },
    panels::DEPTH,
    simd::{SimdLoops, vectorised},
    stored_float::{StoredFloat, StoredFloats},
    uninit::{self, UninitRows},
    workers,
};

/// Rows of a task, at most. So many use each strip while it is in the cache.
const ROWS: usize = 256;

/// A product with a matrix, whose columns are packed for the unit.
#[derive(Clone, Copy)]
pub(super) struct ByUnit {
    unit: MatrixUnit,
    matrix: Matrix,
    /// Parts of an element.
    parts: usize,
    /// What makes the rows that are multiplied.
    activation: Option<Activation>,
}

impl ByUnit {
    /// A product of elements of a format.
    pub(super) fn new(unit: MatrixUnit, matrix: Matrix, dtype: DType) -> Self {
        Self { unit, matrix, parts: parts_of(dtype), activation: None }
    }

    /// The product with what an activation makes of rows of 32 bits. `None` for other formats.
    pub(super) fn behind(self, activation: Activation) -> Option<Self> {
        (self.parts == f32::PARTS).then_some(Self { activation: Some(activation), ..self })
    }

    /// The workspace of `rows` rows: the packed columns, and for each task packed rows, products, and what the activation makes.
    pub(super) fn workspace(self, rows: usize) -> Workspace {
        let Matrix { inner, columns, .. } = self.matrix;
        Workspace {
            shared: elements_of_lines(columns, inner, self.parts),
            of_each: self.elements(rows.min(ROWS)).into_iter().sum(),
            tasks: rows.div_ceil(SIDE),
            ..Workspace::default()
        }
    }

    /// Elements of a task's workspace: products, what an activation makes of a strip, and packed rows.
    fn elements(self, rows: usize) -> [usize; 3] {
        let Matrix { inner, columns, .. } = self.matrix;
        let strips = columns.div_ceil(SIDE).min(strips_at_once(inner));
        let of_activation = if self.activation.is_some() { SIDE * inner + 2 * DEPTH } else { 0 };
        [
            rows.next_multiple_of(SIDE) * strips * SIDE,
            of_activation,
            elements_around_lines(rows, inner, self.parts),
        ]
    }

    /// The rows of a tensor times the matrix, plus what is added.
    pub(super) fn multiply<E: UnitElement>(
        self,
        left: &FlexTensor,
        right: &FlexTensor,
        plus: Plus<'_>,
        workspace: Workspace,
    ) -> FlexTensor {
        let Matrix { inner, columns, .. } = self.matrix;
        let rows = left.shape()[0];
        let packed = &self.packed(E::values(right));
        let of_task = of_task(rows, ROWS);
        let (made, ()) = uninit::made::<E, _>(rows * columns, |made| {
            let parts = made.parts(of_task * columns).enumerate();
            workers::each(parts, workspace, |(part, made), memory| {
                let first = part * of_task;
                let count = of_task.min(rows - first);
                let [sums, activated, memory] = split(memory, self.elements(count));
                let left = self.left(E::values(left), first, count, activated, memory);
                let onto = plus.rows(first * columns);
                let made = &mut made.rows(columns);
                some_strips::<E>(self.unit, [left, packed], [inner, columns], sums, |sums, of_strip| {
                    vectorised(WriteStrips { sums, of_strip, row: plus.row, onto, made: &mut *made });
                });
            });
        });
        E::tensor(made, Shape::from([rows, columns]))
    }

    /// Packs some rows.
    fn left<'a, E: UnitElement>(
        self,
        values: &[E],
        first: usize,
        count: usize,
        activated: &mut [f32],
        memory: &'a mut [f32],
    ) -> &'a [Line] {
        let inner = self.matrix.inner;
        let to = &mut Line::within(memory)[..lines(count, inner, E::PARTS)];
        let (Some(activation), Some(floats)) = (self.activation, E::floats(values)) else {
            self.unit.pack_left(Vectors::along(&values[first * inner..], inner, count), to);
            return to;
        };
        let strips = to.chunks_exact_mut(lines(1, inner, E::PARTS).max(1));
        for (strip, to) in strips.enumerate() {
            let rows = first + strip * SIDE..first + count.min(strip * SIDE + SIDE);
            let of_strip = rows.len();
            let values = StoredFloats::F32(floats);
            vectorised(Activate { activation, values, rows, inner, to: &mut *activated });
            self.unit.pack_left(Vectors::along(&*activated, inner, of_strip), to);
        }
        to
    }

    fn packed<E: UnitElement>(self, right: &[E]) -> Vec<Line> {
        let Matrix { inner, columns, are_columns_along } = self.matrix;
        let memory = Vec::with_capacity(lines(columns, inner, E::PARTS));
        let all = columns_of(right, [inner, columns], are_columns_along);
        packed_in::<E>(memory, columns, inner, |first, count, strip| {
            self.unit.pack_right(all.some_of(first..first + count, 0..inner), strip);
        })
    }
}

/// What an activation makes of some rows.
struct Activate<'a> {
    activation: Activation,
    /// Its whole input.
    values: StoredFloats<'a>,
    rows: std::ops::Range<usize>,
    inner: usize,
    /// The rows, and room for two pieces behind.
    to: &'a mut [f32],
}

impl SimdLoops for Activate<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { activation, values, rows, inner, to } = self;
        let width = activation.inputs(inner);
        let (to, piece) = to.split_at_mut(to.len() - 2 * DEPTH);
        for (row, to) in rows.zip(to.chunks_exact_mut(inner.max(1))) {
            for begin in (0..inner).step_by(DEPTH) {
                let some = begin..(begin + DEPTH).min(inner);
                activation.load::<FUSED>(values, row * width, inner, some.clone(), piece);
                to[some.clone()].copy_from_slice(&piece[..some.len()]);
            }
        }
    }
}

/// Writes the products with some strips, plus what is added.
struct WriteStrips<'a, 'b, E> {
    sums: &'a [f32],
    /// Products with each strip.
    of_strip: usize,
    row: Option<&'a [f32]>,
    /// Rows to add.
    onto: Option<&'a [E]>,
    made: &'a mut UninitRows<'b, E>,
}

impl<E: StoredFloat> SimdLoops for WriteStrips<'_, '_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { sums, of_strip, row, onto, made } = self;
        made.write_strips(sums, [of_strip, SIDE], row, onto);
    }
}

/// Rows that are summed over at once.
fn summed(sums: WeightSums, parts: usize) -> usize {
    const ROWS: usize = 512;
    if parts == f32::PARTS { sums.rows.min(ROWS) } else { sums.summed() }
}

/// Whether the unit is faster than vectors for sums of 32 bits: each number that is taken apart must be multiplied often enough.
pub(super) fn is_worth_it(sums: WeightSums) -> bool {
    const OFTEN: usize = 128;
    sums.outputs * sums.features >= OFTEN * (sums.outputs + sums.features)
}

/// Gradients and inputs, by blocks of rows.
struct RowsToSum<'a, E> {
    sums: WeightSums,
    gradient: &'a [E],
    input: &'a [E],
}

impl<E: UnitElement> RowsToSum<'_, E> {
    /// The first row of a block, and the number of its rows.
    fn rows(&self, block: usize) -> [usize; 2] {
        let (first, at_once) = (block * self.at_once(), self.at_once());
        [first, at_once.min(self.sums.rows - first)]
    }

    fn at_once(&self) -> usize {
        summed(self.sums, E::PARTS).max(1)
    }

    /// Some outputs of a block, from the first one's gradient on.
    fn gradient(&self, block: usize, output: usize) -> &[E] {
        let ([first, rows], outputs) = (self.rows(block), self.sums.outputs);
        self.gradient.get(first * outputs + output..(first + rows) * outputs).unwrap_or_default()
    }
}

impl<E: UnitElement> Summands<E> for RowsToSum<'_, E> {
    fn blocks(&self) -> usize {
        self.sums.rows.div_ceil(self.at_once())
    }

    fn inner(&self, block: usize) -> usize {
        self.rows(block)[1]
    }

    fn outputs(&self, block: usize, outputs: Range<usize>, pack: impl FnOnce(Vectors<'_, E>)) {
        let gradient = self.gradient(block, outputs.start);
        pack(Vectors::across(gradient, self.sums.outputs, outputs.len(), self.inner(block)));
    }

    fn features(
        &self,
        block: usize,
        _matrix: usize,
        features: Range<usize>,
        pack: impl FnOnce(Vectors<'_, E>),
    ) {
        let ([first, rows], all) = (self.rows(block), self.sums.features);
        pack(Vectors::across(&self.input[first * all + features.start..], all, features.len(), rows));
    }

    fn add_bias(&self, block: usize, output: usize, bias: &mut [f32]) {
        let rows = self.gradient(block, output);
        vectorised(AddRows { rows, outputs: self.sums.outputs, bias });
    }
}

/// The sums over elements of so many parts.
fn unit_sums(unit: MatrixUnit, sums: WeightSums, parts: usize) -> UnitSums<1> {
    UnitSums { unit, outputs: sums.outputs, features: [sums.features], inner: summed(sums, parts), parts }
}

/// The workspace of the gradients of weight and bias.
pub(super) fn workspace_of_sums(unit: MatrixUnit, sums: WeightSums, dtype: DType) -> Workspace {
    unit_sums(unit, sums, parts_of(dtype)).workspace()
}

/// The gradients of weight and bias.
pub(super) fn weight_sums<E: UnitElement>(
    unit: MatrixUnit,
    sums: WeightSums,
    [gradient, input]: [&[E]; 2],
) -> [Vec<f32>; 2] {
    let mut bias = vec![0.0; sums.outputs];
    let weight = unit_sums(unit, sums, E::PARTS).sum(&RowsToSum { sums, gradient, input }, &mut bias);
    [weight, bias]
}
