use oomph_config::{ConfigError, Section};
use oomph_core::Generator;

use super::{
    affine::{affine, rotation, shear, translation},
    color,
    image_shape::ImageShape,
};

/// RandAugment (Cubuk et al. 2020, [arXiv:1909.13719](https://arxiv.org/abs/1909.13719)), with the 14 operations and the 31
/// magnitudes of torchvision: a number of operations, each chosen at random, of one magnitude for all.
///
/// Geometric operations interpolate bilinearly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandAugment {
    /// The number of operations, n in the paper.
    operations: usize,
    /// The magnitude, m in the paper: 0 to 30.
    magnitude: usize,
}

/// The largest magnitude.
const LARGEST: usize = 30;

/// An operation of the paper, with its strength.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Operation {
    Identity,
    /// Pixels to the left for each row.
    ShearX(f64),
    /// Pixels up for each column.
    ShearY(f64),
    /// Whole pixels to the right.
    TranslateX(f64),
    /// Whole pixels down.
    TranslateY(f64),
    /// Degrees, counterclockwise.
    Rotate(f64),
    /// A factor, as of the next three.
    Brightness(f64),
    Saturation(f64),
    Contrast(f64),
    Sharpness(f64),
    /// Bits that are kept.
    Posterize(u32),
    /// The least value that is inverted.
    Solarize(f64),
    Autocontrast,
    Equalize,
}

/// The number of kinds of operations.
const KINDS: usize = 14;

impl RandAugment {
    /// Reads `augment.rand_augment` and `augment.magnitude`, for images of `channels` channels; `None` without operations.
    pub(super) fn read(section: &Section, channels: usize) -> Result<Option<Self>, ConfigError> {
        let operations = section.integer("augment.rand_augment", 0, 0..=KINDS)?;
        let magnitude = section.integer("augment.magnitude", 9, 0..=LARGEST)?;
        if operations == 0 {
            let because = "`data.augment.rand_augment` is `0`, so it has no operation";
            section.has_no_effect("augment.magnitude", because);
            return Ok(None);
        }
        if !matches!(channels, 1 | 3) {
            let expected = format!("`0`, since images have {channels} channels");
            return Err(section.invalid("augment.rand_augment", expected));
        }
        Ok(Some(Self { operations, magnitude }))
    }

    /// The operations on an image, in order.
    fn draw(&self, shape: ImageShape, generator: &mut Generator) -> Vec<Operation> {
        (0..self.operations)
            .map(|_| {
                let kind = generator.below(KINDS);
                // Operations without a sign take its draw too, so that each takes as many numbers.
                let sign = if generator.chance(0.5) { -1.0 } else { 1.0 };
                Operation::new(kind, self.magnitude, sign, shape)
            })
            .collect()
    }

    /// Applies random operations to an image.
    pub(super) fn apply(&self, pixels: &mut Vec<u8>, shape: ImageShape, generator: &mut Generator) {
        self.draw(shape, generator).into_iter().for_each(|operation| operation.apply(pixels, shape));
    }
}

impl Operation {
    /// An operation of a kind, below [`KINDS`], in torchvision's order.
    pub(super) fn new(kind: usize, magnitude: usize, sign: f64, shape: ImageShape) -> Self {
        let share = magnitude as f64 / LARGEST as f64;
        let factor = 1.0 + sign * 0.9 * share;
        // 150 of 331 pixels: the paper's translation of ImageNet's images.
        let pixels = |side: usize| sign * (150.0 / 331.0 * side as f64 * share).trunc();
        match kind {
            0 => Self::Identity,
            1 => Self::ShearX(sign * 0.3 * share),
            2 => Self::ShearY(sign * 0.3 * share),
            3 => Self::TranslateX(pixels(shape.width)),
            4 => Self::TranslateY(pixels(shape.height)),
            5 => Self::Rotate(sign * 30.0 * share),
            6 => Self::Brightness(factor),
            7 => Self::Saturation(factor),
            8 => Self::Contrast(factor),
            9 => Self::Sharpness(factor),
            10 => Self::Posterize(8 - (4.0 * share).round() as u32),
            11 => Self::Solarize(255.0 * (1.0 - share)),
            12 => Self::Autocontrast,
            _ => Self::Equalize,
        }
    }

