use std::f32::consts::TAU;

use oomph_core::{Generator, Key};

/// How far the waves of a class swing; with the noise the numbers have a variance of 1.
const WAVES: f32 = 1.0;
/// Standard deviation of the noise.
const NOISE: f32 = std::f32::consts::FRAC_1_SQRT_2;

/// Makes sequences: for each class a wave in each feature, for each sample normal noise.
#[derive(Clone, Copy)]
pub(super) struct Sequences {
    pub(super) steps: usize,
    pub(super) features: usize,
}

impl Sequences {
    pub(super) fn make(&self, pattern: Key, noise: Key) -> Vec<f32> {
        let mut pattern = Generator::at(pattern);
        let waves: Vec<_> =
            (0..self.features).map(|_| (pattern.uniform_in(0.5, 4.0), pattern.uniform())).collect();
        let mut noise = Generator::at(noise);
        let mut values = Vec::with_capacity(self.steps * self.features);
        for step in 0..self.steps {
            let time = step as f32 / self.steps as f32;
            values.extend(
                waves.iter().map(|(waves, phase)| {
                    WAVES * (TAU * (waves * time + phase)).sin() + NOISE * noise.normal()
                }),
            );
        }
        values
    }
}
