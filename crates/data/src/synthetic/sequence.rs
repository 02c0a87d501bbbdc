use std::f64::consts::TAU;

use oomph_core::{
    Generator, Key,
    simd::{SimdLoops, vectorised},
};

/// The amplitude of the waves of a class; together with the noise, values have a variance of 1.
const WAVES: f32 = 1.0;
/// Standard deviation of the noise.
const NOISE: f32 = std::f32::consts::FRAC_1_SQRT_2;

/// Makes sequences: a wave in each feature for each class, and uniform noise for each sample.
#[derive(Clone, Copy)]
pub(super) struct SyntheticSequences {
    pub(super) steps: usize,
    pub(super) features: usize,
}

impl SyntheticSequences {
    pub(super) fn make(&self, pattern: Key, noise: Key) -> Vec<f32> {
        let mut pattern = Generator::at(pattern);
        let waves = (0..self.features).map(|_| (pattern.uniform_in(0.5, 4.0), pattern.uniform()));
        let waves = Waves::new(waves, self.steps);
        let mut values = noise_values(noise, self.steps * self.features);
        vectorised(AddedWaves { waves, values: &mut values });
        values
    }
}

/// Uniform noise with mean 0 and standard deviation [`NOISE`]. Each value takes only two random bytes, since loader threads
/// share the cores with the step.
fn noise_values(key: Key, count: usize) -> Vec<f32> {
    let (mut bytes, mut values) = (vec![0; 2 * count], vec![0.0; count]);
    Generator::at(key).fill(&mut bytes);
    vectorised(NoiseOf { bytes: bytes.as_chunks().0, values: &mut values });
    values
}

/// Turns two random bytes into each value.
struct NoiseOf<'a> {
    bytes: &'a [[u8; 2]],
    values: &'a mut [f32],
}

impl SimdLoops for NoiseOf<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(self) {
        const VALUES: f32 = 65_536.0;
        // A uniform distribution has the standard deviation of its width over √12.
        let step = NOISE * 3.464_101_6 / VALUES;
        for (value, bytes) in self.values.iter_mut().zip(self.bytes) {
            *value = (f32::from(u16::from_le_bytes(*bytes)) - (VALUES - 1.0) / 2.0) * step;
        }
    }
}

/// Adds waves to the values of all steps.
struct AddedWaves<'a> {
    waves: Waves,
    values: &'a mut [f32],
}

impl SimdLoops for AddedWaves<'_> {
    #[inline(always)]
    fn run<const FUSED: bool>(mut self) {
        for step in self.values.chunks_exact_mut(self.waves.at[0].len()) {
            self.waves.add(step);
        }
    }
}

/// A sine for each feature, step by step. Rotating by a fixed angle takes a few multiplications; a sine takes 15 ns.
struct Waves {
    /// Sines and cosines of the angles.
    at: [Vec<f64>; 2],
    /// Sines and cosines of the rotation per step.
    turn: [Vec<f64>; 2],
}

impl Waves {
    /// Waves, each given by its number of periods over all `steps` and its phase.
    fn new(waves: impl Iterator<Item = (f32, f32)>, steps: usize) -> Self {
        let (waves, phases): (Vec<f32>, Vec<f32>) = waves.unzip();
        let of = |turns: &[f32], steps: f64| {
            let angles = turns.iter().map(|turns| TAU * f64::from(*turns) / steps);
            let (sines, cosines) = angles.map(f64::sin_cos).unzip();
            [sines, cosines]
        };
        Self { at: of(&phases, 1.0), turn: of(&waves, steps as f64) }
    }

    /// Adds the waves to the values of the next step.
    #[inline(always)]
    fn add(&mut self, step: &mut [f32]) {
        let ([sines, cosines], [turn_sines, turn_cosines]) = (&mut self.at, &self.turn);
        let at = sines.iter_mut().zip(cosines).zip(turn_sines.iter().zip(turn_cosines));
        for (value, ((sine, cosine), (turn_sine, turn_cosine))) in step.iter_mut().zip(at) {
            *value += WAVES * *sine as f32;
            (*sine, *cosine) =
                (*sine * turn_cosine + *cosine * turn_sine, *cosine * turn_cosine - *sine * turn_sine);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_are_sines() {
        let mut waves = Waves::new([(3.7, 0.2), (0.5, 0.9)].into_iter(), 10_000);
        for step in 0..10_000 {
            let mut found = [1.0, 2.0];
            waves.add(&mut found);
            for ((found, before), (turns, phase)) in
                found.into_iter().zip([1.0, 2.0]).zip([(3.7f32, 0.2f32), (0.5, 0.9)])
            {
                let sine = TAU * (f64::from(turns) * f64::from(step) / 10_000.0 + f64::from(phase));
                assert!((f64::from(found) - before - sine.sin()).abs() < 1e-6, "step {step}");
            }
        }
    }

    #[test]
    fn noise_is_as_wide_as_it_should_be_whatever_the_count() {
        let count = 100_001;
        let values = noise_values(Key::new(1), count);
        let moment =
            |power| values.iter().map(|value| f64::from(*value).powi(power)).sum::<f64>() / count as f64;
        // Five standard errors of the mean and of the second moment.
        assert_eq!(values.len(), count);
        assert!(moment(1).abs() < 5.0 * f64::from(NOISE) / (count as f64).sqrt(), "{}", moment(1));
        assert!((moment(2) - 0.5).abs() < 5.0 * (0.2 / count as f64).sqrt(), "{}", moment(2));
    }
}