    pub(super) fn apply(self, pixels: &mut Vec<u8>, shape: ImageShape) {
        let moved = match self {
            Self::ShearX(slope) => shear(slope, 0.0, shape),
            Self::ShearY(slope) => shear(0.0, slope, shape),
            Self::TranslateX(right) => translation(right, 0.0),
            Self::TranslateY(down) => translation(0.0, down),
            Self::Rotate(degrees) => rotation(degrees),
            Self::Identity => return,
            Self::Brightness(factor) => return color::brightness(pixels, factor),
            Self::Saturation(factor) => return color::saturation(pixels, shape, factor),
            Self::Contrast(factor) => return color::contrast(pixels, shape, factor),
            Self::Sharpness(factor) => return color::sharpness(pixels, shape, factor),
            Self::Posterize(bits) => return color::posterize(pixels, bits),
            Self::Solarize(threshold) => return color::solarize(pixels, threshold),
            Self::Autocontrast => return color::autocontrast(pixels, shape),
            Self::Equalize => return color::equalize(pixels, shape),
        };
        *pixels = affine(pixels, shape, moved);
    }
}

#[cfg(test)]
mod tests {
    use std::mem::discriminant;

    use oomph_core::Key;

    use super::*;

    const SHAPE: ImageShape = ImageShape { channels: 3, height: 32, width: 64 };

    #[test]
    fn every_kind_and_both_signs_are_equally_likely() {
        let augment = RandAugment { operations: 2, magnitude: 9 };
        let draw = |index| augment.draw(SHAPE, &mut Generator::at(Key::new(4).with(index)));
        let drawn: Vec<_> = (0..7000).flat_map(draw).collect();
        for kind in 0..KINDS {
            let signed = [-1.0, 1.0].map(|sign| Operation::new(kind, 9, sign, SHAPE));
            let like = |one: &&Operation| discriminant(*one) == discriminant(&signed[0]);
            let count = drawn.iter().filter(like).count();
            // 14,000 draws: each kind 1,000 times, give or take five standard deviations of √(1000 · 13/14) = 30.5.
            assert!(count.abs_diff(1000) < 153, "kind {kind}: {count}");
            if signed[0] != signed[1] {
                let negative = drawn.iter().filter(|one| **one == signed[0]).count();
                // Five standard deviations of √1000 / 2 = 16.
                assert!((2 * negative).abs_diff(count) < 160, "kind {kind}: {negative} of {count}");
            }
        }
    }

    #[test]
    fn magnitude_9_has_the_strengths_of_torchvision() {
        // By hand: 0.3 · 9/30, 150/331 · 64 · 9/30 = 8.7, 150/331 · 32 · 9/30 = 4.35, 30 · 9/30, 0.9 · 9/30,
        // 8 − round(9/7.5), 255 − 255 · 9/30.
        let close = |kind, expected: Operation| {
            let found = Operation::new(kind, 9, -1.0, SHAPE);
            assert_eq!(format!("{found:.5?}"), format!("{expected:.5?}"));
        };
        close(1, Operation::ShearX(-0.09));
        close(3, Operation::TranslateX(-8.0));
        close(4, Operation::TranslateY(-4.0));
        close(5, Operation::Rotate(-9.0));
        close(6, Operation::Brightness(0.73));
        close(10, Operation::Posterize(7));
        close(11, Operation::Solarize(178.5));
    }

    #[test]
    fn magnitude_0_changes_nothing_but_contrast() {
        let before: Vec<u8> = (0..SHAPE.elements()).map(|place| (place * 31 % 251) as u8).collect();
        // The last two have no magnitude. Solarize inverts 255 alone, which is not there.
        for kind in 0..KINDS - 2 {
            let mut pixels = before.clone();
            Operation::new(kind, 0, 1.0, SHAPE).apply(&mut pixels, SHAPE);
            assert_eq!(pixels, before, "kind {kind}");
        }
    }
}
