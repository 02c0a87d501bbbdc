use oomph_config::{ConfigError, Section};
use oomph_core::Generator;

use super::{color, image_shape::ImageShape};

/// Random changes of colour, as torchvision's `ColorJitter` makes them. Each is off at 0.
///
/// The factor of brightness, contrast and saturation is uniform between 1 − the value, at least 0, and 1 + the value. The
/// hue turns by a uniform share of the circle of colours, up to the value to both sides. The order is random.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ColorJitter {
    /// The largest change of brightness.
    pub brightness: f64,
    /// The largest change of contrast.
    pub contrast: f64,
    /// The largest change of saturation.
    pub saturation: f64,
    /// The largest turn of the hue, up to 0.5.
    pub hue: f64,
}

/// One change of colour.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ColorChange {
    Brightness(f64),
    Contrast(f64),
    Saturation(f64),
    Hue(f64),
}

/// The keys of changes that need colours.
const COLOURED: [&str; 2] = ["augment.saturation", "augment.hue"];
const KEYS: [&str; 4] = ["augment.brightness", "augment.contrast", COLOURED[0], COLOURED[1]];

impl ColorJitter {
    /// Reads `augment.brightness`, `augment.contrast`, `augment.saturation` and `augment.hue`, for images of `channels`
    /// channels.
    pub(super) fn read(section: &Section, channels: usize) -> Result<Self, ConfigError> {
        let [brightness, contrast, saturation, hue] = KEYS;
        let jitter = Self {
            brightness: section.number(brightness, 0.0, 0.0..=10.0)?,
            contrast: section.number(contrast, 0.0, 0.0..=10.0)?,
            saturation: section.number(saturation, 0.0, 0.0..=10.0)?,
            hue: section.number(hue, 0.0, 0.0..=0.5)?,
        };
        for (key, value) in KEYS.into_iter().zip(jitter.values()) {
            if value > 0.0 && !matches!(channels, 1 | 3) {
                return Err(section.invalid(key, format!("`0`, since images have {channels} channels")));
            }
        }
        if channels == 1 {
            for (key, value) in COLOURED.into_iter().zip([jitter.saturation, jitter.hue]) {
                if value > 0.0 {
                    return Err(section.invalid(key, "`0`, since images are grey"));
                }
            }
        }
        Ok(jitter)
    }

    /// The first key that is not off, for messages.
    pub(crate) fn first_key(&self) -> Option<&'static str> {
        KEYS.into_iter().zip(self.values()).find(|(_, value)| *value > 0.0).map(|(key, _)| key)
    }

    fn values(&self) -> [f64; 4] {
        [self.brightness, self.contrast, self.saturation, self.hue]
    }

    /// Changes an image by random draws.
    pub(super) fn apply(&self, pixels: &mut [u8], shape: ImageShape, generator: &mut Generator) {
        for change in self.changes(generator) {
            match change {
                ColorChange::Brightness(factor) => color::brightness(pixels, factor),
                ColorChange::Contrast(factor) => color::contrast(pixels, shape, factor),
                ColorChange::Saturation(factor) => color::saturation(pixels, shape, factor),
                ColorChange::Hue(turn) => color::hue(pixels, shape, turn),
            }
        }
    }

    /// Random changes in a random order. A change that is off takes its draw, so that it does not change the others.
    fn changes(&self, generator: &mut Generator) -> Vec<ColorChange> {
        let mut within = |low: f64, high: f64| f64::from(generator.uniform_in(low as f32, high as f32));
        let [brightness, contrast, saturation] = [self.brightness, self.contrast, self.saturation]
            .map(|most| within((1.0 - most).max(0.0), 1.0 + most));
        let hue = within(-self.hue, self.hue);
        let mut changes = [
            ColorChange::Brightness(brightness),
            ColorChange::Contrast(contrast),
            ColorChange::Saturation(saturation),
            ColorChange::Hue(hue),
        ];
        generator.shuffle(&mut changes);
        changes.into_iter().filter(|change| self.is_on(change)).collect()
    }

    fn is_on(&self, change: &ColorChange) -> bool {
        0.0 < match change {
            ColorChange::Brightness(_) => self.brightness,
            ColorChange::Contrast(_) => self.contrast,
            ColorChange::Saturation(_) => self.saturation,
            ColorChange::Hue(_) => self.hue,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use oomph_core::Key;

    use super::*;

    fn draws(jitter: ColorJitter, count: u64) -> Vec<Vec<ColorChange>> {
        (0..count).map(|index| jitter.changes(&mut Generator::at(Key::new(8).with(index)))).collect()
    }

    #[test]
    fn factors_are_uniform_in_their_range() {
        let jitter = ColorJitter { brightness: 0.4, contrast: 2.0, saturation: 0.0, hue: 0.1 };
        let mut values: [Vec<f64>; 3] = Default::default();
        for change in draws(jitter, 10_000).concat() {
            match change {
                ColorChange::Brightness(factor) => values[0].push(factor),
                ColorChange::Contrast(factor) => values[1].push(factor),
                ColorChange::Hue(turn) => values[2].push(turn),
                ColorChange::Saturation(_) => unreachable!("it is off"),
            }
        }
        // A contrast of 2 is from 0, not from −1, to 3.
        for (values, [low, high]) in values.into_iter().zip([[0.6, 1.4], [0.0, 3.0], [-0.1, 0.1]]) {
            assert_eq!(values.len(), 10_000);
            assert!(values.iter().all(|value| (low - 1e-6..=high + 1e-6).contains(value)));
            let mean = values.iter().sum::<f64>() / 10_000.0;
            let standard_error = (high - low) / 12f64.sqrt() / 100.0;
            assert!((mean - (low + high) / 2.0).abs() < 5.0 * standard_error, "{mean}");
        }
    }

    #[test]
    fn every_order_is_equally_likely() {
        let jitter = ColorJitter { brightness: 0.4, contrast: 0.4, saturation: 0.4, hue: 0.0 };
        let mut counts = BTreeMap::new();
        for changes in draws(jitter, 6000) {
            let order = changes.iter().map(|change| match change {
                ColorChange::Brightness(_) => 'b',
                ColorChange::Contrast(_) => 'c',
                ColorChange::Saturation(_) => 's',
                ColorChange::Hue(_) => 'h',
            });
            *counts.entry(order.collect::<String>()).or_insert(0u32) += 1;
        }
        // Six orders, each 1,000 times give or take five standard deviations of √(1000 · 5/6) = 29.
        assert_eq!(counts.len(), 6);
        assert!(counts.values().all(|count| count.abs_diff(1000) < 145), "{counts:?}");
    }
}
