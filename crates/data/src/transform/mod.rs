//! The transforms of pixels between file and model: crop and flip for augmentation, then scaling and normalisation.

mod crop;
mod normalize;
mod statistics;

use oomph_config::{ConfigError, Section};
use oomph_core::{Generator, InputSpec, Key};
use serde::{Deserialize, Serialize};

pub use self::{
    normalize::Normalize,
    statistics::{PixelSums, Statistics},
};

/// The size of an image. Pixels are ordered by channel, then by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageShape {
    /// Number of channels.
    pub channels: usize,
    /// Number of rows.
    pub height: usize,
    /// Number of columns.
    pub width: usize,
}

impl ImageShape {
    /// Number of values of one image.
    pub const fn elements(self) -> usize {
        self.channels * self.height * self.width
    }
}

impl From<ImageShape> for InputSpec {
    fn from(ImageShape { channels, height, width }: ImageShape) -> Self {
        Self::Image { channels, height, width }
    }
}

/// The transforms that the user chose: `normalize`, `mean`, `std`, `crop_padding` and `flip`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransformSettings {
    /// The source of the mean and the standard deviation of pixels.
    pub normalize: Normalize,
    /// Training images get a frame of this many black pixels, then a random crop to their size.
    pub crop_padding: usize,
    /// Training images are mirrored, left to right, with probability ½.
    pub flip: bool,
}

impl TransformSettings {
    /// Reads the keys from the section `[data]`, for images of `channels` channels.
    ///
    /// # Errors
    /// A value of the wrong type or out of its range, or settings that exclude each other.
    pub fn read(section: &Section, channels: usize) -> Result<Self, ConfigError> {
        Ok(Self {
            normalize: Normalize::read(section, channels)?,
            crop_padding: section.integer("crop_padding", 0, 0..=1024)?,
            flip: section.boolean("flip", false)?,
        })
    }
}

/// Turns the pixels of an image, as bytes, into the input values of a model.
///
/// ```
/// use oomph_data::transform::{ImageShape, ImageTransform, Statistics, TransformSettings};
///
/// let shape = ImageShape { channels: 1, height: 2, width: 2 };
/// let statistics = Statistics { mean: vec![0.5], std: vec![0.25] };
/// let transform = ImageTransform::new(shape, &TransformSettings::default(), &statistics, 255);
/// assert_eq!(transform.apply(&[0, 255, 255, 0], None), [-2.0, 2.0, 2.0, -2.0]);
/// ```
#[derive(Clone, Debug)]
pub struct ImageTransform {
    shape: ImageShape,
    crop_padding: usize,
    flip: bool,
    /// The value of each byte, for each channel.
    tables: Vec<[f32; 256]>,
}

impl ImageTransform {
    /// The transform of images of `shape`, whose pixels go from 0 to `white`.
    ///
    /// Pixels are scaled to [0, 1]; then the mean of their channel is subtracted, and they are divided by its standard
    /// deviation. A channel without statistics is only scaled.
    pub fn new(shape: ImageShape, settings: &TransformSettings, statistics: &Statistics, white: u8) -> Self {
        Self {
            shape,
            crop_padding: settings.crop_padding,
            flip: settings.flip,
            tables: (0..shape.channels).map(|channel| statistics.table(channel, white)).collect(),
        }
    }

    /// The size of the images.
    pub fn shape(&self) -> ImageShape {
        self.shape
    }

    /// The values of one image, cropped and flipped by random draws from the key `augment`, if there is one.
    ///
    /// Crop and flip have separate random streams, so that turning one off does not change the other. A crop adds black
    /// pixels, as in torchvision, where `RandomCrop` also comes before `Normalize`.
    ///
    /// # Panics
    /// Panics if the number of `pixels` is not that of [`shape`](Self::shape).
    pub fn apply(&self, pixels: &[u8], augment: Option<Key>) -> Vec<f32> {
        // A wrong number of pixels is a bug of the source; a loader names the sample.
        assert_eq!(pixels.len(), self.shape.elements(), "pixels of an image of {:?}", self.shape);
        let Some(key) = augment else { return self.normalize(pixels) };
        let is_flipped = self.flip && Generator::at(key.with_name("flip")).chance(0.5);
        if self.crop_padding == 0 && !is_flipped {
            return self.normalize(pixels);
        }
        let mut pixels = match self.crop_padding {
            0 => pixels.to_vec(),
            padding => {
                let mut generator = Generator::at(key.with_name("crop"));
                let top = generator.below(2 * padding + 1);
                let left = generator.below(2 * padding + 1);
                crop::crop(pixels, self.shape, padding, top, left)
            }
        };
        if is_flipped {
            flip(&mut pixels, self.shape.width);
        }
        self.normalize(&pixels)
    }

