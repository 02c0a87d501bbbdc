use oomph_config::{ConfigError, Section};
use oomph_core::{Generator, InputSpec, Key, SampleSpec, TargetSpec};

use crate::{
    Values,
    batch::{Samples, Targets},
};

/// Mixing of the samples of a training batch in pairs: mixup (Zhang et al. 2018,
/// [arXiv:1710.09412](https://arxiv.org/abs/1710.09412)) and CutMix (Yun et al. 2019,
/// [arXiv:1905.04899](https://arxiv.org/abs/1905.04899)).
///
/// As torchvision does, each sample is mixed with the one before it in the batch, the first with the last, and a batch has
/// one share λ for all its samples. λ is distributed as Beta(α, α). mixup adds λ of each sample and 1 − λ of the one before.
/// CutMix pastes a rectangle with 1 − λ of the area of the one before, which may reach over the edges; λ is then the share
/// that is left. Labels are blended by λ in both. With both, each batch takes one of them with probability ½.
///
/// The choice, λ and the rectangle follow from seed, epoch and the position of the batch alone. The sample before the first
/// of a rank is that of the whole batch, so several ranks mix as one does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mix {
    /// α of mixup; 0 turns it off.
    pub mixup: f64,
    /// α of CutMix; 0 turns it off.
    pub cutmix: f64,
}

const MIXUP: &str = "augment.mixup";
const CUTMIX: &str = "augment.cutmix";

/// The largest α. Beyond it λ is ½ to three digits.
const LARGEST_ALPHA: f64 = 1e6;

impl Mix {
    /// Reads `augment.mixup` and `augment.cutmix` of the section `[data]`.
    pub(crate) fn read(section: &Section) -> Result<Self, ConfigError> {
        Ok(Self {
            mixup: section.number(MIXUP, 0.0, 0.0..=LARGEST_ALPHA)?,
            cutmix: section.number(CUTMIX, 0.0, 0.0..=LARGEST_ALPHA)?,
        })
    }

    /// Whether batches are mixed.
    pub fn is_on(self) -> bool {
        self.mixup > 0.0 || self.cutmix > 0.0
    }

    /// Checks that samples of `spec` can be mixed, and that the task takes them. `section` is `[data]`.
    ///
    /// # Errors
    /// Mixing is on, but targets are neither classes nor labels, inputs are tokens or the task takes none that are mixed; or
    /// CutMix is on, but inputs are no images.
    pub fn check(self, spec: &SampleSpec, is_taken: bool, section: &Section) -> Result<(), ConfigError> {
        let first = if self.mixup > 0.0 { MIXUP } else { CUTMIX };
        match (&spec.input, &spec.target) {
            _ if !self.is_on() => Ok(()),
            (InputSpec::Tokens { .. }, _) => Err(section.invalid(first, "`0`, since inputs are tokens")),
            (_, TargetSpec::Values { .. } | TargetSpec::Tokens { .. }) => {
                Err(section.invalid(first, "`0`, since only targets that are classes or labels can be mixed"))
            }
            (_, TargetSpec::Labels { .. }) if !is_taken => {
                Err(section.invalid(first, "`0`, since the task takes whole labels"))
            }
            _ if !is_taken => {
                Err(section.invalid(first, "`0`, since the task takes one class for each sample"))
            }
            (InputSpec::Image { .. }, TargetSpec::Class { .. } | TargetSpec::Labels { .. }) => Ok(()),
            _ if self.cutmix > 0.0 => Err(section.invalid(CUTMIX, "`0`, since inputs are no images")),
            _ => Ok(()),
        }
    }

    /// How the batch of a key is mixed; `None` if it is not.
    pub(crate) fn draw(self, input: &InputSpec, key: Key) -> Option<BatchMix> {
        let mut generator = Generator::at(key);
        let is_cut = generator.chance(0.5);
        match (self.mixup > 0.0, self.cutmix > 0.0) {
            (false, false) => None,
            (true, true) if is_cut => Some(BatchMix::cut(self.cutmix, input, &mut generator)),
            (false, true) => Some(BatchMix::cut(self.cutmix, input, &mut generator)),
            (true, _) => Some(BatchMix::Blend { share: generator.beta(self.mixup) as f32 }),
        }
    }
}

