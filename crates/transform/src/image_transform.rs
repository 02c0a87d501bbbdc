//! From the pixels of an image to the values of a model.

use std::borrow::Cow;

use oomph_config::{ConfigError, Section};
use oomph_core::{Generator, Key};

use crate::{
    augment::Augment,
    crop,
    image_shape::ImageShape,
    normalize::Normalize,
    resize::{self, Fit, Resize},
    statistics::Statistics,
    view::View,
};

/// The transforms that the user chose: `normalize`, `mean`, `std`, `crop_padding`, `flip` and the table `augment`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TransformSettings {
    /// The source of the mean and the standard deviation of pixels.
    pub normalize: Normalize,
    /// Training images get a frame of this many black pixels, then a random crop to their size.
    pub crop_padding: usize,
    /// Training images are mirrored, left to right, with probability ½.
    pub flip: bool,
    /// Further random changes of training images.
    pub augment: Augment,
}

impl TransformSettings {
    /// Reads the keys from the section `[data]`, for images of `channels` channels.
    ///
    /// # Errors
    /// A value of the wrong type or out of its range, or settings that exclude each other.
    pub fn read(section: &Section, channels: usize) -> Result<Self, ConfigError> {
        let settings = Self {
            normalize: Normalize::read(section, channels)?,
            crop_padding: section.integer("crop_padding", 0, 0..=1024)?,
            flip: section.boolean("flip", false)?,
            augment: Augment::read(section, channels)?,
        };
        match settings.crop_padding > 0 && settings.augment.resized_crop.is_some() {
            true => {
                Err(section
                    .invalid("crop_padding", "`0`, since `data.augment.resized_crop` crops images too"))
            }
            false => Ok(settings),
        }
    }

    /// The first key of random changes that is not off, for messages.
    pub fn first_random_key(&self) -> Option<&'static str> {
        let crop = (self.crop_padding > 0).then_some("crop_padding");
        crop.or(self.flip.then_some("flip")).or(self.augment.first_key())
    }
}

/// Turns the pixels of an image, as bytes, into the input values of a model.
#[derive(Clone, Debug)]
pub struct ImageTransform {
    shape: ImageShape,
    crop_padding: usize,
    flip: bool,
    augment: Augment,
    /// The filter of a random resized crop.
    resize: Resize,
    /// The value of each byte, for each channel.
    tables: Vec<[f32; 256]>,
}

impl ImageTransform {
    /// The transform of images of `shape`, whose pixels go from 0 to `white`. Changes of colour need a `white` of 255.
    ///
    /// Pixels are scaled to [0, 1]; then the mean of their channel is subtracted, and they are divided by its standard
    /// deviation. A channel without statistics is only scaled.
    pub fn new(shape: ImageShape, settings: &TransformSettings, statistics: &Statistics, white: u8) -> Self {
        Self {
            shape,
            crop_padding: settings.crop_padding,
            flip: settings.flip,
            augment: settings.augment.clone(),
            resize: Resize::default(),
            tables: (0..shape.channels).map(|channel| statistics.table(channel, white)).collect(),
        }
    }

    /// The transform with the filter of a random resized crop.
    pub fn with_resize(self, resize: Resize) -> Self {
        Self { resize, ..self }
    }

    /// The size of the images.
    pub fn shape(&self) -> ImageShape {
        self.shape
    }

    /// The values of one image, changed by random draws from the key `augment`, if there is one.
    ///
    /// The order is that of torchvision's training recipes: crop, flip, rotation, colour jitter, RandAugment, and after
    /// normalisation erasing. Each has a separate random stream, so that turning one off does not change the others. A crop
    /// adds black pixels, as in torchvision, where `RandomCrop` also comes before `Normalize`.
    ///
    /// # Panics
    /// Panics if the number of `pixels` is not that of [`shape`](Self::shape).
    pub fn apply(&self, pixels: &[u8], augment: Option<Key>) -> Vec<f32> {
        // A wrong number of pixels is a bug of the source; a loader names the sample.
        assert_eq!(pixels.len(), self.shape.elements(), "pixels of an image of {:?}", self.shape);
        match augment {
            Some(key) => self.augmented(View::planar(pixels, self.shape), Cow::Borrowed(pixels), key),
            None => self.normalize(pixels),
        }
    }

