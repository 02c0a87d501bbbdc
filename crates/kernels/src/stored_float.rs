//! The floats that tensors store, in 32 or 16 bits. Kernels compute in 32 bits.

use std::{mem::MaybeUninit, ops::Range};

use burn::tensor::{Bytes, bf16, f16};
use burn_backend::{DType, Shape};
use burn_flex::{FlexTensor, Layout};

/// Elements that are converted at once: 16-bit rows pass through buffers of this size on the stack.
pub(crate) const BLOCK: usize = 512;

/// A buffer for converted elements of a 16-bit row.
pub(crate) type Buffer = [f32; BLOCK];

/// A float type that a tensor stores.
pub(crate) trait StoredFloat: Copy + Default + Send + Sync {
    const ZERO: Self;
    fn widened(self) -> f32;
    fn rounded(value: f32) -> Self;
    fn values(tensor: &FlexTensor) -> &[Self];
    fn storage(tensor: &mut FlexTensor) -> &mut [Self];
    fn tensor(values: Vec<Self>, shape: Shape) -> FlexTensor;

    /// The values, if they have 32 bits.
    fn floats(_values: &[Self]) -> Option<&[f32]> {
        None
    }

    /// Writes the elements of `read` from `at` on, changed by `change`, to `to`: at most [`BLOCK`]. They are converted in `buffer`.
    #[inline(always)]
    fn write(
        to: &mut [MaybeUninit<Self>],
        read: StoredFloats<'_>,
        at: usize,
        buffer: &mut Buffer,
        change: impl FnOnce(&mut [f32]),
    ) {
        let buffer = &mut buffer[..to.len()];
        read.load(at, buffer);
        change(buffer);
        for (to, value) in to.iter_mut().zip(buffer) {
            to.write(Self::rounded(*value));
        }
    }

