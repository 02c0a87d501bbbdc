use std::f32::consts::TAU;

use oomph_core::{Generator, Key};

use crate::{
    ImageReader,
    transform::{ImageShape, ImageTransform, Statistics, TransformSettings},
};

/// The largest distances from grey of the mean of a channel, of its waves and of the noise. Their sum fits in a byte.
const TINT: usize = 15;
const WAVES: f32 = 48.0;
const NOISE: u8 = 64;

/// Mean and standard deviation of the pixels over the classes: noise 37, waves 18 and tints 9 around 128, in bytes.
const MEAN: f64 = 0.5;
const STD: f64 = 0.165;

/// Makes images: a tint and waves in each channel for each class, and uniform noise for each sample.
#[derive(Clone)]
pub(super) struct SyntheticImages {
    transform: ImageTransform,
    pub(super) reader: ImageReader,
}

impl SyntheticImages {
    pub(super) fn new(shape: ImageShape, settings: &TransformSettings) -> Self {
        let known = settings.normalize.known();
        let statistics = known.unwrap_or_else(|| Statistics {
            mean: vec![MEAN; shape.channels],
            std: vec![STD; shape.channels],
        });
        let transform = ImageTransform::new(shape, settings, &statistics, u8::MAX);
        Self { transform, reader: ImageReader::new(shape, statistics) }
    }

    pub(super) fn make(&self, pattern: Key, noise: Key, augment: Option<Key>) -> Vec<f32> {
        let shape = self.transform.shape();
        let mut pattern = Generator::at(pattern);
        let mut pixels = noise_bytes(noise, shape.elements());
        for channel in pixels.chunks_exact_mut(shape.height * shape.width) {
            // The mean is 128, of which the noise (0 to 2 × NOISE - 1) contributes NOISE.
            let base = (128 - usize::from(NOISE) + pattern.below(2 * TINT + 1) - TINT) as f32;
            let down = wave(&mut pattern, shape.height);
            let across = wave(&mut pattern, shape.width);
            for (row, down) in channel.chunks_exact_mut(shape.width).zip(&down) {
                for (pixel, across) in row.iter_mut().zip(&across) {
                    *pixel += (base + WAVES * down * across) as u8;
                }
            }
        }
        self.transform.apply(&pixels, augment)
    }
}

/// Half a wave to four waves along a side.
fn wave(generator: &mut Generator, side: usize) -> Vec<f32> {
    let waves = generator.uniform_in(0.5, 4.0);
    let phase = generator.uniform();
    (0..side).map(|place| (TAU * (waves * place as f32 / side as f32 + phase)).sin()).collect()
}

/// Uniform among 0, 1, …, 2 × `NOISE` − 1.
fn noise_bytes(key: Key, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    Generator::at(key).fill(&mut bytes);
    bytes.iter_mut().for_each(|byte| *byte %= 2 * NOISE);
    bytes
}
