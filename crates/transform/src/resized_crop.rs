use oomph_config::{ConfigError, Section};
use oomph_core::Generator;

use super::{area::AreaRange, view::Window};

/// The random resized crop of Szegedy et al. 2014 ([arXiv:1409.4842](https://arxiv.org/abs/1409.4842)), sampled as
/// torchvision's `RandomResizedCrop` does: a window of a random share of the image and of a random ratio, resized to the
/// size of the inputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResizedCrop(pub(super) AreaRange);

impl ResizedCrop {
    /// Reads `augment.resized_crop`, the least and the largest share, and `augment.resized_crop_ratio`; `None` without the
    /// first.
    pub(super) fn read(section: &Section) -> Result<Option<Self>, ConfigError> {
        let range = AreaRange::read(
            section,
            AreaRange::keys("augment.resized_crop", "augment.resized_crop_ratio"),
            &[],
            [3.0 / 4.0, 4.0 / 3.0],
        )?;
        if range.is_none() {
            section.has_no_effect(
                "augment.resized_crop_ratio",
                "`data.augment.resized_crop` is not set, so no image is cropped and resized",
            );
        }
        Ok(range.map(Self))
    }

    /// A random window of an image.
    ///
    /// After ten windows that do not lie within the image, it is the largest window in the middle whose ratio is allowed.
    pub(super) fn window(&self, height: usize, width: usize, generator: &mut Generator) -> Window {
        for _ in 0..10 {
            let (tall, wide) = self.0.sides(height, width, generator);
            if (1..=height).contains(&tall) && (1..=width).contains(&wide) {
                let top = generator.below(height - tall + 1);
                let left = generator.below(width - wide + 1);
                return Window { top, left, height: tall, width: wide };
            }
        }
        let [least, most] = self.0.ratio;
        let ratio = width as f64 / height as f64;
        let side = |side: f64, most: usize| (side.round() as usize).clamp(1, most);
        let (tall, wide) = if ratio < least {
            (side(width as f64 / least, height), width)
        } else if ratio > most {
            (height, side(height as f64 * most, width))
        } else {
            (height, width)
        };
        Window { top: (height - tall) / 2, left: (width - wide) / 2, height: tall, width: wide }
    }
}

#[cfg(test)]
mod tests {
    use oomph_core::Key;

    use super::*;

    fn windows(share: [f64; 2], ratio: [f64; 2], [height, width]: [usize; 2], count: u64) -> Vec<Window> {
        let crop = ResizedCrop(AreaRange { share, ratio });
        let draw = |index| crop.window(height, width, &mut Generator::at(Key::new(5).with(index)));
        (0..count).map(draw).collect()
    }

    #[test]
    fn a_quarter_of_a_square_is_half_as_wide_and_anywhere() {
        let windows = windows([0.25, 0.25], [1.0, 1.0], [32, 32], 17 * 1000);
        let mut tops = [0; 17];
        for window in windows {
            assert_eq!((window.height, window.width), (16, 16));
            tops[window.top] += 1;
        }
        // Each of 17 places 1,000 times, give or take five standard deviations of √(1000 · 16/17) = 31.
        assert!(tops.iter().all(|count: &i32| count.abs_diff(1000) < 154), "{tops:?}");
    }

    #[test]
    fn the_share_is_uniform_and_so_is_the_logarithm_of_the_ratio() {
        let windows = windows([0.1, 0.5], [0.5, 2.0], [4000, 4000], 10_000);
        let shares = windows.iter().map(|window| (window.height * window.width) as f64 / 16e6);
        let mean = shares.sum::<f64>() / 10_000.0;
        // The mean of U(0.1, 0.5) is 0.3, with a standard error of 0.4 / √12 / 100 = 0.00115. No window of these fails:
        // √(0.5 · 2) = 1.
        assert!((mean - 0.3).abs() < 5.0 * 0.00115, "{mean}");
        let logarithms = windows.iter().map(|window| (window.width as f64 / window.height as f64).log2());
        let (mut sum, mut squares) = (0.0, 0.0);
        logarithms.for_each(|log| {
            sum += log;
            squares += log * log;
        });
        // log₂ of the ratio is U(−1, 1): mean 0 with a standard error of 0.0058, variance 1/3 with one of
        // √(1/5 − 1/9) / 100 = 0.003.
        assert!((sum / 10_000.0).abs() < 5.0 * 0.0058, "{sum}");
        assert!((squares / 10_000.0 - 1.0 / 3.0).abs() < 5.0 * 0.003, "{squares}");
    }

    #[test]
    fn windows_that_never_fit_become_the_middle() {
        let whole = |ratio, size| windows([1.0, 1.0], ratio, size, 1)[0];
        assert_eq!(
            whole([4.0, 4.0], [100, 100]),
            Window { top: 37, left: 0, height: 25, width: 100 },
            "as wide as the image, a quarter as high"
        );
        assert_eq!(whole([0.25, 0.25], [100, 100]), Window { top: 0, left: 37, height: 100, width: 25 });
    }
}
