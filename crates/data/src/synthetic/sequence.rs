use std::f64::consts::TAU;

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
        let waves = (0..self.features).map(|_| (pattern.uniform_in(0.5, 4.0), pattern.uniform()));
        let mut waves: Vec<Wave> = waves.map(|(waves, phase)| Wave::new(waves, phase, self.steps)).collect();
        let mut noise = Generator::at(noise);
        let mut values = Vec::with_capacity(self.steps * self.features);
        for _ in 0..self.steps {
            values.extend(waves.iter_mut().map(|wave| WAVES * wave.next() + NOISE * noise.normal()));
        }
        values
    }
}

/// A sine, step by step: an angle is turned by another in a few multiplications, where a sine takes 15 ns.
struct Wave {
    /// Sine and cosine of the angle.
    at: [f64; 2],
    /// Of what it is turned by at each step.
    turn: [f64; 2],
}

impl Wave {
    /// So many waves over all `steps`, from `phase` of one on.
    fn new(waves: f32, phase: f32, steps: usize) -> Self {
        let of = |turns: f64| {
            let (sine, cosine) = (TAU * turns).sin_cos();
            [sine, cosine]
        };
        Self { at: of(f64::from(phase)), turn: of(f64::from(waves) / steps as f64) }
    }

    fn next(&mut self) -> f32 {
        let ([sine, cosine], [turn_sine, turn_cosine]) = (self.at, self.turn);
        self.at = [sine * turn_cosine + cosine * turn_sine, cosine * turn_cosine - sine * turn_sine];
        sine as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wave_is_a_sine() {
        let mut wave = Wave::new(3.7, 0.2, 10_000);
        for step in 0..10_000 {
            let sine = (TAU * (3.7f32 as f64 * f64::from(step) / 10_000.0 + f64::from(0.2f32))).sin();
            assert!((f64::from(wave.next()) - sine).abs() < 1e-6, "step {step}");
        }
    }
}