/// How all samples of one batch are mixed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BatchMix {
    /// A weighted sum.
    Blend { share: f32 },
    /// A rectangle of the sample before: its rows and columns.
    Paste { share: f32, height: usize, width: usize, rows: [usize; 2], columns: [usize; 2] },
}

impl BatchMix {
    fn cut(alpha: f64, input: &InputSpec, generator: &mut Generator) -> Self {
        let (height, width) = match *input {
            InputSpec::Image { height, width, .. } => (height, width),
            // Other inputs are refused before training.
            _ => (1, input.elements()),
        };
        let share = generator.beta(alpha);
        let (row, column) = (generator.below(height), generator.below(width));
        let half = |side: usize| (0.5 * (1.0 - share).sqrt() * side as f64) as usize;
        let around = |middle: usize, half: usize, side: usize| {
            [middle.saturating_sub(half), (middle + half).min(side)]
        };
        let (rows, columns) = (around(row, half(height), height), around(column, half(width), width));
        let area = (rows[1] - rows[0]) * (columns[1] - columns[0]);
        let share = (1.0 - area as f64 / (height * width) as f64) as f32;
        Self::Paste { share, height, width, rows, columns }
    }

    /// The share of a sample that is its own.
    fn share(&self) -> f32 {
        match *self {
            Self::Blend { share } | Self::Paste { share, .. } => share,
        }
    }

    /// Mixes a sample with the one before it.
    fn mix(&self, sample: &mut [f32], before: &[f32]) {
        match *self {
            Self::Blend { share } => {
                let mixed = sample.iter_mut().zip(before);
                mixed.for_each(|(value, before)| *value = share * *value + (1.0 - share) * before);
            }
            Self::Paste { height, width, rows, columns, .. } => {
                let planes = sample.chunks_exact_mut(height * width).zip(before.chunks_exact(height * width));
                for (plane, before) in planes {
                    for row in rows[0]..rows[1] {
                        let pasted = row * width + columns[0]..row * width + columns[1];
                        plane[pasted.clone()].copy_from_slice(&before[pasted]);
                    }
                }
            }
        }
    }

    /// Mixes the samples of a batch in place.
    ///
    /// `before_first` is the sample before the first. `follows` says of each sample whether the one before it was read;
    /// otherwise it is mixed with itself, and stays. Samples that [`Mix::check`] refuses stay too.
    pub(crate) fn apply(&self, samples: Samples, before_first: Option<Samples>, follows: &[bool]) -> Samples {
        let (mut values, targets) = match (samples.input, samples.targets) {
            (Values::Floats(values), targets @ (Targets::Classes(_) | Targets::Labels { .. })) => {
                (values, targets)
            }
            (input, targets) => return Samples { input, targets },
        };
        let before_first = before_first.filter(|_| follows.first() == Some(&true));
        let (before, before_target) = match before_first {
            Some(Samples { input: Values::Floats(values), targets }) => (Some(values), Some(targets)),
            _ => (None, None),
        };
        self.mix_rows(&mut values, before.as_deref(), follows);
        let targets = match (targets, before_target) {
            (Targets::Classes(classes), before) => {
                let before = match before {
                    Some(Targets::Classes(before)) => before.first().copied(),
                    _ => None,
                };
                let partner = |index: usize| match index.checked_sub(1) {
                    Some(index) => Some(classes[index]),
                    None => before,
                };
                let partners = classes.iter().zip(follows).enumerate().map(|(index, (own, follows))| {
                    if *follows { partner(index).unwrap_or(*own) } else { *own }
                });
                Targets::Mixed { partners: partners.collect(), classes, share: self.share() }
            }
            (Targets::Labels { mut data, count }, before) => {
                let before = match before {
                    Some(Targets::Labels { data, .. }) => Some(data),
                    _ => None,
                };
                let blend = Self::Blend { share: self.share() };
                blend.mix_rows(&mut data, before.as_deref(), follows);
                Targets::Labels { data, count }
            }
            (targets, _) => targets,
        };
        Samples { input: Values::Floats(values), targets }
    }

