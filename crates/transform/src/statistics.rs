use serde::{Deserialize, Serialize};

use super::image_shape::ImageShape;

/// Mean and standard deviation of each channel, of pixels scaled to [0, 1].
///
/// The empty default means mean 0 and standard deviation 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Statistics {
    /// The mean of each channel.
    pub mean: Vec<f64>,
    /// The standard deviation of each channel.
    pub std: Vec<f64>,
}

impl Statistics {
    /// Mean and standard deviation of a channel.
    pub fn of(&self, channel: usize) -> Option<(f64, f64)> {
        Some((*self.mean.get(channel)?, *self.std.get(channel)?))
    }

    /// Mean and standard deviation of a channel, as messages show them.
    pub fn shown(&self, channel: usize) -> String {
        match self.of(channel) {
            Some((mean, std)) => format!("mean {mean:.6} and standard deviation {std:.6}"),
            None => "nothing".to_owned(),
        }
    }

    /// Whether these can normalise `count` channels or columns.
    pub fn is_of(&self, count: usize) -> bool {
        let Self { mean, std } = self;
        let is_usable = mean.iter().all(|mean| mean.is_finite())
            && std.iter().all(|&std| std > 0.0 && (std as f32).is_normal());
        is_usable && mean.len() == std.len() && (mean.is_empty() || mean.len() == count)
    }

    /// The value of each byte of a channel; the byte `white` is 1 before normalisation.
    pub(super) fn table(&self, channel: usize, white: u8) -> [f32; 256] {
        let mean = self.mean.get(channel).copied().unwrap_or(0.0);
        let std = self.std.get(channel).copied().unwrap_or(1.0);
        let white = f64::from(white.max(1));
        std::array::from_fn(|pixel| ((pixel as f64 / white - mean) / std) as f32)
    }
}

/// Sums over the pixels of images, from which [`Statistics`] follow.
///
/// The sums are integers, so the result does not depend on the order of images or the number of threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PixelSums {
    images: u64,
    area: usize,
    sums: Vec<u64>,
    squares: Vec<u64>,
}

impl PixelSums {
    /// Empty sums for images of `shape`.
    pub fn new(shape: ImageShape) -> Self {
        let zeros = vec![0; shape.channels];
        Self { images: 0, area: shape.height * shape.width, sums: zeros.clone(), squares: zeros }
    }

    /// Number of images added.
    pub fn images(&self) -> u64 {
        self.images
    }

    /// Adds the pixels of one image.
    pub fn add(&mut self, pixels: &[u8]) {
        self.images += 1;
        for (channel, pixels) in pixels.chunks_exact(self.area).enumerate() {
            self.sums[channel] += pixels.iter().map(|&pixel| u64::from(pixel)).sum::<u64>();
            self.squares[channel] += pixels.iter().map(|&pixel| u64::from(pixel).pow(2)).sum::<u64>();
        }
    }

    /// Adds the sums over other images of the same shape.
    pub fn merge(&mut self, other: &Self) {
        self.images += other.images;
        let sums = self.sums.iter_mut().zip(&other.sums);
        sums.chain(self.squares.iter_mut().zip(&other.squares)).for_each(|(sum, other)| *sum += other);
    }

    /// The statistics of pixels from 0 to `white`. A constant channel gets standard deviation 1, so that normalisation is
    /// defined.
    pub fn statistics(&self, white: u8) -> Statistics {
        let count = u128::from(self.images) * self.area as u128;
        let scale = count.max(1) as f64 * f64::from(white.max(1));
        let mean = self.sums.iter().map(|&sum| sum as f64 / scale).collect();
        let std = self.sums.iter().zip(&self.squares).map(|(&sum, &square)| {
            // Exact in integers; a difference of floats would lose digits.
            let spread = count * u128::from(square) - u128::from(sum).pow(2);
            if spread == 0 { 1.0 } else { (spread as f64).sqrt() / scale }
        });
        Statistics { mean, std: std.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_those_of_the_definition() {
        let mut sums = PixelSums::new(ImageShape { channels: 2, height: 1, width: 2 });
        sums.add(&[0, 255, 7, 7]);
        sums.add(&[255, 0, 7, 7]);
        let statistics = sums.statistics(255);
        assert_eq!(statistics.mean, [0.5, 7.0 / 255.0]);
        assert_eq!(statistics.std, [0.5, 1.0]);
    }

    #[test]
    fn sums_do_not_depend_on_who_added_what() {
        let shape = ImageShape { channels: 1, height: 2, width: 2 };
        let images: Vec<[u8; 4]> = (0..10).map(|index| [index, 3 * index, 255 - index, 9]).collect();
        let sum = |images: &[[u8; 4]]| {
            let mut sums = PixelSums::new(shape);
            images.iter().for_each(|image| sums.add(image));
            sums
        };
        let mut merged = sum(&images[7..]);
        merged.merge(&sum(&images[..7]));
        assert_eq!(merged, sum(&images));
    }

    #[test]
    fn no_image_gives_finite_statistics() {
        let sums = PixelSums::new(ImageShape { channels: 1, height: 2, width: 2 });
        assert_eq!(sums.statistics(255), Statistics { mean: vec![0.0], std: vec![1.0] });
    }
}