    /// Changes `values`, at most [`BLOCK`], by way of 32 bits: 16-bit elements are converted in `buffer`.
    #[inline(always)]
    fn change(values: &mut [Self], buffer: &mut Buffer, change: impl FnOnce(&mut [f32])) {
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

/// Elements in 32 bits, in an array of their own: for all the compiler knows, writing one elsewhere changes what is read next.
#[inline(always)]
pub(crate) fn all_widened<E: StoredFloat, const COUNT: usize>(from: &[E; COUNT]) -> [f32; COUNT] {
    let mut wide = [0.0; COUNT];
    wide.iter_mut().zip(from).for_each(|(wide, from)| *wide = from.widened());
    wide
}

macro_rules! value {
    ($value:ty, $dtype:expr, $zero:expr, $widened:expr, $rounded:expr $(, $own:item)*) => {
        impl StoredFloat for $value {
            const ZERO: Self = $zero;

            #[inline(always)]
            fn widened(self) -> f32 {
                $widened(self)
            }

            #[inline(always)]
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

// `from_f32` branches, but by such branches the compiler makes vectors of loops of constant length too. Of those of `nearest_bf16` it makes
// none: eight times as long for 16 numbers.
value!(bf16, DType::BF16, bf16::ZERO, widened_bf16, bf16::from_f32);
value!(f16, DType::F16, f16::ZERO, f16::to_f32, f16::from_f32);
value!(
    f32,
    DType::F32,
    0.0,
    |value| value,
    |value| value,
    #[inline(always)]
    fn write(
        to: &mut [MaybeUninit<Self>],
        read: StoredFloats<'_>,
        at: usize,
        buffer: &mut Buffer,
        change: impl FnOnce(&mut [f32]),
    ) {
        change(to.write_copy_of_slice(read.read(at..at + to.len(), buffer)));
    },
    #[inline(always)]
    fn change(values: &mut [Self], _buffer: &mut Buffer, change: impl FnOnce(&mut [f32])) {
        change(values);
    },
    #[inline(always)]
    fn floats(values: &[Self]) -> Option<&[f32]> {
        Some(values)
    }
);

/// Evaluates `$body` with the type `$E` that stores the floats of the format `$dtype`.
macro_rules! by_dtype {
    ($dtype:expr, $E:ident => $body:expr) => {
        match $dtype {
            burn_backend::DType::BF16 => $crate::stored_float::by_dtype!(@ burn::tensor::bf16, $E => $body),
            burn_backend::DType::F16 => $crate::stored_float::by_dtype!(@ burn::tensor::f16, $E => $body),
            _ => $crate::stored_float::by_dtype!(@ f32, $E => $body),
        }
    };
    (@ $float:ty, $E:ident => $body:expr) => {{
        type $E = $float;
        $body
    }};
}
pub(crate) use by_dtype;

/// Evaluates `$body` with the slice `$values` of the [`StoredFloats`] in `$stored`.
macro_rules! with_values {
    ($stored:expr, $values:ident => $body:expr) => {
        match $stored {
            $crate::stored_float::StoredFloats::F32($values) => $body,
            $crate::stored_float::StoredFloats::Bf16($values) => $body,
            $crate::stored_float::StoredFloats::F16($values) => $body,
        }
    };
}
pub(crate) use with_values;

/// The elements of a contiguous tensor of 32- or 16-bit floats.
#[derive(Clone, Copy)]
pub(crate) enum StoredFloats<'a> {
    F32(&'a [f32]),
    Bf16(&'a [bf16]),
    F16(&'a [f16]),
}

impl<'a> StoredFloats<'a> {
    /// # Panics
    /// Panics if the tensor holds floats of 64 bits, or no floats.
    pub(crate) fn of(tensor: &'a FlexTensor) -> Self {
        match tensor.dtype() {
            DType::BF16 => Self::Bf16(tensor.storage()),
            DType::F16 => Self::F16(tensor.storage()),
            _ => Self::F32(tensor.storage()),
        }
    }

    /// The format of the elements.
    pub(crate) fn dtype(self) -> DType {
        match self {
            Self::F32(_) => DType::F32,
            Self::Bf16(_) => DType::BF16,
            Self::F16(_) => DType::F16,
        }
    }

    /// Copies the elements from `at` on, as many as `to` has, as 32 bits.
    #[inline(always)]
    pub(crate) fn load(self, at: usize, to: &mut [f32]) {
        with_values!(self, values => {
            to.iter_mut().zip(&values[at..]).for_each(|(to, from)| *to = from.widened());
        });
    }

    /// At most [`BLOCK`] elements as 32 bits; 16-bit elements are converted into `buffer`.
    #[inline(always)]
    pub(crate) fn read<'b>(self, range: Range<usize>, buffer: &'b mut Buffer) -> &'b [f32]
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

#[inline(always)]
fn widened<'b, E: StoredFloat>(values: &[E], buffer: &'b mut Buffer) -> &'b [f32] {
    for (wide, value) in buffer.iter_mut().zip(values) {
        *wide = value.widened();
    }
    &buffer[..values.len()]
}

/// `bf16::to_f32`, which also sets the quiet bit of what is not a number: half of the instructions were for that.
#[inline(always)]
fn widened_bf16(value: bf16) -> f32 {
    f32::from_bits(u32::from(value.to_bits()) << 16)
}

/// Rounds values to the nearest that `dtype` can hold.
#[inline(always)]
pub(crate) fn round(values: &mut [f32], dtype: DType) {
    match dtype {
        DType::BF16 => values.iter_mut().for_each(|value| *value = nearest_bf16(*value)),
        DType::F16 => values.iter_mut().for_each(|value| *value = f16::from_f32(*value).to_f32()),
        _ => {}
    }
}

/// The nearest number that has the format bf16, of two the even one. It is `bf16::from_f32`, without branches, so that loops are made of
/// vectors.
#[inline(always)]
fn nearest_bf16(value: f32) -> f32 {
    let bits = value.to_bits();
    let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    // What is not a number stays so.
    let bits = if value.is_nan() { bits | 0x0040_0000 } else { nearest };
    f32::from_bits(bits & 0xffff_0000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_rounded_as_bf16_is_made() {
        let special =
            [0x3f80_8000, 0x3f81_8000, 0x7f7f_ffff, 0xff80_0000, 0x7f80_0001, 0xff80_ffff, 0x8000_0001];
        let all = special.into_iter().chain((0..100_000u32).map(|seed| seed.wrapping_mul(2_654_435_761)));
        for value in all.map(f32::from_bits) {
            let (found, expected) = (nearest_bf16(value), bf16::from_f32(value).to_f32());
            assert_eq!(found.to_bits(), expected.to_bits(), "{value:e} {:x}", value.to_bits());
        }
    }
}
