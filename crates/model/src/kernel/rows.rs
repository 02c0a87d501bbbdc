//! Row by row over the storage of Flex tensors of 32- or 16-bit floats. What is computed has 32 bits.

use std::{mem::MaybeUninit, ops::Range};

use burn::tensor::{Bytes, bf16, f16};
use burn_backend::{DType, Shape, TensorMetadata};
use burn_flex::{FlexTensor, Layout};
use rayon::prelude::*;

use super::{room, vector::by_vectors};

/// Elements that are converted at once: 16-bit rows go through buffers of it on the stack.
pub(super) const BLOCK: usize = 512;

/// Elements that are worth a task.
const TASK: usize = 16 << 10;

/// A buffer for what is read of a 16-bit row.
pub(super) type Buffer = [f32; BLOCK];

/// A float that storage holds.
pub(super) trait Value: Copy + Send + Sync {
    const ZERO: Self;
    fn widened(self) -> f32;
    fn rounded(value: f32) -> Self;
    fn values(tensor: &FlexTensor) -> &[Self];
    fn storage(tensor: &mut FlexTensor) -> &mut [Self];
    fn tensor(values: Vec<Self>, shape: Shape) -> FlexTensor;

    /// Writes what `change` makes of `values`, at most [`BLOCK`] of them, as many as there is room for.
    fn write(to: &mut [MaybeUninit<Self>], values: &[f32], change: impl FnOnce(&mut [f32])) {
        let mut buffer = [0.0; BLOCK];
        let buffer = &mut buffer[..to.len()];
        buffer.copy_from_slice(values);
        change(buffer);
        for (to, value) in to.iter_mut().zip(buffer) {
            to.write(Self::rounded(*value));
        }
    }

    /// Changes values, at most [`BLOCK`] of them.
    fn change(values: &mut [Self], change: impl FnOnce(&mut [f32])) {
        let mut buffer = [0.0; BLOCK];
        let buffer = &mut buffer[..values.len()];
        for (wide, value) in buffer.iter_mut().zip(&*values) {
            *wide = value.widened();
        }
        change(buffer);
        for (value, wide) in values.iter_mut().zip(buffer) {
            *value = Self::rounded(*wide);
        }
    }
}

macro_rules! value {
    ($value:ty, $dtype:expr, $zero:expr, $widened:expr, $rounded:expr $(, $own:item)*) => {
        impl Value for $value {
            const ZERO: Self = $zero;

            #[inline]
            fn widened(self) -> f32 {
                $widened(self)
            }

            #[inline]
            fn rounded(value: f32) -> Self {
                $rounded(value)
            }

            fn values(tensor: &FlexTensor) -> &[Self] {
                tensor.storage()
            }

            fn storage(tensor: &mut FlexTensor) -> &mut [Self] {
                tensor.storage_mut()
            }

            fn tensor(values: Vec<Self>, shape: Shape) -> FlexTensor {
                FlexTensor::new(Bytes::from_elems(values), Layout::contiguous(shape), $dtype)
            }

            $($own)*
        }
    };
}

value!(bf16, DType::BF16, bf16::ZERO, bf16::to_f32, bf16::from_f32);
value!(f16, DType::F16, f16::ZERO, f16::to_f32, f16::from_f32);
value!(
    f32,
    DType::F32,
    0.0,
    |value| value,
    |value| value,
    fn write(to: &mut [MaybeUninit<Self>], values: &[f32], change: impl FnOnce(&mut [f32])) {
        change(to.write_copy_of_slice(values));
    },
    fn change(values: &mut [Self], change: impl FnOnce(&mut [f32])) {
        change(values);
    }
);

/// The elements of a contiguous tensor of 32- or 16-bit floats.
#[derive(Clone, Copy)]
pub(super) enum Values<'a> {
    F32(&'a [f32]),
    Bf16(&'a [bf16]),
    F16(&'a [f16]),
}

impl<'a> Values<'a> {
    /// # Panics
    /// Panics if the tensor holds floats of 64 bits, or no floats.
    pub(super) fn of(tensor: &'a FlexTensor) -> Self {
        match tensor.dtype() {
            DType::BF16 => Self::Bf16(tensor.storage()),
            DType::F16 => Self::F16(tensor.storage()),
            _ => Self::F32(tensor.storage()),
        }
    }

    /// At most [`BLOCK`] of them as 32 bits, through `buffer` where they have to be converted.
    #[inline]
    pub(super) fn read<'b>(self, range: Range<usize>, buffer: &'b mut Buffer) -> &'b [f32]
    where
        'a: 'b,
    {
        match self {
            Self::F32(values) => &values[range],
            Self::Bf16(values) => widened(&values[range], buffer),
            Self::F16(values) => widened(&values[range], buffer),
        }
    }
}

/// The elements of a contiguous tensor of 32 bits.
pub(super) fn floats(tensor: &FlexTensor) -> &[f32] {
    match Values::of(tensor) {
        Values::F32(values) => values,
        // Whoever calls a kernel widens what it is given.
        Values::Bf16(_) | Values::F16(_) => unreachable!("these kernels are given 32 bits"),
    }
}

fn widened<'b, E: Value>(values: &[E], buffer: &'b mut Buffer) -> &'b [f32] {
    for (wide, value) in buffer.iter_mut().zip(values) {
        *wide = value.widened();
    }
    &buffer[..values.len()]
}

