//! Sums of products over a long index: gradients of weights.

use std::ops::Range;

use oomph_bf16::{Element, Line, MatrixUnit, SIDE, Vectors, lines};

use super::{elements_around_lines, elements_of_lines, of_task, packed_in, some_strips, strips_at_once};
use crate::{
    custom_op::{Workspace, split},
    simd::{SimdLoops, vectorised},
    stored_float::StoredFloat,
    uninit, workers,
};

/// Outputs of a task.
const OUTPUTS: usize = 192;

/// Matrices of outputs and of features, of which the products are summed over an inner index, block by block.
pub(crate) trait Summands<E>: Sync {
    /// The number of blocks. Even if there is none, the first one is asked for, and has no inner indices.
    fn blocks(&self) -> usize;

    /// Inner indices of a block.
    fn inner(&self, block: usize) -> usize;

    /// Gives some outputs of a block, at most those of a strip.
    fn outputs(&self, block: usize, outputs: Range<usize>, pack: impl FnOnce(Vectors<'_, E>));

    /// Gives some features of a matrix of features, at most those of a strip.
    fn features(
        &self,
        block: usize,
        matrix: usize,
        features: Range<usize>,
        pack: impl FnOnce(Vectors<'_, E>),
    );

    /// Adds a block to the sums of a bias, from an output on.
    fn add_bias(&self, _block: usize, _output: usize, _bias: &mut [f32]) {}
}

/// The sums for each output and each feature of `N` matrices.
#[derive(Clone, Copy)]
pub(crate) struct UnitSums<const N: usize> {
    pub(crate) unit: MatrixUnit,
    pub(crate) outputs: usize,
    pub(crate) features: [usize; N],
    /// Inner indices of a block, at most.
    pub(crate) inner: usize,
    /// Parts of an element.
    pub(crate) parts: usize,
}

/// The sums of some outputs.
struct Task<'a, W, const N: usize> {
    first: usize,
    count: usize,
    /// Give the memory of the sums, of each matrix of features.
    weights: [W; N],
    bias: &'a mut [f32],
}

impl UnitSums<1> {
    /// The sums, `[outputs, features]`. A bias has the sums of as many outputs, or is empty.
    pub(crate) fn sum<E: Element>(self, summands: &impl Summands<E>, bias: &mut [f32]) -> Vec<f32> {
        let of_task = of_task(self.outputs, OUTPUTS);
        let [features] = self.features;
        let of_each = (of_task * features).max(1);
        let elements = Vec::with_capacity(self.outputs * features);
        let mut packed = self.memory_of_packed(E::PARTS);
        // Inside the pool, so that the calling thread waits for it once.
        rayon::scope(|_| {
            // Each thread zeroes what it adds to next, so that it lies in its cache.
            let (mut weight, ()) = uninit::made_in(elements, self.outputs * features, |weight| {
                let weights = weight.parts(of_each).map(|weight| [move || weight.zeroed()]);
                self.pack(summands, 0, &mut packed);
                self.add_block(summands, 0, &packed, weights, bias);
            });
            for block in 1..summands.blocks() {
                let weights = weight.chunks_mut(of_each).map(|weight| [move || weight]);
                self.pack(summands, block, &mut packed);
                self.add_block(summands, block, &packed, weights, bias);
            }
            weight
        })
    }
}

impl<const N: usize> UnitSums<N> {
    /// Packed features, and for each task packed outputs and their products.
    pub(crate) fn workspace(self) -> Workspace {
        let of_features = |features| elements_of_lines(features, self.inner, self.parts);
        Workspace {
            shared: self.features.into_iter().map(of_features).sum(),
            of_each: self.parts_of_workspace(self.outputs.min(OUTPUTS), self.inner).into_iter().sum(),
            tasks: self.outputs.div_ceil(SIDE),
            ..Workspace::default()
        }
    }

    /// Elements of the products of some outputs, and of these packed.
    fn parts_of_workspace(self, outputs: usize, inner: usize) -> [usize; 2] {
        let most = self.features.into_iter().max().unwrap_or(0);
        [products_at_once(outputs, most, inner), elements_around_lines(outputs, inner, self.parts)]
    }

    /// Memory for the packed features of a block.
    fn memory_of_packed(self, parts: usize) -> [Vec<Line>; N] {
        self.features.map(|features| Vec::with_capacity(lines(features, self.inner, parts)))
    }

    /// Adds the sums to `weights`, `[outputs, features]` each, and to a bias, which is empty if its sums are not wanted.
    pub(crate) fn add_to<E: Element>(
        self,
        summands: &impl Summands<E>,
        mut weights: [&mut [f32]; N],
        bias: &mut [f32],
    ) {
        let of_task = of_task(self.outputs, OUTPUTS);
        let mut packed = self.memory_of_packed(E::PARTS);
        // Inside the pool, so that the calling thread waits for it once.
        rayon::scope(|_| {
            for block in 0..summands.blocks() {
                let mut of_tasks = weights.each_mut().map(|weight| &mut **weight);
                let tasks = (0..self.outputs).step_by(of_task).map(move |first| {
                    let count = of_task.min(self.outputs - first);
                    let mut features = self.features.into_iter();
                    of_tasks.each_mut().map(|weight| {
                        let of_task = count * features.next().unwrap_or(0);
                        let some = weight.split_off_mut(..of_task).unwrap_or_default();
                        move || some
                    })
                });
                self.pack(summands, block, &mut packed);
                self.add_block(summands, block, &packed, tasks, bias);
            }
        });
    }

    /// Packs the features of a block.
    fn pack<E: Element>(self, summands: &impl Summands<E>, block: usize, packed: &mut [Vec<Line>; N]) {
        for (matrix, (memory, features)) in packed.iter_mut().zip(self.features).enumerate() {
            let inner = summands.inner(block);
            *memory = packed_in::<E>(std::mem::take(memory), features, inner, |first, count, strip| {
                let some = first..first + count;
                summands.features(block, matrix, some, |columns| self.unit.pack_right(columns, strip));
            });
        }
    }

    /// Adds the products of a block to sums, of which each of `weights` gives those of a task.
    fn add_block<'a, E: Element, W: FnOnce() -> &'a mut [f32]>(
        self,
        summands: &impl Summands<E>,
        block: usize,
        packed: &[Vec<Line>; N],
        weights: impl Iterator<Item = [W; N]> + Send,
        bias: &mut [f32],
    ) {
        let of_task = of_task(self.outputs, OUTPUTS);
        let mut biases = bias.chunks_mut(of_task);
        let tasks = weights.enumerate().map(|(part, weights)| Task {
            first: part * of_task,
            count: of_task.min(self.outputs - part * of_task),
            weights,
            bias: biases.next().unwrap_or_default(),
        });
        workers::each(tasks, self.workspace(), |task, memory| {
            let Task { first, count, weights, bias } = task;
            self.add(summands, block, first..first + count, packed, weights.map(|weight| weight()), memory);
            summands.add_bias(block, first, bias);
        });
    }

    /// Adds the products of some outputs of a block.
    fn add<E: Element>(
        self,
        summands: &impl Summands<E>,
        block: usize,
        outputs: Range<usize>,
        packed: &[Vec<Line>; N],
        weights: [&mut [f32]; N],
        memory: &mut [f32],
    ) {
        let (inner, count) = (summands.inner(block), outputs.len());
        let [products, memory] = split(memory, self.parts_of_workspace(count, inner));
        let left = &mut Line::within(memory)[..lines(count, inner, E::PARTS)];
        for (first, strip) in
            outputs.clone().step_by(SIDE).zip(left.chunks_exact_mut(lines(1, inner, E::PARTS).max(1)))
        {
            let some = first..outputs.end.min(first + SIDE);
            summands.outputs(block, some, |rows| self.unit.pack_left(rows, strip));
        }
        for ((weight, packed), features) in weights.into_iter().zip(packed).zip(self.features) {
            let products = &mut products[..products_at_once(count, features, inner)];
            let mut column = 0;
            some_strips::<E>(self.unit, [left, packed], [inner, features], products, |products, of_strip| {
                let weight = &mut weight[column..];
                let columns = (features - column).min(products.len() / of_strip * SIDE);
                vectorised(AddStrips { products, of_strip, columns, weight, features });
                column += columns;
            });
        }
    }
}

/// Products of some outputs with the strips of features that are multiplied at once.
fn products_at_once(outputs: usize, features: usize, inner: usize) -> usize {
    let strips = features.div_ceil(SIDE).min(strips_at_once(inner));
    outputs.next_multiple_of(SIDE) * strips * SIDE
}

/// Adds rows of outputs to the sums of a bias.
pub(crate) struct AddRows<'a, E> {
    pub(crate) rows: &'a [E],
    /// Elements between the begins of two rows.
    pub(crate) outputs: usize,
    pub(crate) bias: &'a mut [f32],
}

impl<E: StoredFloat> SimdLoops for AddRows<'_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        for row in self.rows.chunks(self.outputs) {
            self.bias.iter_mut().zip(row).for_each(|(sum, value)| *sum += value.widened());
        }
    }
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
