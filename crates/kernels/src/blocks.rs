//! Changes the elements of Flex tensors block by block, in all threads.

use std::{mem::MaybeUninit, ops::Range};

use burn_backend::{DType, TensorMetadata};
use burn_flex::FlexTensor;
use rayon::prelude::*;

use crate::{
    simd::{SimdLoops, vectorised},
    stored_float::{BLOCK, Buffer, StoredFloat, StoredFloats, by_dtype},
    uninit, workers,
};

/// Elements that make a task worth its cost.
const TASK: usize = 16 << 10;

/// A change of elements.
pub(crate) trait Change: Sync {
    /// Changes a block, whose first element has the index `at`: at most [`BLOCK`] elements, all in one row. `beside` is memory that holds
    /// anything. With `#[inline(always)]` its loops are vectorised.
    fn change(&self, at: usize, block: &mut [f32], beside: &mut Buffer);
}

/// A change by a closure. The compiler inlines only short ones into the functions in which vector instructions are enabled.
pub(crate) struct ByClosure<F: Fn(usize, &mut [f32]) + Sync>(pub(crate) F);

impl<F: Fn(usize, &mut [f32]) + Sync> Change for ByClosure<F> {
    #[inline(always)]
    fn change(&self, at: usize, block: &mut [f32], _beside: &mut Buffer) {
        (self.0)(at, block);
    }
}

/// Changes the elements of a contiguous `tensor` and gives them in the format `dtype`: in place, if that is their format
/// and nobody else holds the tensor. A row has `row` elements.
pub(crate) fn change_rows(tensor: FlexTensor, dtype: DType, row: usize, change: impl Change) -> FlexTensor {
    let row = row.max(1);
    change_blocks(tensor, dtype, row, &|at, block, beside| {
        vectorised(Changed { change: &change, at, row, block, beside });
    })
}

/// A block to change: a part of a row, or some rows.
struct Changed<'a, C> {
    change: &'a C,
    at: usize,
    row: usize,
    block: &'a mut [f32],
    beside: &'a mut Buffer,
}

impl<C: Change> SimdLoops for Changed<'_, C> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { change, at, row, block, beside } = self;
        for (index, block) in block.chunks_mut(row).enumerate() {
            change.change(at + index * row, block, beside);
        }
    }
}

/// Changes a block, whose first element has the given index.
type ChangeBlock<'a> = dyn Fn(usize, &mut [f32], &mut Buffer) + Sync + 'a;

/// As [`change_rows`], compiled once for all changes.
fn change_blocks(tensor: FlexTensor, dtype: DType, row: usize, change: &ChangeBlock<'_>) -> FlexTensor {
    // If somebody else holds the tensor, writing in place would copy it first, in one thread.
    match tensor.dtype() == dtype && tensor.is_unique() {
        true => by_dtype!(dtype, E => changed::<E>(tensor, row, change)),
        false => by_dtype!(dtype, E => written::<E>(&tensor, row, change)),
    }
}

fn changed<E: StoredFloat>(mut tensor: FlexTensor, row: usize, change: &ChangeBlock<'_>) -> FlexTensor {
    each_task(E::storage(&mut tensor), row, |at, rows| vectorised(ChangedRows { at, row, rows, change }));
    tensor
}

fn written<E: StoredFloat>(tensor: &FlexTensor, row: usize, change: &ChangeBlock<'_>) -> FlexTensor {
    let read = StoredFloats::of(tensor);
    let write = |output: &mut [MaybeUninit<E>]| {
        each_task(output, row, |at, rows| vectorised(WrittenRows { at, row, rows, read, change }));
    };
    // SAFETY: the tasks cover the output, and each writes its rows completely.
    let output = unsafe { uninit::written(tensor.shape().num_elements(), write) };
    E::tensor(output, tensor.shape())
}

/// Does `work` for all elements, with the index of its first element: for a row, or as many short ones as are worth a task.
fn each_task<E: Send>(elements: &mut [E], row: usize, work: impl Fn(usize, &mut [E]) + Sync) {
    let of_task = row * (TASK / row).max(1);
    let tasks = elements.par_chunks_mut(of_task).enumerate();
    workers::for_each(tasks, |(index, elements)| work(index * of_task, elements));
}

/// The blocks of some rows of `count` elements: parts of a row, or as many short rows as a block has space for.
fn blocks(count: usize, row: usize) -> impl Iterator<Item = Range<usize>> {
    let of_block = if row < BLOCK { BLOCK / row * row } else { BLOCK };
    let of_row = if row < BLOCK { count.max(1) } else { row };
    (0..count).step_by(of_row).flat_map(move |first| {
        let end = (first + of_row).min(count);
        (first..end).step_by(of_block).map(move |start| start..(start + of_block).min(end))
    })
}

/// Rows to change, whose first element has the index `at`.
struct ChangedRows<'a, E> {
    at: usize,
    row: usize,
    rows: &'a mut [E],
    change: &'a ChangeBlock<'a>,
}

impl<E: StoredFloat> SimdLoops for ChangedRows<'_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { at, row, rows, change } = self;
        let (mut wide, mut beside) = ([0.0; BLOCK], [0.0; BLOCK]);
        for block in blocks(rows.len(), row) {
            let first = at + block.start;
            E::change(&mut rows[block], &mut wide, |values| change(first, values, &mut beside));
        }
    }
}

/// Rows to write, whose first element has the index `at`: elements that are read, and changed.
struct WrittenRows<'a, E> {
    at: usize,
    row: usize,
    rows: &'a mut [MaybeUninit<E>],
    read: StoredFloats<'a>,
    change: &'a ChangeBlock<'a>,
}

impl<E: StoredFloat> SimdLoops for WrittenRows<'_, E> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        let Self { at, row, rows, read, change } = self;
        let (mut wide, mut beside) = ([0.0; BLOCK], [0.0; BLOCK]);
        for block in blocks(rows.len(), row) {
            let first = at + block.start;
            E::write(&mut rows[block], read, first, &mut wide, |values| change(first, values, &mut beside));
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
    let mut wide = [0.0; BLOCK];
    by_dtype!(tensor.dtype(), E => {
        for (block, elements) in E::storage(tensor)[range].chunks_mut(BLOCK).enumerate() {
            E::change(elements, &mut wide, |values| change(block * BLOCK, values));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_parts_of_a_row_or_whole_rows() {
        for (count, row) in [(0, 7), (49 * 30, 49), (16, 16), (3 * 1000, 1000), (512 * 4, 512), (700, 700)] {
            let blocks: Vec<_> = blocks(count, row).collect();
            assert!(blocks.iter().cloned().flatten().eq(0..count), "{count} {row}");
            for block in blocks {
                assert!(block.len() <= BLOCK, "{block:?}");
                let is_in_a_row = block.start / row == (block.end - 1) / row;
                assert!(is_in_a_row || block.start % row == 0 && block.end % row == 0, "{row} {block:?}");
            }
        }
        assert_eq!(blocks(49 * 30, 49).count(), 3);
    }
}