    /// Whether training images are cropped at random from whole images of any size: [`apply_whole`](Self::apply_whole).
    pub fn crops_whole_images(&self) -> bool {
        self.augment.resized_crop.is_some()
    }

    /// The values of one training image, cropped at random from a whole image of any size, resized and changed.
    pub fn apply_whole(&self, whole: View<'_>, key: Key) -> Vec<f32> {
        self.augmented(whole, Cow::default(), key)
    }

    /// The values of an augmented image: of a window of `whole` if there is a random resized crop, else of `pixels`.
    fn augmented(&self, whole: View<'_>, mut pixels: Cow<'_, [u8]>, key: Key) -> Vec<f32> {
        let shape = self.shape;
        if let Some(crop) = self.augment.resized_crop {
            let ImageShape { height, width, .. } = whole.shape();
            let window = crop.window(height, width, &mut Generator::at(key.with_name("resized crop")));
            pixels = resize::fitted(whole.window(window), shape, self.resize, Fit::Stretch).into();
        } else if self.crop_padding > 0 {
            let mut generator = Generator::at(key.with_name("crop"));
            let top = generator.below(2 * self.crop_padding + 1);
            let left = generator.below(2 * self.crop_padding + 1);
            pixels = crop::crop(&pixels, shape, self.crop_padding, top, left).into();
        }
        if self.flip && Generator::at(key.with_name("flip")).chance(0.5) {
            flip(pixels.to_mut(), shape.width);
        }
        if self.augment.changes_pixels() {
            self.augment.apply(pixels.to_mut(), shape, key);
        }
        let mut values = self.normalize(&pixels);
        if let Some(erase) = self.augment.erase {
            erase.apply(&mut values, shape, key.with_name("erase"));
        }
        values
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
        assert_eq!(
            settings,
            TransformSettings {
                normalize: Normalize::None,
                crop_padding: 4,
                flip: true,
                ..Default::default()
            }
        );
        assert_eq!(read("").expect("valid settings"), TransformSettings::default());
        for text in [
            "crop_padding = -1",
            "flip = 1",
            "normalize = \"maybe\"",
            "augment.rotate = 181",
            "augment.brightness = -0.1",
            "augment.hue = 0.6",
            "augment.rand_augment = 15",
            "augment.magnitude = 31",
            "augment.erase = 1.5",
            "augment.erase = 0.5\naugment.erase_area = [0.3, 0.1]",
            "augment.erase_ratio = [0.0, 1.0]",
            "augment.resized_crop = [0.5]",
            "augment.resized_crop = [0.5, 1.5]",
            "augment.resized_crop_ratio = [2.0, 0.5]",
            "crop_padding = 4\naugment.resized_crop = [0.5, 1.0]",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        let colours = |text: &str, channels| {
            TransformSettings::read(&Section::from_toml("data", text).expect("valid TOML"), channels)
        };
        for text in ["augment.hue = 0.1", "augment.saturation = 0.1"] {
            assert!(colours(text, 3).is_ok() && colours(text, 1).is_err(), "grey images have no {text}");
        }
        for text in ["augment.contrast = 0.1", "augment.rand_augment = 1"] {
            assert!(colours(text, 1).is_ok() && colours(text, 4).is_err(), "{text}");
        }
    }

    #[test]
    fn every_change_has_a_stream_of_its_own() {
        let shape = ImageShape { channels: 3, height: 12, width: 12 };
        let pixels: Vec<u8> = (0..shape.elements()).map(|place| (10 + place * 37 % 240) as u8).collect();
        let values = |text: &str| {
            let section = Section::from_toml("data", text).expect("valid TOML");
            let settings = TransformSettings::read(&section, 3).expect("valid settings");
            let transform = ImageTransform::new(shape, &settings, &Statistics::default(), 255);
            transform.apply(&pixels, Some(Key::new(7).with(2)))
        };
        // No pixel is black before it is erased, nor after such small changes.
        let holes = |text| values(text).into_iter().map(|value| value == 0.0).collect::<Vec<_>>();
        let alone = holes("augment.erase = 1");
        assert!(alone.contains(&true), "this image is erased");
        let others =
            "flip = true\naugment.rotate = 1e-6\naugment.contrast = 1e-6\naugment.resized_crop = [0.9, 1]";
        assert_eq!(holes(&format!("augment.erase = 1\n{others}")), alone);
    }
}
