//! What becomes of the pixels of an image between its file and a model: augmentation, then scaling and normalisation.
//!
//! - [`ImageTransform`]: from pixels to the values of a model's input, with the [`TransformSettings`] of a user.
//! - [`fitted`]: an image in another size, by a [`Resize`] filter and a [`Fit`].
//! - [`Statistics`], [`PixelSums`]: mean and deviation of channels.
//!
//! ```
//! use oomph_transform::{ImageShape, ImageTransform, Statistics, TransformSettings};
//!
//! let shape = ImageShape { channels: 1, height: 2, width: 2 };
//! let statistics = Statistics { mean: vec![0.5], std: vec![0.25] };
//! let transform = ImageTransform::new(shape, &TransformSettings::default(), &statistics, 255);
//! assert_eq!(transform.apply(&[0, 255, 255, 0], None), [-2.0, 2.0, 2.0, -2.0]);
//! ```
//!
//! It reads no files. Random changes are a function of a key.

mod affine;
mod area;
mod augment;
mod color;
mod color_jitter;
mod crop;
mod erase;
#[cfg(test)]
mod golden;
mod image_shape;
mod image_transform;
mod normalize;
mod rand_augment;
mod resize;
mod resized_crop;
mod statistics;
mod view;

pub use self::{
    augment::Augment,
    color_jitter::ColorJitter,
    erase::Erase,
    image_shape::ImageShape,
    image_transform::{ImageTransform, TransformSettings},
    normalize::Normalize,
    rand_augment::RandAugment,
    resize::{Fit, Resize, fitted},
    resized_crop::ResizedCrop,
    statistics::{PixelSums, Statistics},
    view::View,
};
