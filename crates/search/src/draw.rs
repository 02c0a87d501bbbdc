use libm::{cos, log, sqrt};
use oomph_core::{Generator, Key};

/// What a proposal is a function of, beside the trials that were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Draw {
    /// The seed of the study.
    pub seed: u64,
    /// The number of the trial that is to have the point.
    pub number: usize,
    /// 0, and one more each time that none of the points before could be taken.
    pub round: u64,
}

impl Draw {
    /// The key of one purpose.
    pub(crate) fn key(self, purpose: &str) -> Key {
        Key::new(self.seed).with_name(purpose).with(self.number as u64).with(self.round)
    }
}

/// Uniform in [0, 1), with 53 bits.
pub(crate) fn uniform(generator: &mut Generator) -> f64 {
    (generator.bits() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Normal with mean 0 and standard deviation 1, with 53 bits (Box and Muller 1958). Computed by `libm`, so that all machines
/// draw the same.
pub(crate) fn normal(generator: &mut Generator) -> f64 {
    let radius = sqrt(-2.0 * log(1.0 - uniform(generator)));
    radius * cos(std::f64::consts::TAU * uniform(generator))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut generator = Generator::at(Draw { seed: 1, number: 2, round: 3 }.key("test"));
        let count = 100_000;
        let normals: Vec<f64> = (0..count).map(|_| normal(&mut generator)).collect();
        let mean = normals.iter().sum::<f64>() / f64::from(count);
        let variance = normals.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / f64::from(count);
        // Five standard errors of the mean and of the variance.
        assert!(mean.abs() < 5.0 / f64::from(count).sqrt(), "mean {mean}");
        assert!((variance - 1.0).abs() < 5.0 * (2.0 / f64::from(count)).sqrt(), "variance {variance}");
        let mean = (0..count).map(|_| uniform(&mut generator)).sum::<f64>() / f64::from(count);
        assert!((mean - 0.5).abs() < 5.0 / (12.0 * f64::from(count)).sqrt(), "mean {mean}");
    }
}
