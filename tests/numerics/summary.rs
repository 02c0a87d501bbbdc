//! Eleven numbers that stand for a tensor too large to store: see `tests/golden/README.md`.

use crate::{compare::norm, formula::signed_units};

const SAMPLES: usize = 8;

/// What is known of a tensor by its summary.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Summary {
    sum: f64,
    norm: f64,
    /// The product with a fixed random vector: it sees every element and its place.
    probe: f64,
    samples: [f64; SAMPLES],
}

impl Summary {
    /// Summarizes the tensor that PyTorch calls `name`.
    pub(crate) fn of(name: &str, values: &[f32]) -> Self {
        let values: Vec<f64> = values.iter().copied().map(f64::from).collect();
        let probe = signed_units(&format!("probe/{name}"));
        Self {
            sum: values.iter().sum(),
            norm: norm(&values),
            probe: values.iter().zip(probe).map(|(value, unit)| value * unit).sum(),
            samples: std::array::from_fn(|k| values[k * (values.len() - 1) / (SAMPLES - 1)]),
        }
    }

    /// Reads a stored one.
    pub(crate) fn stored(numbers: &[f64]) -> Self {
        let [sum, norm, probe, samples @ ..] = numbers else { panic!("a summary has eleven numbers") };
        let samples = samples.try_into().expect("a summary has eight samples");
        Self { sum: *sum, norm: *norm, probe: *probe, samples }
    }

    /// By how much a tensor of `elements` with this summary is off the `expected` one, relative to its norm.
    ///
    /// Two tensors that are `e` apart (relative L2) have an error of at most `e` in norm and sum, about `e` in the
    /// probe; a sample is compared with itself or the root mean square, whatever is larger.
    pub(crate) fn error(&self, expected: &Self, elements: usize) -> f64 {
        let root = (elements as f64).sqrt();
        let head = [
            (self.sum - expected.sum) / (expected.norm * root),
            (self.norm - expected.norm) / expected.norm,
            (self.probe - expected.probe) / expected.norm,
        ];
        let samples = self.samples.iter().zip(&expected.samples);
        let samples =
            samples.map(|(found, sample)| (found - sample) / sample.abs().max(expected.norm / root));
        head.into_iter().chain(samples).map(f64::abs).max_by(f64::total_cmp).expect("there are eleven")
    }
}

#[test]
fn a_summary_sees_two_elements_that_changed_places() {
    // Neither is one of the samples, so only the probe can tell.
    let values: Vec<f32> = (1..=100).map(|value| value as f32).collect();
    let mut swapped = values.clone();
    swapped.swap(1, 90);
    let error = Summary::of("example", &swapped).error(&Summary::of("example", &values), values.len());
    assert!(error > 1e-2, "{error}");
}
