use oomph_config::{ConfigError, Section};
use oomph_core::{Generator, Key};

use super::{
    affine::{affine, rotation},
    color_jitter::ColorJitter,
    erase::Erase,
    image_shape::ImageShape,
    rand_augment::RandAugment,
    resized_crop::ResizedCrop,
};

/// The random changes of training images beside crop and flip: the table `[data.augment]`. By default there are none.
///
/// Each has a random stream of its own, so that turning one off does not change the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Augment {
    /// A random window, resized.
    pub resized_crop: Option<ResizedCrop>,
    /// The largest angle by which images are turned to either side, in degrees. What comes from outside is black.
    pub rotate: f64,
    /// Random changes of colour.
    pub color_jitter: ColorJitter,
    /// Random operations.
    pub rand_augment: Option<RandAugment>,
    /// A random rectangle of the normalised image that becomes 0.
    pub erase: Option<Erase>,
}

impl Augment {
    /// Reads the keys `augment.…` of the section `[data]`, for images of `channels` channels.
    pub(super) fn read(section: &Section, channels: usize) -> Result<Self, ConfigError> {
        Ok(Self {
            resized_crop: ResizedCrop::read(section)?,
            rotate: section.number("augment.rotate", 0.0, 0.0..=180.0)?,
            color_jitter: ColorJitter::read(section, channels)?,
            rand_augment: RandAugment::read(section, channels)?,
            erase: Erase::read(section)?,
        })
    }

    /// The first key of a change that needs pixels of 256 values, for messages.
    pub fn needs_bytes(&self) -> Option<&'static str> {
        self.color_jitter.first_key().or(self.rand_augment.map(|_| "augment.rand_augment"))
    }

    /// The first key that is not off, for messages.
    pub fn first_key(&self) -> Option<&'static str> {
        let keys = [
            self.resized_crop.map(|_| "augment.resized_crop"),
            (self.rotate > 0.0).then_some("augment.rotate"),
            self.needs_bytes(),
            self.erase.map(|_| "augment.erase"),
        ];
        keys.into_iter().flatten().next()
    }

    /// Whether [`apply`](Self::apply) may change an image.
    pub(super) fn changes_pixels(&self) -> bool {
        self.rotate > 0.0 || self.needs_bytes().is_some()
    }

    /// Turns an image and changes its colours, by random draws from the key.
    pub(super) fn apply(&self, pixels: &mut Vec<u8>, shape: ImageShape, key: Key) {
        let generator = |name| Generator::at(key.with_name(name));
        if self.rotate > 0.0 {
            let most = self.rotate as f32;
            let degrees = generator("rotate").uniform_in(-most, most);
            *pixels = affine(pixels, shape, rotation(degrees.into()));
        }
        if self.color_jitter.first_key().is_some() {
            self.color_jitter.apply(pixels, shape, &mut generator("color jitter"));
        }
        if let Some(rand_augment) = self.rand_augment {
            rand_augment.apply(pixels, shape, &mut generator("rand augment"));
        }
    }
}
