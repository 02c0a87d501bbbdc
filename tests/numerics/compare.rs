//! How far results are from what they should be.

/// Collects the errors of one kind of result; at the end prints the worst and fails if one is above the tolerance.
pub(crate) struct Comparison {
    what: String,
    tolerance: f64,
    errors: Vec<(f64, String)>,
}

impl Comparison {
    pub(crate) fn new(what: impl Into<String>, tolerance: f64) -> Self {
        Self { what: what.into(), tolerance, errors: Vec::new() }
    }

    /// Counts an error that was measured elsewhere.
    pub(crate) fn error(&mut self, name: &str, error: f64) {
        self.errors.push((error.abs(), name.to_owned()));
    }

    /// Counts the worst element: its difference over its own size, or over the root mean square of the tensor where
    /// that is larger, so that elements near zero do not ask for more than the arithmetic can give.
    pub(crate) fn elements(&mut self, name: &str, found: &[f32], expected: &[f64]) {
        let scale = root_mean_square(expected);
        self.worst_of(name, found, expected, |expected| expected.abs().max(scale));
    }

    /// Counts the norm of the difference over the norm of what is expected.
    pub(crate) fn norm(&mut self, name: &str, found: &[f32], expected: &[f64]) {
        assert_eq!(found.len(), expected.len(), "{}: `{name}` has another number of elements", self.what);
        let difference: Vec<_> =
            found.iter().zip(expected).map(|(found, expected)| f64::from(*found) - expected).collect();
        self.error(name, norm(&difference) / norm(expected));
    }

    /// Counts the worst element: its difference as it is.
    pub(crate) fn absolute(&mut self, name: &str, found: &[f32], expected: &[f64]) {
        self.worst_of(name, found, expected, |_| 1.0);
    }

    fn worst_of(&mut self, name: &str, found: &[f32], expected: &[f64], scale: impl Fn(f64) -> f64) {
        assert_eq!(found.len(), expected.len(), "{}: `{name}` has another number of elements", self.what);
        let errors = found.iter().zip(expected).map(|(found, expected)| {
            let difference = (f64::from(*found) - expected).abs();
            // Equal is right, whatever the scale, which is 0 for a tensor of zeros.
            if difference == 0.0 { 0.0 } else { difference / scale(*expected) }
        });
        let worst = errors.max_by(f64::total_cmp).expect("a tensor has elements");
        self.error(name, worst);
    }

    /// Prints the worst error and fails with all that are above the tolerance, or not a number.
    #[track_caller]
    pub(crate) fn finish(self) {
        let Self { what, tolerance, errors } = self;
        let worst = errors.iter().max_by(|one, other| one.0.total_cmp(&other.0));
        let (error, name) = worst.unwrap_or_else(|| panic!("{what}: nothing was compared"));
        println!("{what}: {error:.1e} at `{name}`, worst of {} (tolerance {tolerance:.0e})", errors.len());
        let too_far = errors.iter().filter(|(error, _)| error.is_nan() || *error > tolerance);
        let listed: Vec<_> = too_far.map(|(error, name)| format!("  {error:.1e}  {name}")).collect();
        assert!(listed.is_empty(), "{what}: above {tolerance:.0e}:\n{}", listed.join("\n"));
    }
}

pub(crate) fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

fn root_mean_square(values: &[f64]) -> f64 {
    norm(values) / (values.len() as f64).sqrt()
}

#[test]
#[should_panic(expected = "above 1e-3:\n  NaN  b")]
fn a_result_that_is_not_a_number_is_never_close() {
    let mut comparison = Comparison::new("example", 1e-3);
    comparison.elements("a", &[1.0, 2.0], &[1.0, 2.0001]);
    comparison.elements("b", &[1.0, f32::NAN], &[1.0, 2.0]);
    comparison.finish();
}
