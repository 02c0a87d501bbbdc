//! Sums of rows in an order that vectors compute: 16 sums side by side, and then their sum.

const LANES: usize = 16;

/// The sum of `of` over the values.
#[inline(always)]
pub(crate) fn reduce(values: &[f32], of: impl Fn(f32) -> f32) -> f32 {
    let (whole, rest) = values.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in whole {
        lanes.iter_mut().zip(chunk).for_each(|(lane, value)| *lane += of(*value));
    }
    lanes.into_iter().sum::<f32>() + rest.iter().map(|value| of(*value)).sum::<f32>()
}

/// The sum of the values.
#[inline(always)]
pub(crate) fn sum(values: &[f32]) -> f32 {
    reduce(values, |value| value)
}

/// The sum of the products of two rows.
#[inline(always)]
pub(crate) fn dot(one: &[f32], other: &[f32]) -> f32 {
    let (ones, rest_of_one) = one.as_chunks::<LANES>();
    let (others, rest_of_other) = other.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for (one, other) in ones.iter().zip(others) {
        for ((lane, one), other) in lanes.iter_mut().zip(one).zip(other) {
            *lane += one * other;
        }
    }
    let rest = rest_of_one.iter().zip(rest_of_other).map(|(one, other)| one * other);
    lanes.into_iter().sum::<f32>() + rest.sum::<f32>()
}

/// The greatest of the values; −∞ if there are none.
#[inline(always)]
pub(crate) fn greatest(values: &[f32]) -> f32 {
    let (whole, rest) = values.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in whole {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = if *value > *lane { *value } else { *lane };
        }
    }
    lanes.into_iter().chain(rest.iter().copied()).fold(f32::NEG_INFINITY, f32::max)
}

/// Replaces each value by `of` it, and gives the sum.
#[inline(always)]
pub(crate) fn change_and_sum(values: &mut [f32], of: impl Fn(f32) -> f32) -> f32 {
    let (whole, rest) = values.as_chunks_mut::<LANES>();
    let mut lanes = [0.0; LANES];
    for chunk in whole {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *value = of(*value);
            *lane += *value;
        }
    }
    let mut total = lanes.into_iter().sum::<f32>();
    for value in rest {
        *value = of(*value);
        total += *value;
    }
    total
}
