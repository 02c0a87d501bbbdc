use std::sync::LazyLock;

use oomph_model::{AnyTensor, ModelError};

/// A histogram of the finite values of a tensor, in TensorFlow's buckets: from 10⁻¹² on, each limit is a tenth larger than
/// the one before, on both sides of zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) count: u64,
    pub(super) sum: f64,
    pub(super) sum_of_squares: f64,
    /// The first bucket with a value.
    first: usize,
    /// The values of each bucket, from the first to the last bucket with a value.
    counts: Vec<u64>,
}

/// The rising upper limits of the buckets. The last bucket is unbounded.
static LIMITS: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let positive: Vec<f64> = std::iter::successors(Some(1e-12), |limit| Some(limit * 1.1))
        .take_while(|&limit| limit < 1e20)
        .collect();
    let negative = positive.iter().rev().map(|limit| -limit);
    negative.chain([0.0]).chain(positive.iter().copied()).chain([f64::MAX]).collect()
});

impl Histogram {
    /// The histogram of `values`. `None` where no value is finite.
    pub fn of(values: &[f32]) -> Option<Self> {
        let limits = &*LIMITS;
        let mut counts = vec![0u64; limits.len()];
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        let (mut count, mut sum, mut sum_of_squares) = (0, 0.0, 0.0);
        for value in values.iter().map(|&value| f64::from(value)).filter(|value| value.is_finite()) {
            // A value at a limit belongs to the bucket above it.
            counts[limits.partition_point(|&limit| limit <= value)] += 1;
            (min, max) = (value.min(min), value.max(max));
            count += 1;
            sum += value;
            sum_of_squares += value * value;
        }
        let first = counts.iter().position(|&count| count > 0)?;
        let last = counts.iter().rposition(|&count| count > 0)?;
        let counts = counts[first..=last].to_vec();
        Some(Self { min, max, count, sum, sum_of_squares, first, counts })
    }

    /// The histogram of a tensor, which is copied to the host.
    pub fn of_tensor(tensor: &AnyTensor) -> Result<Option<Self>, ModelError> {
        Ok(Self::of(&tensor.to_host()?))
    }

    /// The upper limit and the number of values of each bucket.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        LIMITS[self.first..].iter().copied().zip(self.counts.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        #[test]
        fn every_finite_value_is_in_its_bucket(values in vec(prop_oneof![-10.0f32..10.0, any::<f32>()], 0..50)) {
            let finite: Vec<f64> =
                values.iter().map(|&value| f64::from(value)).filter(|value| value.is_finite()).collect();
            match Histogram::of(&values) {
                None => prop_assert!(finite.is_empty()),
                Some(histogram) => {
                    let mut lower = f64::NEG_INFINITY;
                    let mut seen = 0;
                    for (limit, count) in histogram.buckets() {
                        // Nothing lies below the first bucket.
                        let within = finite.iter().filter(|&&value| (lower..limit).contains(&value)).count();
                        prop_assert_eq!(count, within as u64);
                        lower = limit;
                        seen += count;
                    }
                    prop_assert_eq!(seen, histogram.count);
                    prop_assert_eq!(seen, finite.len() as u64);
                }
            }
        }
    }

    #[test]
    fn sums_and_ends_are_those_of_the_values() {
        let histogram = Histogram::of(&[-1.0, 2.0, f32::NAN, 0.5, f32::INFINITY]).expect("finite values");
        let Histogram { min, max, count, sum, sum_of_squares, .. } = histogram;
        assert_eq!((min, max, count, sum, sum_of_squares), (-1.0, 2.0, 3, 1.5, 5.25));
    }

    #[test]
    fn zeros_are_in_one_bucket_next_to_zero() {
        let histogram = Histogram::of(&[0.0, -0.0]).expect("finite values");
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), [(1e-12, 2)]);
    }

    #[test]
    fn of_nothing_finite_there_is_none() {
        assert_eq!(Histogram::of(&[]), None);
        assert_eq!(Histogram::of(&[f32::NAN, f32::NEG_INFINITY]), None);
    }
}
