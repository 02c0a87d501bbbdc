use oomph_config::{ConfigError, Section};
use oomph_core::Generator;

/// Random rectangles: a range for their share of the area of an image, and one for their ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AreaRange {
    /// The least and the largest share, above 0 and at most 1.
    pub(super) share: [f64; 2],
    /// The least and the largest ratio, above 0.
    pub(super) ratio: [f64; 2],
}

/// The keys that name the two ranges.
pub(super) struct AreaKeys {
    share: &'static str,
    ratio: &'static str,
}

impl AreaRange {
    pub(super) const fn keys(share: &'static str, ratio: &'static str) -> AreaKeys {
        AreaKeys { share, ratio }
    }

    /// Reads both ranges; `None` if the one of the share is empty.
    pub(super) fn read(
        section: &Section,
        keys: AreaKeys,
        share: &[f64],
        ratio: [f64; 2],
    ) -> Result<Option<Self>, ConfigError> {
        let is_range = |range: &[f64], most: f64| matches!(*range, [low, high] if low > 0.0 && low <= high && high <= most);
        let share = section.numbers(keys.share, share)?;
        let ratio = section.numbers(keys.ratio, &ratio)?;
        if !is_range(&ratio, 1000.0) || ratio[0] < 1e-3 {
            let expected = "two ratios of width to height, the smaller first, from 0.001 to 1000";
            return Err(section.invalid(keys.ratio, expected));
        }
        if share.is_empty() {
            return Ok(None);
        }
        if !is_range(&share, 1.0) {
            let expected = "two shares of the area, the smaller first, above 0 and at most 1";
            return Err(section.invalid(keys.share, expected));
        }
        Ok(Some(Self { share: [share[0], share[1]], ratio: [ratio[0], ratio[1]] }))
    }

    /// Height and width of a random rectangle, which may be larger than the image or 0: its share is uniform, and the
    /// logarithm of its ratio too.
    pub(super) fn sides(&self, height: usize, width: usize, generator: &mut Generator) -> (usize, usize) {
        let mut within = |[low, high]: [f64; 2]| low + (high - low) * f64::from(generator.uniform());
        let area = (height * width) as f64 * within(self.share);
        let ratio = within(self.ratio.map(f64::ln)).exp();
        ((area / ratio).sqrt().round() as usize, (area * ratio).sqrt().round() as usize)
    }
}
