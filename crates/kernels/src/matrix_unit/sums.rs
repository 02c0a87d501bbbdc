//! Sums of products over a long index: gradients of weights.

use std::ops::Range;

use oomph_amx::{Line, MatrixUnit, SIDE, Vectors, lines};

use super::{
    FEW, UnitElement, elements_around_lines, elements_of_lines, of_task, packed_in, some_strips,
    strips_at_once,
};
use crate::{
    custom_op::{Workspace, split},
    simd::{SimdLoops, vectorised},
    uninit, workers,
};

/// Outputs of a task.
const OUTPUTS: usize = 192;

/// Two matrices, outputs and features, of which the products are summed over an inner index, block by block.
pub(crate) trait Summands<E>: Sync {
    /// The number of blocks. Even if there is none, the first one is asked for, and has no inner indices.
    fn blocks(&self) -> usize;

    /// Inner indices of a block.
    fn inner(&self, block: usize) -> usize;

    /// Gives some outputs of a block, at most those of a strip.
    fn outputs(&self, block: usize, outputs: Range<usize>, pack: impl FnOnce(Vectors<'_, E>));

    /// Gives some features of a block, at most those of a strip.
    fn features(&self, block: usize, features: Range<usize>, pack: impl FnOnce(Vectors<'_, E>));

    /// Adds a block to the sums of a bias, from an output on.
    fn add_bias(&self, _block: usize, _output: usize, _bias: &mut [f32]) {}
}

/// The sums for each output and each feature.
#[derive(Clone, Copy)]
pub(crate) struct UnitSums {
    pub(crate) unit: MatrixUnit,
    pub(crate) outputs: usize,
    pub(crate) features: usize,
    /// Inner indices of a block, at most.
    pub(crate) inner: usize,
    /// Parts of an element.
    pub(crate) parts: usize,
}

/// The sums of some outputs.
struct Task<'a, W> {
    first: usize,
    /// Gives the memory of the sums.
    weight: W,
    bias: &'a mut [f32],
}

impl UnitSums {
    /// Packed features, and for each task packed outputs and their products.
    pub(crate) fn workspace(self) -> Workspace {
        Workspace {
            shared: elements_of_lines(self.features, self.inner, self.parts),
            of_each: self.parts_of_workspace(self.outputs.min(OUTPUTS), self.inner).into_iter().sum(),
            tasks: self.outputs.div_ceil(FEW * SIDE),
            ..Workspace::default()
        }
    }

    /// Elements of the products of some outputs, and of these packed.
    fn parts_of_workspace(self, outputs: usize, inner: usize) -> [usize; 2] {
        let strips = self.features.div_ceil(SIDE).min(strips_at_once(inner));
        [outputs.next_multiple_of(SIDE) * strips * SIDE, elements_around_lines(outputs, inner, self.parts)]
    }

    /// The sums, `[outputs, features]`. A bias has the sums of as many outputs, or is empty.
    pub(crate) fn sum<E: UnitElement>(self, summands: &impl Summands<E>, bias: &mut [f32]) -> Vec<f32> {
        let of_task = of_task(self.outputs, OUTPUTS);
        let of_each = (of_task * self.features).max(1);
        let elements = Vec::with_capacity(self.outputs * self.features);
        let mut packed = Vec::with_capacity(lines(self.features, self.inner, self.parts));
        // Inside the pool, so that the calling thread waits for it once.
        rayon::scope(|_| {
            // Each thread zeroes what it adds to next, so that it lies in its cache.
            let (mut weight, ()) = uninit::made_in(elements, self.outputs * self.features, |weight| {
                let weights = weight.parts(of_each).map(|weight| move || weight.zeroed());
                packed = self.pack(summands, 0, std::mem::take(&mut packed));
                self.add_block(summands, 0, &packed, weights, of_task, bias);
            });
            for block in 1..summands.blocks() {
                let weights = weight.chunks_mut(of_each).map(|weight| move || weight);
                packed = self.pack(summands, block, std::mem::take(&mut packed));
                self.add_block(summands, block, &packed, weights, of_task, bias);
            }
            weight
        })
    }

    /// Packs the features of a block.
    fn pack<E: UnitElement>(self, summands: &impl Summands<E>, block: usize, memory: Vec<Line>) -> Vec<Line> {
        packed_in::<E>(memory, self.features, summands.inner(block), |first, count, strip| {
            summands.features(block, first..first + count, |columns| self.unit.pack_right(columns, strip));
        })
    }

    /// Adds the products of a block to sums, of which each of `weights` gives those of a task.
    fn add_block<'a, E: UnitElement, W: FnOnce() -> &'a mut [f32]>(
        self,
        summands: &impl Summands<E>,
        block: usize,
        packed: &[Line],
        weights: impl Iterator<Item = W> + Send,
        of_task: usize,
        bias: &mut [f32],
    ) {
        let mut biases = bias.chunks_mut(of_task);
        let tasks = weights.enumerate().map(|(part, weight)| Task {
            first: part * of_task,
            weight,
            bias: biases.next().unwrap_or_default(),
        });
        workers::each(tasks, self.workspace(), |Task { first, weight, bias }, memory| {
            let weight = weight();
            let count = weight.len() / self.features.max(1);
            self.add(summands, block, first..first + count, packed, weight, memory);
            summands.add_bias(block, first, bias);
        });
    }

    /// Adds the products of some outputs of a block.
    fn add<E: UnitElement>(
        self,
        summands: &impl Summands<E>,
        block: usize,
        outputs: Range<usize>,
        packed: &[Line],
        weight: &mut [f32],
        memory: &mut [f32],
    ) {
        let (inner, count, features) = (summands.inner(block), outputs.len(), self.features);
        let [products, memory] = split(memory, self.parts_of_workspace(count, inner));
        let left = &mut Line::within(memory)[..lines(count, inner, E::PARTS)];
        for (first, strip) in
            outputs.clone().step_by(SIDE).zip(left.chunks_exact_mut(lines(1, inner, E::PARTS).max(1)))
        {
            let some = first..outputs.end.min(first + SIDE);
            summands.outputs(block, some, |rows| self.unit.pack_left(rows, strip));
        }
        let mut column = 0;
        some_strips::<E>(self.unit, [left, packed], [inner, features], products, |products, of_strip| {
            let weight = &mut weight[column..];
            let columns = (features - column).min(products.len() / of_strip * SIDE);
            vectorised(AddStrips { products, of_strip, columns, weight, features });
            column += columns;
        });
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