/// Changes the elements of a contiguous `tensor` and gives them as `dtype`: in place where that is theirs and nobody
/// else holds them. `change` is given the index of a first element and at most [`BLOCK`] from it on, of one row of
/// `row` elements.
pub(super) fn change_rows(
    tensor: FlexTensor,
    dtype: DType,
    row: usize,
    change: impl Fn(usize, &mut [f32]) + Sync,
) -> FlexTensor {
    let row = row.max(1);
    // Of a tensor that somebody else holds a copy would be made first, by one thread.
    match (tensor.dtype() == dtype && tensor.is_unique(), dtype) {
        (true, DType::BF16) => changed::<bf16>(tensor, row, change),
        (true, DType::F16) => changed::<f16>(tensor, row, change),
        (true, _) => changed::<f32>(tensor, row, change),
        (false, DType::BF16) => written::<bf16>(&tensor, row, change),
        (false, DType::F16) => written::<f16>(&tensor, row, change),
        (false, _) => written::<f32>(&tensor, row, change),
    }
}

fn changed<E: Value>(
    mut tensor: FlexTensor,
    row: usize,
    change: impl Fn(usize, &mut [f32]) + Sync,
) -> FlexTensor {
    each_block(E::storage(&mut tensor), row, |at, block| E::change(block, |values| change(at, values)));
    tensor
}

fn written<E: Value>(
    tensor: &FlexTensor,
    row: usize,
    change: impl Fn(usize, &mut [f32]) + Sync,
) -> FlexTensor {
    let read = Values::of(tensor);
    let write = |output: &mut [MaybeUninit<E>]| {
        each_block(output, row, |at, block| {
            let mut converted = [0.0; BLOCK];
            let values = read.read(at..at + block.len(), &mut converted);
            E::write(block, values, |values| change(at, values));
        });
    };
    // SAFETY: the blocks are all of the output, and each is written as a whole.
    let output = unsafe { room::written(tensor.shape().num_elements(), write) };
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

/// Changes a range of the elements of a contiguous `tensor` that nobody else holds. `change` is given the index of a
/// first element in the range and at most [`BLOCK`] from it on.
pub(super) fn change_part(
    tensor: &mut FlexTensor,
    range: Range<usize>,
    change: impl FnMut(usize, &mut [f32]),
) {
    match tensor.dtype() {
        DType::BF16 => changed_part::<bf16>(tensor, range, change),
        DType::F16 => changed_part::<f16>(tensor, range, change),
        _ => changed_part::<f32>(tensor, range, change),
    }
}

fn changed_part<E: Value>(
    tensor: &mut FlexTensor,
    range: Range<usize>,
    mut change: impl FnMut(usize, &mut [f32]),
) {
    for (block, elements) in E::storage(tensor)[range].chunks_mut(BLOCK).enumerate() {
        E::change(elements, |values| change(block * BLOCK, values));
    }
}

/// Zeros, written by all threads: what is made of them is large, and one thread alone would be waited for.
pub(super) fn zeros<E: Value>(count: usize) -> Vec<E> {
    /// Elements that are written at once; as many are asked for as there are, and not more.
    const PIECE: usize = 256;
    if count < 64 * TASK || !count.is_multiple_of(PIECE) {
        return vec![E::ZERO; count];
    }
    let pieces = (0..count / PIECE).into_par_iter().with_min_len(TASK / PIECE);
    pieces.map(|_| [E::ZERO; PIECE]).collect::<Vec<_>>().into_flattened()
}

/// A tensor of zeros.
pub(super) fn blank(shape: &[usize], dtype: DType) -> FlexTensor {
    fn filled<E: Value>(shape: Shape) -> FlexTensor {
        E::tensor(zeros(shape.num_elements()), shape)
    }
    let shape = Shape::from(shape.to_vec());
    match dtype {
        DType::BF16 => filled::<bf16>(shape),
        DType::F16 => filled::<f16>(shape),
        _ => filled::<f32>(shape),
    }
}

/// The tensor of 32-bit values in row-major order.
pub(super) fn tensor(values: Vec<f32>, shape: &[usize]) -> FlexTensor {
    f32::tensor(values, Shape::from(shape.to_vec()))
}

/// Rounds values to what `dtype` can hold.
pub(super) fn round(values: &mut [f32], dtype: DType) {
    match dtype {
        DType::BF16 => values.iter_mut().for_each(|value| *value = bf16::from_f32(*value).to_f32()),
        DType::F16 => values.iter_mut().for_each(|value| *value = f16::from_f32(*value).to_f32()),
        _ => {}
    }
}

/// The tensor of a vector.
pub(super) fn vector(values: Vec<f32>) -> FlexTensor {
    let shape = [values.len()];
    tensor(values, &shape)
}

/// The sum of values in an order of its own, which is always the same.
#[inline]
pub(super) fn sum(values: &[f32]) -> f64 {
    const LANES: usize = 16;
    let mut lanes = [0.0f32; LANES];
    let whole = values.chunks_exact(LANES);
    for (lane, value) in lanes.iter_mut().zip(whole.remainder()) {
        *lane += value;
    }
    for values in whole {
        for (lane, value) in lanes.iter_mut().zip(values) {
            *lane += value;
        }
    }
    lanes.into_iter().map(f64::from).sum()
}