    /// Mixes each of the rows `values` with the one before it, as far as it follows one; the first with `before`.
    fn mix_rows(&self, values: &mut [f32], before: Option<&[f32]>, follows: &[bool]) {
        let elements = values.len() / follows.len().max(1);
        // From the last to the second, so that the one before is not yet mixed.
        for index in (1..follows.len()).rev().filter(|&index| follows[index]) {
            let (before, row) = values.split_at_mut(index * elements);
            self.mix(&mut row[..elements], &before[(index - 1) * elements..]);
        }
        if let (Some(before), Some(true)) = (before, follows.first()) {
            self.mix(&mut values[..elements], before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: InputSpec = InputSpec::Image { channels: 2, height: 4, width: 5 };

    fn draws(mix: Mix, input: &InputSpec, count: u64) -> Vec<BatchMix> {
        (0..count).filter_map(|index| mix.draw(input, Key::new(2).with(index))).collect()
    }

    fn samples(values: Vec<f32>, classes: Vec<i64>) -> Samples {
        Samples { input: Values::Floats(values), targets: Targets::Classes(classes) }
    }

    /// The values of mixed samples, their partners and the share.
    fn apply(
        mix: &BatchMix,
        samples: Samples,
        before_first: Option<Samples>,
        follows: &[bool],
    ) -> (Vec<f32>, Vec<i64>, f32) {
        let mixed = mix.apply(samples, before_first, follows);
        match (mixed.input, mixed.targets) {
            (Values::Floats(values), Targets::Mixed { partners, share, .. }) => (values, partners, share),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_sample_is_blended_with_the_one_before() {
        let mix = BatchMix::Blend { share: 0.75 };
        let batch = samples(vec![1.0, 2.0, 10.0, 20.0, 100.0, 200.0], vec![3, 5, 7]);
        let last = Some(samples(vec![100.0, 200.0], vec![7]));
        let (values, partners, share) = apply(&mix, batch, last, &[true; 3]);
        assert_eq!(values, [25.75, 51.5, 7.75, 15.5, 77.5, 155.0]);
        assert_eq!((partners, share), (vec![7, 3, 5], 0.75));
    }

    #[test]
    fn labels_are_blended_by_the_share() {
        let labels = |values: &[f32], data: &[f32]| Samples {
            input: Values::Floats(values.to_vec()),
            targets: Targets::Labels { data: data.to_vec(), count: 2 },
        };
        let batch = || labels(&[0.0, 8.0, 16.0], &[1.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
        let last = Some(labels(&[16.0], &[0.0, 0.0]));
        let mixed = BatchMix::Blend { share: 0.75 }.apply(batch(), last, &[true, true, false]);
        assert_eq!(mixed.input, Values::Floats(vec![4.0, 6.0, 16.0]));
        assert_eq!(mixed.targets, Targets::Labels { data: vec![0.75, 0.0, 1.0, 0.75, 0.0, 0.0], count: 2 });
        let paste = BatchMix::Paste { share: 0.5, height: 1, width: 1, rows: [0, 1], columns: [0, 0] };
        let pasted = paste.apply(batch(), None, &[false, true, true]);
        let halves = Targets::Labels { data: vec![1.0, 0.0, 1.0, 0.5, 0.5, 0.5], count: 2 };
        assert_eq!((pasted.input, pasted.targets), (batch().input, halves));
    }

    #[test]
    fn a_sample_stays_if_the_one_before_was_not_read() {
        let mix = BatchMix::Blend { share: 0.5 };
        let batch = samples(vec![1.0, 10.0, 100.0], vec![3, 5, 7]);
        let (values, partners, _) = apply(&mix, batch, None, &[false, true, false]);
        assert_eq!((values, partners), (vec![1.0, 5.5, 100.0], vec![3, 3, 7]));
    }

    #[test]
    fn a_rectangle_is_pasted_into_all_channels_and_the_share_is_the_rest() {
        let paste = Mix { cutmix: 1.0, ..Mix::default() };
        for mix in draws(paste, &IMAGE, 200) {
            let before = Some(samples(vec![1.0; 40], vec![1]));
            let (values, _, share) = apply(&mix, samples(vec![0.0; 40], vec![0]), before, &[true]);
            let pasted = values.iter().filter(|value| **value == 1.0).count();
            assert_eq!(share, 1.0 - pasted as f32 / 40.0);
            assert_eq!(values[..20], values[20..]);
        }
    }

    #[test]
    fn with_both_half_of_the_batches_are_cut() {
        let both = Mix { mixup: 0.2, cutmix: 1.0 };
        let cut = draws(both, &IMAGE, 1000).into_iter().filter(|mix| matches!(mix, BatchMix::Paste { .. }));
        // Five standard deviations of a fair coin.
        assert!(cut.count().abs_diff(500) < 80);
    }

    #[test]
    fn shares_of_blends_are_uniform_for_alpha_1() {
        let mixup = Mix { mixup: 1.0, ..Mix::default() };
        let shares: Vec<_> = draws(mixup, &IMAGE, 10_000).iter().map(BatchMix::share).collect();
        for (quarter, least) in [0.0, 0.25, 0.5, 0.75].into_iter().enumerate() {
            let count = shares.iter().filter(|share| (least..least + 0.25).contains(*share)).count();
            // Five standard deviations of √(10,000 · ¼ · ¾) = 43.
            assert!(count.abs_diff(2500) < 217, "quarter {quarter}: {count}");
        }
    }

    #[test]
    fn samples_that_cannot_be_mixed_are_refused_by_name() {
        let section = Section::from_toml("data", "augment = { mixup = 0.2, cutmix = 1.0 }").expect("valid");
        let both = Mix::read(&section).expect("valid");
        let mixup = Mix { cutmix: 0.0, ..both };
        let class = TargetSpec::Class { count: 3 };
        let sequence = InputSpec::Sequence { steps: 3, features: 2 };
        let tokens = InputSpec::Tokens { steps: 3, vocabulary: 5 };
        let check = |mix: Mix, input: &InputSpec, target: &TargetSpec, is_taken| {
            let spec = SampleSpec { input: input.clone(), target: target.clone() };
            mix.check(&spec, is_taken, &section).err().map(|error| error.to_string())
        };
        assert_eq!(check(both, &IMAGE, &class, true), None);
        assert_eq!(check(mixup, &sequence, &class, true), None);
        let one_class =
            "`data.augment.mixup` is `0.2`; expected `0`, since the task takes one class for each sample";
        assert!(check(mixup, &IMAGE, &class, false).is_some_and(|message| message.ends_with(one_class)));
        for (mix, input, target, expected) in [
            (
                both,
                &sequence,
                &class,
                "`data.augment.cutmix` is `1.0`; expected `0`, since inputs are no images",
            ),
            (both, &tokens, &class, "`data.augment.mixup` is `0.2`; expected `0`, since inputs are tokens"),
            (
                both,
                &IMAGE,
                &TargetSpec::Values { features: 1 },
                "`data.augment.mixup` is `0.2`; expected `0`, since only targets that are classes or labels can be mixed",
            ),
        ] {
            let message = check(mix, input, target, true).expect("refused");
            assert!(message.ends_with(expected), "{message}");
        }
        assert_eq!(
            check(Mix::default(), &tokens, &TargetSpec::Tokens { steps: 3, vocabulary: 5 }, false),
            None
        );
    }
}
