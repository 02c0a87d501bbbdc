//! Products by the matrix unit of the processor, of numbers of 32 bits or of bf16.

use burn_backend::{DType, Shape, TensorMetadata};
use burn_flex::FlexTensor;
use oomph_amx::{Element, Line, MatrixUnit, SIDE, Vectors, lines};

use super::{Matrix, Plus, WeightSums};
use crate::{
    custom_op::{Workspace, split},
    feed_forward::Activation,
    panels::DEPTH,
    simd::{SimdLoops, vectorised},
    stored_float::{StoredFloat, StoredFloats},
    uninit::{self, UninitRows},
    workers,
};

/// Elements of 32 bits that take as much memory as a [`Line`].
const OF_LINE: usize = 16;

/// Rows of a task, at most. So many use each strip while it is in the cache.
const ROWS: usize = 256;

/// Outputs of a task of sums over rows.
const OUTPUTS: usize = 192;

/// Strips of a task, at least: fewer would load each strip of the other matrix too often.
const FEW: usize = 3;

/// Elements that the unit multiplies.
pub(super) trait UnitElement: Element + StoredFloat {}

impl<E: Element + StoredFloat> UnitElement for E {}

/// The parts of an element of a format.
fn parts_of(dtype: DType) -> usize {
    if dtype == DType::BF16 { burn::tensor::bf16::PARTS } else { f32::PARTS }
}

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
            shared: lines(columns, inner, self.parts) * OF_LINE,
            of_each: self.elements(rows.min(ROWS)).into_iter().sum(),
            tasks: rows.div_ceil(FEW * SIDE),
            ..Workspace::default()
        }
    }

    /// Elements of a task's workspace: products, what an activation makes of a strip, and packed rows.
    fn elements(self, rows: usize) -> [usize; 3] {
        let Matrix { inner, columns, .. } = self.matrix;
        let strips = columns.div_ceil(SIDE).min(strips_at_once(inner));
        let of_activation = if self.activation.is_some() { SIDE * inner + 2 * DEPTH } else { 0 };
        [rows.next_multiple_of(SIDE) * strips * SIDE, of_activation, of_lines(rows, inner, self.parts)]
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
        packed::<E>(columns, inner, |first, count, strip| {
            let columns = match are_columns_along {
                true => Vectors::along(&right[first * inner..], inner, count),
                false => Vectors::across(&right[first..], columns, count, inner),
            };
            self.unit.pack_right(columns, strip);
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

/// Vectors of a task: at most so many, and as many for all threads as can be.
fn of_task(vectors: usize, most: usize) -> usize {
    let (strips, threads) = (vectors.div_ceil(SIDE), rayon::current_num_threads());
    let of_thread = |of_task: &usize| strips.div_ceil(*of_task).div_ceil(threads) * of_task;
    SIDE * (FEW..=most / SIDE).rev().min_by_key(of_thread).unwrap_or(FEW)
}

/// Strips of columns that are multiplied at once, so that their products are written as rows of some length. Where rows to multiply are
/// long, only a part of each is in the cache, and more strips use it.
fn strips_at_once(inner: usize) -> usize {
    const WHOLE: usize = 768;
    if inner <= WHOLE { 8 } else { 16 }
}

/// Multiplies `left` by all strips of `right`. `write` takes the products with some strips, and how many there are with each.
fn some_strips<E: UnitElement>(
    unit: MatrixUnit,
    [left, right]: [&[Line]; 2],
    [inner, columns]: [usize; 2],
    sums: &mut [f32],
    mut write: impl FnMut(&[f32], usize),
) {
    let (of_strip, strips) = (lines(1, inner, E::PARTS), columns.div_ceil(SIDE));
    let at_once = strips_at_once(inner);
    let products = sums.len() / strips.min(at_once).max(1);
    for first in (0..strips).step_by(at_once) {
        let some = first..(first + at_once).min(strips);
        let sums = &mut sums[..some.len() * products];
        let right = &right[some.start * of_strip..some.end * of_strip];
        unit.multiply::<E>([left, right], inner, sums, false);
        write(sums, products);
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

/// Elements in which there are the lines of `count` vectors, wherever the elements begin.
fn of_lines(count: usize, inner: usize, parts: usize) -> usize {
    (lines(count, inner, parts) + 1) * OF_LINE
}

/// Packs `count` vectors strip by strip, in all threads. `pack` takes the first vector of a strip, the number of its vectors, and its lines.
fn packed<E: UnitElement>(
    count: usize,
    inner: usize,
    pack: impl Fn(usize, usize, &mut [Line]) + Sync,
) -> Vec<Line> {
    uninit::filled_anew(lines(count, inner, E::PARTS), lines(1, inner, E::PARTS), |index, strip| {
        let first = index * SIDE;
        pack(first, SIDE.min(count - first), strip);
    })
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

/// Elements of the workspace of a task of sums over rows: products, and packed gradients.
fn elements_of_sums(sums: WeightSums, outputs: usize, summed: usize, parts: usize) -> [usize; 2] {
    let strips = sums.features.div_ceil(SIDE).min(strips_at_once(summed));
    [outputs.next_multiple_of(SIDE) * strips * SIDE, of_lines(outputs, summed, parts)]
}

/// The workspace of sums over rows: packed inputs, and for each task packed gradients and their products.
pub(super) fn workspace_of_sums(sums: WeightSums, dtype: DType) -> Workspace {
    let parts = parts_of(dtype);
    let outputs = sums.outputs.min(OUTPUTS);
    Workspace {
        shared: lines(sums.features, summed(sums, parts), parts) * OF_LINE,
        of_each: elements_of_sums(sums, outputs, summed(sums, parts), parts).into_iter().sum(),
        tasks: sums.outputs.div_ceil(FEW * SIDE),
        ..Workspace::default()
    }
}

/// The gradients of weight and bias.
pub(super) fn weight_sums<E: UnitElement>(
    unit: MatrixUnit,
    sums: WeightSums,
    [gradient, input]: [&[E]; 2],
    workspace: Workspace,
) -> [Vec<f32>; 2] {
    let WeightSums { rows, outputs, features } = sums;
    let at_once = summed(sums, E::PARTS).max(1);
    let of_task = of_task(outputs, OUTPUTS);
    let of_each = (of_task * features).max(1);
    let add = |first: usize,
               part: usize,
               weight: &mut [f32],
               bias: &mut [f32],
               packed: &[Line],
               memory: &mut [f32]| {
        let (at, count, summed) = (part * of_task, bias.len(), at_once.min(rows - first));
        let [products, memory] = split(memory, elements_of_sums(sums, count, summed, E::PARTS));
        let left = &mut Line::within(memory)[..lines(count, summed, E::PARTS)];
        let gradient = gradient.get(first * outputs + at..(first + summed) * outputs).unwrap_or_default();
        unit.pack_left(Vectors::across(gradient, outputs, count, summed), left);
        let mut column = 0;
        some_strips::<E>(unit, [left, packed], [summed, features], products, |products, of_strip| {
            let weight = &mut weight[column..];
            let columns = (features - column).min(products.len() / of_strip * SIDE);
            vectorised(AddStrips { products, of_strip, columns, weight, features });
            column += columns;
        });
        vectorised(AddRows { gradient, outputs, bias });
    };
    let mut bias = vec![0.0; outputs];
    let packed = |first: usize| {
        let summed = at_once.min(rows - first);
        packed::<E>(features, summed, |at, count, strip| {
            let input = &input[first * features + at..];
            unit.pack_right(Vectors::across(input, features, count, summed), strip);
        })
    };
    // Each thread zeroes what it adds to next, so that it lies in its cache.
    let (mut weight, ()) = uninit::made(outputs * features, |weight| {
        let packed = &packed(0);
        let parts = weight.parts(of_each).zip(bias.chunks_mut(of_task)).enumerate();
        workers::each(parts, workspace, |(part, (weight, bias)), memory| {
            add(0, part, weight.zeroed(), bias, packed, memory);
        });
    });
    for first in (at_once..rows).step_by(at_once) {
        let packed = &packed(first);
        let parts = weight.chunks_mut(of_each).zip(bias.chunks_mut(of_task)).enumerate();
        workers::each(parts, workspace, |(part, (weight, bias)), memory| {
            add(first, part, weight, bias, packed, memory);
        });
    }
    [weight, bias]
}

/// Adds the products with some strips to some columns of the sums of a weight.
struct AddStrips<'a> {
    products: &'a [f32],
    /// Products with each strip.
    of_strip: usize,
    columns: usize,
    /// The sums, from the first of the columns on.
    weight: &'a mut [f32],
    features: usize,
}

impl SimdLoops for AddStrips<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { products, of_strip, columns, weight, features } = self;
        for (row, sums) in weight.chunks_mut(features.max(1)).enumerate() {
            let strips = products.chunks_exact(of_strip);
            for (sums, strip) in sums[..columns].chunks_mut(SIDE).zip(strips) {
                let products = &strip[row * SIDE..][..SIDE];
                // A loop of constant length is a few vectors.
                match (sums.as_chunks_mut::<SIDE>().0, products.as_chunks::<SIDE>().0) {
                    ([sums], [products]) => {
                        sums.iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
                    }
                    _ => sums.iter_mut().zip(products).for_each(|(sum, product)| *sum += product),
                }
            }
        }
    }
}

/// Adds rows of gradients to the sums of a bias.
struct AddRows<'a, E> {
    gradient: &'a [E],
    /// Elements between the begins of two rows of gradients.
    outputs: usize,
    bias: &'a mut [f32],
}

impl<E: StoredFloat> SimdLoops for AddRows<'_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        for row in self.gradient.chunks(self.outputs) {
            self.bias.iter_mut().zip(row).for_each(|(sum, value)| *sum += value.widened());
        }
    }
}
