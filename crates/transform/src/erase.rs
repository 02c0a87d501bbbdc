use oomph_config::{ConfigError, Section};
use oomph_core::{Generator, Key};

use super::{area::AreaRange, image_shape::ImageShape, view::Window};

/// Random erasing (Zhong et al. 2017, [arXiv:1708.04896](https://arxiv.org/abs/1708.04896)), as torchvision's
/// `RandomErasing` does it: with some probability a rectangle of the normalised image becomes 0, the mean of its channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Erase {
    /// The probability, above 0 and at most 1.
    probability: f64,
    range: AreaRange,
}

impl Erase {
    /// Reads `augment.erase`, `augment.erase_area` and `augment.erase_ratio`; `None` if the first is 0.
    pub(super) fn read(section: &Section) -> Result<Option<Self>, ConfigError> {
        let probability = section.number("augment.erase", 0.0, 0.0..=1.0)?;
        let keys = AreaRange::keys("augment.erase_area", "augment.erase_ratio");
        let range = AreaRange::read(section, keys, &[0.02, 0.33], [0.3, 3.3])?;
        if probability == 0.0 {
            for key in ["augment.erase_area", "augment.erase_ratio"] {
                section.has_no_effect(key, "`data.augment.erase` is `0`, so nothing is erased");
            }
            return Ok(None);
        }
        match range {
            Some(range) => Ok(Some(Self { probability, range })),
            None => {
                Err(section.invalid("augment.erase_area", "two shares of the area, such as `[0.02, 0.33]`"))
            }
        }
    }

    /// Sets a random rectangle of an image to 0, or nothing. The rectangle is smaller than the image; after ten larger
    /// ones the image stays.
    pub(super) fn apply(&self, values: &mut [f32], shape: ImageShape, key: Key) {
        let ImageShape { height, width, .. } = shape;
        let Some(window) = self.window(height, width, &mut Generator::at(key)) else { return };
        for channel in values.chunks_exact_mut(height * width) {
            for row in channel.chunks_exact_mut(width).skip(window.top).take(window.height) {
                row[window.left..window.left + window.width].fill(0.0);
            }
        }
    }

    fn window(&self, height: usize, width: usize, generator: &mut Generator) -> Option<Window> {
        if !generator.chance(self.probability as f32) {
            return None;
        }
        (0..10).find_map(|_| {
            // torchvision's ratio of an erased rectangle is height to width.
            let (wide, tall) = self.range.sides(width, height, generator);
            let is_within = (1..height).contains(&tall) && (1..width).contains(&wide);
            is_within.then(|| Window {
                top: generator.below(height - tall + 1),
                left: generator.below(width - wide + 1),
                height: tall,
                width: wide,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: ImageShape = ImageShape { channels: 2, height: 40, width: 40 };

    fn erased(probability: f64, share: [f64; 2], index: u64) -> Vec<f32> {
        let erase = Erase { probability, range: AreaRange { share, ratio: [1.0, 1.0] } };
        let mut values = vec![1.0; SHAPE.elements()];
        erase.apply(&mut values, SHAPE, Key::new(3).with(index));
        values
    }

    #[test]
    fn a_square_of_the_given_share_is_erased_in_all_channels() {
        for index in 0..100 {
            let values = erased(1.0, [0.25, 0.25], index);
            let holes: Vec<_> = (0..1600).filter(|&place| values[place] == 0.0).collect();
            assert_eq!(holes.len(), 400);
            assert!(holes.iter().all(|place| values[1600 + place] == 0.0));
            let columns = |place: &usize| place % 40;
            let (first, last) = (holes.iter().map(columns).min(), holes.iter().map(columns).max());
            assert_eq!(last.zip(first).map(|(last, first)| last - first), Some(19), "a square");
        }
    }

    #[test]
    fn the_given_share_of_images_is_erased() {
        let count = (0..1000).filter(|&index| erased(0.25, [0.1, 0.2], index).contains(&0.0)).count();
        // Five standard deviations of √(1000 · 0.25 · 0.75) = 13.7.
        assert!(count.abs_diff(250) < 69, "{count}");
    }

    #[test]
    fn nothing_as_large_as_the_image_is_erased() {
        assert!((0..100).all(|index| !erased(1.0, [1.0, 1.0], index).contains(&0.0)));
    }
}
