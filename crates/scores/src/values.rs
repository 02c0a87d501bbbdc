//! How far off a regression is.

/// Sums of a regression, for each feature of the target.
#[derive(Clone, Debug, PartialEq)]
pub struct ValueScores {
    samples: u64,
    features: Vec<FeatureSums>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct FeatureSums {
    absolute: f64,
    squared: f64,
    target: f64,
    target_squared: f64,
}

impl ValueScores {
    pub(crate) fn new(features: usize) -> Self {
        Self { samples: 0, features: vec![FeatureSums::default(); features] }
    }

    pub(crate) fn add(&mut self, outputs: &[f32], targets: &[f32]) {
        let features = self.features.len();
        if outputs.len() != targets.len() || features == 0 {
            return;
        }
        for (output, target) in outputs.chunks_exact(features).zip(targets.chunks_exact(features)) {
            self.samples += 1;
            for ((sums, output), target) in self.features.iter_mut().zip(output).zip(target) {
                let (output, target) = (f64::from(*output), f64::from(*target));
                sums.absolute += (output - target).abs();
                sums.squared += (output - target).powi(2);
                sums.target += target;
                sums.target_squared += target.powi(2);
            }
        }
    }

    /// All sums in order.
    pub(crate) fn sums(&self) -> Vec<f64> {
        let of = |it: &FeatureSums| [it.absolute, it.squared, it.target, it.target_squared];
        // Counts below 2^53 are exact.
        [self.samples as f64].into_iter().chain(self.features.iter().flat_map(of)).collect()
    }

    /// Sets them to these [`sums`](Self::sums).
    pub(crate) fn set(&mut self, mut next: impl FnMut() -> f64) {
        self.samples = next() as u64;
        for it in &mut self.features {
            *it = FeatureSums { absolute: next(), squared: next(), target: next(), target_squared: next() };
        }
    }

    fn mean(&self, of: fn(&FeatureSums) -> f64) -> f64 {
        self.features.iter().map(of).sum::<f64>() / (self.samples as f64 * self.features.len() as f64)
    }

    /// The mean absolute error, in the units of the targets as the model sees them.
    pub fn mae(&self) -> f64 {
        self.mean(|sums| sums.absolute)
    }

    /// The root of the mean squared error, in the same units.
    pub fn rmse(&self) -> f64 {
        self.mean(|sums| sums.squared).sqrt()
    }

    /// The coefficient of determination R², the mean over features: 1 is perfect, and 0 as good as the mean of the targets.
    /// Targets that are all equal give 1 where each output is right, else 0, as in scikit-learn.
    pub fn r2(&self) -> f64 {
        let of = |sums: &FeatureSums| {
            let spread = sums.target_squared - sums.target.powi(2) / self.samples as f64;
            match spread > 0.0 {
                true => 1.0 - sums.squared / spread,
                false => f64::from(sums.squared == 0.0),
            }
        };
        self.features.iter().map(of).sum::<f64>() / self.features.len() as f64
    }
}
