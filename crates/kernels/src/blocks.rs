//! Changes the elements of Flex tensors block by block, in all threads.

use std::{mem::MaybeUninit, ops::Range};

use burn_backend::{DType, TensorMetadata};
use burn_flex::FlexTensor;
use rayon::prelude::*;

use crate::{
    simd::{SimdLoops, vectorised},
    stored_float::{BLOCK, StoredFloat, StoredFloats, by_dtype},
    uninit,
};

/// Elements that make a task worth its cost.
const TASK: usize = 16 << 10;

/// A change of elements.
pub(crate) trait Change: Sync {
    /// Changes a block, whose first element has the index `at`: at most [`BLOCK`] elements, all in one row. With `#[inline(always)]` its loops
    /// are vectorised.
    fn change(&self, at: usize, block: &mut [f32]);
}

/// A change by a closure. The compiler inlines only short ones into the functions in which vector instructions are enabled.
pub(crate) struct ByClosure<F: Fn(usize, &mut [f32]) + Sync>(pub(crate) F);

impl<F: Fn(usize, &mut [f32]) + Sync> Change for ByClosure<F> {
    #[inline(always)]
    fn change(&self, at: usize, block: &mut [f32]) {
        (self.0)(at, block);
    }
}

/// Changes the elements of a contiguous `tensor` and gives them in the format `dtype`: in place, if that is their format
/// and nobody else holds the tensor. A row has `row` elements.
pub(crate) fn change_rows(tensor: FlexTensor, dtype: DType, row: usize, change: impl Change) -> FlexTensor {
    change_blocks(tensor, dtype, row.max(1), &|at, block| vectorised(Changed { change: &change, at, block }))
}

/// A block to change.
struct Changed<'a, C> {
    change: &'a C,
    at: usize,
    block: &'a mut [f32],
}

impl<C: Change> SimdLoops for Changed<'_, C> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        self.change.change(self.at, self.block);
    }
}

/// Changes a block, whose first element has the given index.
type ChangeBlock<'a> = dyn Fn(usize, &mut [f32]) + Sync + 'a;

/// As [`change_rows`], compiled once for all changes.
fn change_blocks(tensor: FlexTensor, dtype: DType, row: usize, change: &ChangeBlock<'_>) -> FlexTensor {
    // If somebody else holds the tensor, writing in place would copy it first, in one thread.
    match tensor.dtype() == dtype && tensor.is_unique() {
        true => by_dtype!(dtype, E => changed::<E>(tensor, row, change)),
        false => by_dtype!(dtype, E => written::<E>(&tensor, row, change)),
    }
}

fn changed<E: StoredFloat>(mut tensor: FlexTensor, row: usize, change: &ChangeBlock<'_>) -> FlexTensor {
    each_row(E::storage(&mut tensor), row, |at, row| vectorised(ChangedRow { at, row, change }));
    tensor
}

fn written<E: StoredFloat>(tensor: &FlexTensor, row: usize, change: &ChangeBlock<'_>) -> FlexTensor {
    let read = StoredFloats::of(tensor);
    let write = |output: &mut [MaybeUninit<E>]| {
        each_row(output, row, |at, row| vectorised(WrittenRow { at, row, read, change }));
    };
    // SAFETY: the rows cover the output, and each is written completely.
    let output = unsafe { uninit::written(tensor.shape().num_elements(), write) };
    E::tensor(output, tensor.shape())
}

fn each_row<E: Send>(elements: &mut [E], row: usize, work: impl Fn(usize, &mut [E]) + Sync) {
    let rows = elements.par_chunks_mut(row).enumerate().with_min_len(TASK.div_ceil(row));
    rows.for_each(|(index, elements)| work(index * row, elements));
}

/// A row to change, whose first element has the index `at`.
struct ChangedRow<'a, E> {
    at: usize,
    row: &'a mut [E],
    change: &'a ChangeBlock<'a>,
}

impl<E: StoredFloat> SimdLoops for ChangedRow<'_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        for (block, elements) in self.row.chunks_mut(BLOCK).enumerate() {
            E::change(elements, |values| (self.change)(self.at + block * BLOCK, values));
        }
    }
}

/// A row to write, whose first element has the index `at`: elements that are read, and changed.
struct WrittenRow<'a, E> {
    at: usize,
    row: &'a mut [MaybeUninit<E>],
    read: StoredFloats<'a>,
    change: &'a ChangeBlock<'a>,
}

impl<E: StoredFloat> SimdLoops for WrittenRow<'_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let mut converted = [0.0; BLOCK];
        for (block, elements) in self.row.chunks_mut(BLOCK).enumerate() {
            let at = self.at + block * BLOCK;
            let values = self.read.read(at..at + elements.len(), &mut converted);
            E::write(elements, values, |values| (self.change)(at, values));
        }
    }
}

/// Changes a range of the elements of a contiguous `tensor` that nobody else holds. `change` takes the index of an element
/// within the range and a block from it on, at most [`BLOCK`] elements.
pub(crate) fn change_part(
    tensor: &mut FlexTensor,
    range: Range<usize>,
    mut change: impl FnMut(usize, &mut [f32]),
) {
    by_dtype!(tensor.dtype(), E => {
        for (block, elements) in E::storage(tensor)[range].chunks_mut(BLOCK).enumerate() {
            E::change(elements, |values| change(block * BLOCK, values));
        }
    });
}