    fn normalize(&self, pixels: &[u8]) -> Vec<f32> {
        let area = self.shape.height * self.shape.width;
        let mut values = Vec::with_capacity(pixels.len());
        for (table, channel) in self.tables.iter().zip(pixels.chunks_exact(area)) {
            values.extend(channel.iter().map(|&pixel| table[usize::from(pixel)]));
        }
        values
    }
}

/// Mirrors an image in place, left to right.
fn flip(pixels: &mut [u8], width: usize) {
    pixels.chunks_exact_mut(width).for_each(<[u8]>::reverse);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flip_mirrors_every_row() {
        let mut pixels = [1, 2, 3, 4, 5, 6];
        flip(&mut pixels, 3);
        assert_eq!(pixels, [3, 2, 1, 6, 5, 4]);
    }

    const SHAPE: ImageShape = ImageShape { channels: 2, height: 3, width: 4 };

    fn transform(crop_padding: usize, flip: bool) -> ImageTransform {
        let settings = TransformSettings { crop_padding, flip, ..TransformSettings::default() };
        ImageTransform::new(SHAPE, &settings, &Statistics::default(), 1)
    }

    fn image() -> Vec<u8> {
        (1..=SHAPE.elements() as u8).collect()
    }

    fn floats(pixels: &[u8]) -> Vec<f32> {
        pixels.iter().map(|&pixel| f32::from(pixel)).collect()
    }

    #[test]
    fn nothing_is_random_without_a_key() {
        assert_eq!(transform(2, true).apply(&image(), None), floats(&image()));
    }

    #[test]
    fn a_key_always_gives_the_same_image() {
        let transform = transform(2, true);
        let key = Key::new(1);
        assert_eq!(transform.apply(&image(), Some(key)), transform.apply(&image(), Some(key)));
    }

    #[test]
    fn every_crop_and_both_sides_come_up() {
        let transform = transform(1, true);
        let seen: std::collections::HashSet<Vec<u32>> = (0..500)
            .map(|index| transform.apply(&image(), Some(Key::new(1).with(index))))
            .map(|values| values.into_iter().map(f32::to_bits).collect())
            .collect();
        // 3 × 3 positions, mirrored or not.
        assert_eq!(seen.len(), 18);
    }

    #[test]
    fn half_of_the_images_are_flipped() {
        let transform = transform(0, true);
        let plain = floats(&image());
        let flipped = (0..1000)
            .filter(|&index| transform.apply(&image(), Some(Key::new(2).with(index))) != plain)
            .count();
        // Five standard deviations of a fair coin.
        assert!(flipped.abs_diff(500) < 80, "{flipped}");
    }

    #[test]
    fn a_crop_adds_black_and_not_the_mean() {
        let settings = TransformSettings { crop_padding: 3, ..TransformSettings::default() };
        let statistics = Statistics { mean: vec![0.5; 2], std: vec![0.5; 2] };
        let transform = ImageTransform::new(SHAPE, &settings, &statistics, 255);
        let white = vec![255; SHAPE.elements()];
        let values: Vec<_> =
            (0..50).flat_map(|index| transform.apply(&white, Some(Key::new(index)))).collect();
        assert!(values.contains(&-1.0));
        assert!(values.iter().all(|&value| value == -1.0 || value == 1.0));
    }

    #[test]
    fn settings_are_read_and_checked() {
        let read =
            |text: &str| TransformSettings::read(&Section::from_toml("data", text).expect("valid TOML"), 3);
        let settings = read("crop_padding = 4\nflip = true\nnormalize = \"none\"").expect("valid settings");
        assert_eq!(settings, TransformSettings { normalize: Normalize::None, crop_padding: 4, flip: true });
        assert_eq!(read("").expect("valid settings"), TransformSettings::default());
        for text in ["crop_padding = -1", "flip = 1", "normalize = \"maybe\""] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
