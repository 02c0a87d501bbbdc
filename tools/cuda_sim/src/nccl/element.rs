//! The types that a collective sums.

use std::slice;

use half::{bf16, f16};

/// `ncclDataType_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    I8,
    U8,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
    Bf16,
}

impl Element {
    pub(super) fn of(number: i32) -> Option<Self> {
        use Element::{Bf16, F16, F32, F64, I8, I32, I64, U8, U32, U64};
        [I8, U8, I32, U32, I64, U64, F16, F32, F64, Bf16].get(usize::try_from(number).ok()?).copied()
    }

    pub(super) fn bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

/// Adds the values of all sources, in their order, and writes the sum or mean to all targets.
///
/// 16-bit values are added in 32 bits, as NCCL does.
///
/// # Safety
/// Each address has `count` elements; targets may be sources.
pub(super) unsafe fn reduce(
    sources: &[usize],
    targets: &[usize],
    count: usize,
    element: Element,
    is_mean: bool,
) {
    macro_rules! sum {
        ($kind:ty, $wide:ty, $widen:expr, $narrow:expr) => {{
            let mut totals: Vec<$wide> = vec![Default::default(); count];
            for source in sources {
                // SAFETY: the caller vouches for `count` elements.
                let values = unsafe { slice::from_raw_parts(*source as *const $kind, count) };
                totals.iter_mut().zip(values).for_each(|(total, value)| *total += $widen(*value));
            }
            if is_mean {
                totals.iter_mut().for_each(|total| *total /= sources.len() as $wide);
            }
            for target in targets {
                // SAFETY: as above.
                let values = unsafe { slice::from_raw_parts_mut(*target as *mut $kind, count) };
                values.iter_mut().zip(&totals).for_each(|(value, total)| *value = $narrow(*total));
            }
        }};
    }
    match element {
        Element::F32 => sum!(f32, f32, |value| value, |total| total),
        Element::F64 => sum!(f64, f64, |value| value, |total| total),
        Element::F16 => sum!(f16, f32, f16::to_f32, f16::from_f32),
        Element::Bf16 => sum!(bf16, f32, bf16::to_f32, bf16::from_f32),
        Element::I8 => sum!(i8, i64, i64::from, |total| total as i8),
        Element::U8 => sum!(u8, u64, u64::from, |total| total as u8),
        Element::I32 => sum!(i32, i64, i64::from, |total| total as i32),
        Element::U32 => sum!(u32, u64, u64::from, |total| total as u32),
        Element::I64 => sum!(i64, i64, |value| value, |total| total),
        Element::U64 => sum!(u64, u64, |value| value, |total| total),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_means_reach_all_targets() {
        let (mut one, mut other) = ([1.0_f32, 2.0], [10.0_f32, 20.0]);
        let places = [one.as_mut_ptr() as usize, other.as_mut_ptr() as usize];
        // SAFETY: both have two elements.
        unsafe { reduce(&places, &places, 2, Element::F32, false) };
        assert_eq!((one, other), ([11.0, 22.0], [11.0, 22.0]));
        // SAFETY: as above.
        unsafe { reduce(&places, &places, 2, Element::F32, true) };
        assert_eq!((one, other), ([11.0, 22.0], [11.0, 22.0]));
    }

    #[test]
    fn sixteen_bits_are_added_in_thirty_two() {
        let values = [bf16::from_f32(256.0), bf16::from_f32(1.0), bf16::from_f32(1.0)];
        let sources: Vec<usize> = values.iter().map(|value| std::ptr::from_ref(value) as usize).collect();
        let mut total = bf16::ZERO;
        // SAFETY: one element each.
        unsafe { reduce(&sources, &[std::ptr::from_mut(&mut total) as usize], 1, Element::Bf16, false) };
        assert_eq!(total.to_f32(), 258.0);
    }

    #[test]
    fn types_have_the_numbers_of_nccl() {
        assert_eq!(Element::of(7), Some(Element::F32));
        assert_eq!(Element::of(9).map(Element::bytes), Some(2));
        assert_eq!(Element::of(10), None);
        assert_eq!(Element::of(-1), None);
    }
}
