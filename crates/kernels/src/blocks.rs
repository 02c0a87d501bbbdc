//! Changes the elements of Flex tensors block by block, in all threads.

use std::{mem::MaybeUninit, ops::Range};

use burn_backend::{DType, TensorMetadata};
use burn_flex::FlexTensor;
use rayon::prelude::*;

use crate::{
    simd::by_vectors,
    stored_float::{BLOCK, StoredFloat, StoredFloats, by_dtype},
    uninit,
};

/// Elements that make a task worth its cost.
const TASK: usize = 16 << 10;

/// Changes the elements of a contiguous `tensor` and gives them in the format `dtype`: in place, if that is their format
/// and nobody else holds the tensor. `change` takes the index of an element and a block from it on: at most [`BLOCK`]
/// elements, all in one row of `row` elements.
pub(crate) fn change_rows(
    tensor: FlexTensor,
    dtype: DType,
    row: usize,
    change: impl Fn(usize, &mut [f32]) + Sync,
) -> FlexTensor {
    change_blocks(tensor, dtype, row.max(1), &|at, values| by_vectors(|| change(at, values)))
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
    each_block(E::storage(&mut tensor), row, |at, block| E::change(block, |values| change(at, values)));
    tensor
}

fn written<E: StoredFloat>(tensor: &FlexTensor, row: usize, change: &ChangeBlock<'_>) -> FlexTensor {
    let read = StoredFloats::of(tensor);
    let write = |output: &mut [MaybeUninit<E>]| {
        each_block(output, row, |at, block| {
            let mut converted = [0.0; BLOCK];
            let values = read.read(at..at + block.len(), &mut converted);
            E::write(block, values, |values| change(at, values));
        });
    };
    // SAFETY: the blocks cover the output, and each is written completely.
    let output = unsafe { uninit::written(tensor.shape().num_elements(), write) };
    E::tensor(output, tensor.shape())
}

fn each_block<E: Send>(elements: &mut [E], row: usize, work: impl Fn(usize, &mut [E]) + Sync) {
    let rows = elements.par_chunks_mut(row).enumerate().with_min_len(TASK.div_ceil(row));
    rows.for_each(|(index, elements)| {
        by_vectors(|| {
            for (block, elements) in elements.chunks_mut(BLOCK).enumerate() {
                work(index * row + block * BLOCK, elements);
            }
        });
    });
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
