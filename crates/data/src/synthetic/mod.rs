mod image;
mod sequence;
mod tokens;

use std::sync::Arc;

use oomph_config::{ConfigError, Section};
use oomph_core::{InputSpec, Key, SampleSpec, Split, TargetSpec};

use self::{image::SyntheticImages, sequence::SyntheticSequences, tokens::SyntheticTokens};
use crate::{
    DataError, ImageReader, OpenContext, OpenSource, Sample, SampleError, Source, Target, Values,
    source::Parts,
    stored::StoredSample,
    transform::{ImageShape, TransformSettings},
};

/// Reads the settings of synthetic data: learnable images, sequences or tokens of any size, without memory.
///
/// Every class has a pattern, and every sample adds noise to it; both are drawn from the seed of the run. Sample `i` has
/// class `i` modulo the number of classes. Every second token is random and determines the next one; samples of tokens
/// are consecutive parts of one text.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `kind` | `image` | `image`, `sequence` or `tokens` |
/// | `channels`, `height`, `width` | 3, 32, 32 | size of an image |
/// | `steps`, `features` | 32, 16 | size of a sequence |
/// | `steps`, `vocabulary` | 32, 64 | tokens of a sample, and number of different tokens |
/// | `carry` | `true` | as for a [`text`](crate::text()); tokens only |
/// | `classes` | 10 | number of classes; not for tokens |
/// | `train_samples`, `test_samples` | 1024, 256 | number of samples of each part |
/// | `normalize`, `mean`, `std`, `crop_padding`, `flip`, `augment` | as for a folder | see [`TransformSettings`]; images only |
///
/// The statistics of `normalize = "auto"` are known, so none are computed.
///
/// # Errors
/// A value of the wrong type or out of its range.
pub fn synthetic(section: &Section) -> Result<Box<dyn OpenSource + Send + Sync>, ConfigError> {
    const MOST_SAMPLES: usize = 100_000_000;
    section.has_no_effect("on_corrupt", "synthetic data has no files");
    let kinds: [(_, Kind); 3] = [("image", images), ("sequence", sequences), ("tokens", tokens)];
    let (spec, maker) = section.choice("kind", "image", &kinds)?(section)?;
    Ok(Box::new(SyntheticSettings {
        spec,
        samples: Parts {
            train: section.integer("train_samples", 1024, 1..=MOST_SAMPLES)?,
            test: section.integer("test_samples", 256, 1..=MOST_SAMPLES)?,
        },
        maker,
    }))
}

/// Reads the settings of a kind of data.
type Kind = fn(&Section) -> Result<(SampleSpec, SampleMaker), ConfigError>;

fn images(section: &Section) -> Result<(SampleSpec, SampleMaker), ConfigError> {
    let channels = section.integer("channels", 3, 1..=1024)?;
    let shape =
        ImageShape { channels, height: side(section, "height", 32)?, width: side(section, "width", 32)? };
    let maker = SampleMaker::Images(Box::new(SyntheticImages::new(
        shape,
        &TransformSettings::read(section, channels)?,
    )));
    Ok((SampleSpec { input: shape.into(), target: classes(section)? }, maker))
}

fn sequences(section: &Section) -> Result<(SampleSpec, SampleMaker), ConfigError> {
    let (steps, features) = (side(section, "steps", 32)?, side(section, "features", 16)?);
    let spec = SampleSpec { input: InputSpec::Sequence { steps, features }, target: classes(section)? };
    Ok((spec, SampleMaker::Sequences(SyntheticSequences { steps, features })))
}

fn tokens(section: &Section) -> Result<(SampleSpec, SampleMaker), ConfigError> {
    let (steps, vocabulary) =
        (side(section, "steps", 32)?, section.integer("vocabulary", 64, 1..=16_777_216)?);
    let input = InputSpec::Tokens { steps, vocabulary };
    let spec = SampleSpec { input, target: TargetSpec::Tokens { steps, vocabulary } };
    let carry = section.boolean("carry", true)?;
    Ok((spec, SampleMaker::Tokens { tokens: SyntheticTokens { steps, vocabulary }, carry }))
}

fn side(section: &Section, key: &str, default: usize) -> Result<usize, ConfigError> {
    section.integer(key, default, 1..=1 << 16)
}

fn classes(section: &Section) -> Result<TargetSpec, ConfigError> {
    Ok(TargetSpec::Class { count: section.integer("classes", 10, 1..=1_000_000)? })
}

#[derive(Clone)]
struct SyntheticSettings {
    spec: SampleSpec,
    samples: Parts<usize>,
    maker: SampleMaker,
}

#[derive(Clone)]
enum SampleMaker {
    /// Boxed, because the tables of its transform are much larger than the others.
    Images(Box<SyntheticImages>),
    Sequences(SyntheticSequences),
    Tokens {
        tokens: SyntheticTokens,
        carry: bool,
    },
}

impl OpenSource for SyntheticSettings {
    fn open(&self, context: &OpenContext) -> Result<Arc<dyn Source>, DataError> {
        Ok(Arc::new(Synthetic { settings: self.clone(), key: Key::new(context.seed).with_name("synthetic") }))
    }
}

struct Synthetic {
    settings: SyntheticSettings,
    key: Key,
}

impl Source for Synthetic {
    fn spec(&self) -> &SampleSpec {
        &self.settings.spec
    }

    fn len(&self, split: Split) -> usize {
        *self.settings.samples.of(split)
    }

    fn is_continuous(&self) -> bool {
        matches!(self.settings.maker, SampleMaker::Tokens { carry: true, .. })
    }

    fn image_reader(&self) -> Option<ImageReader> {
        match &self.settings.maker {
            // Files have one channel or three.
            SampleMaker::Images(images) if matches!(self.spec().input.shape()[0], 1 | 3) => {
                Some(images.reader.clone())
            }
            _ => None,
        }
    }

    fn class(&self, _: Split, index: usize) -> Result<Option<usize>, SampleError> {
        Ok(match self.spec().target {
            TargetSpec::Class { count } => Some(index % count),
            TargetSpec::Labels { .. } | TargetSpec::Values { .. } | TargetSpec::Tokens { .. } => None,
        })
    }

    /// Nothing is stored, and every sample can be made.
    fn inspect(&self, _: Split, _: usize) -> Result<StoredSample, SampleError> {
        Ok(StoredSample::default())
    }

    fn held_out_origin(&self) -> Option<String> {
        Some("samples with other noise (`data.test_samples`)".to_owned())
    }

    fn sample(&self, split: Split, index: usize, augment: Option<Key>) -> Result<Sample, SampleError> {
        let class = index % self.spec().target.outputs();
        let pattern = self.key.with_name("class").with(class as u64);
        let part = self.key.with_name(Parts { train: "train", test: "test" }.of(split));
        let noise = part.with(index as u64);
        let values = match &self.settings.maker {
            SampleMaker::Images(images) => images.make(pattern, noise, augment),
            SampleMaker::Sequences(sequences) => sequences.make(pattern, noise),
            SampleMaker::Tokens { tokens, .. } => {
                let [input, target] = tokens.make(part, index);
                return Ok(Sample { input: Values::Tokens(input), target: Target::Tokens(target) });
            }
        };
        Ok(Sample { input: Values::Floats(values), target: Target::Class(class) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str, seed: u64) -> Arc<dyn Source> {
        let context = OpenContext::new("unused", seed);
        let section = Section::from_toml("data", text).expect("valid TOML");
        synthetic(&section).expect("valid settings").open(&context).expect("nothing to open")
    }

    fn values(source: &dyn Source, split: Split, index: usize) -> (Vec<f32>, usize) {
        match source.sample(split, index, None).expect("synthetic samples are never corrupt") {
            Sample { input: Values::Floats(values), target: Target::Class(class) } => (values, class),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_sample_follows_from_seed_part_and_index() {
        for kind in ["image", "sequence"] {
            let text = format!("kind = \"{kind}\"");
            let (source, again, other) = (open(&text, 1), open(&text, 1), open(&text, 2));
            let first = values(&*source, Split::Train, 7);
            assert_eq!(first.0.len(), source.spec().input.elements());
            assert_eq!(first, values(&*again, Split::Train, 7));
            assert_ne!(first, values(&*other, Split::Train, 7));
            assert_ne!(first, values(&*source, Split::Test, 7));
            assert_ne!(first, values(&*source, Split::Train, 17));
        }
    }

    #[test]
    fn every_second_token_follows_from_the_one_before() {
        let source = open("kind = 'tokens'\nsteps = 5\nvocabulary = 7", 1);
        assert!(source.is_continuous() && !open("kind = 'tokens'\ncarry = false", 1).is_continuous());
        let (mut text, mut targets) = (Vec::new(), Vec::new());
        for index in 0..100 {
            match source.sample(Split::Train, index, None).expect("synthetic samples are never corrupt") {
                Sample { input: Values::Tokens(input), target: Target::Tokens(target) } => {
                    text.extend(input);
                    targets.extend(target);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(text[1..], targets[..targets.len() - 1]);
        assert!(text.iter().all(|token| (0..7).contains(token)));
        let pairs: std::collections::BTreeSet<_> = text.chunks(2).map(|pair| (pair[0], pair[1])).collect();
        assert_eq!(pairs.len(), 7, "each token has one that follows it");
    }

    /// Gives every test sample the class whose mean over the training samples is nearest.
    fn accuracy_of_nearest_mean(source: &dyn Source) -> f64 {
        let classes = source.spec().target.outputs();
        let mut means = vec![vec![0.0; source.spec().input.elements()]; classes];
        for index in 0..source.len(Split::Train) {
            let (values, class) = values(source, Split::Train, index);
            means[class].iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        let per_class = (source.len(Split::Train) / classes) as f32;
        let correct = (0..source.len(Split::Test)).filter(|&index| {
            let (values, class) = values(source, Split::Test, index);
            let distance = |mean: &Vec<f32>| -> f32 {
                mean.iter().zip(&values).map(|(sum, value)| (sum / per_class - value).powi(2)).sum()
            };
            (0..classes).min_by(|&a, &b| distance(&means[a]).total_cmp(&distance(&means[b]))) == Some(class)
        });
        correct.count() as f64 / source.len(Split::Test) as f64
    }

    #[test]
    fn classes_can_be_learned() {
        for text in ["height = 8\nwidth = 8", "kind = \"sequence\"", "channels = 1\nheight = 16"] {
            let source = open(&format!("train_samples = 200\ntest_samples = 50\n{text}"), 3);
            let accuracy = accuracy_of_nearest_mean(&*source);
            assert!(accuracy > 0.9, "{text}: {accuracy}");
        }
    }

    #[test]
    fn every_class_comes_up_equally_often() {
        let source = open("classes = 4\ntrain_samples = 40\nheight = 2\nwidth = 2", 0);
        for class in 0..4 {
            let of_class = |index: &usize| values(&*source, Split::Train, *index).1 == class;
            assert_eq!((0..40).filter(of_class).count(), 10);
        }
    }

    #[test]
    fn numbers_are_about_normalised() {
        for text in ["height = 16", "kind = \"sequence\""] {
            let source = open(text, 4);
            let all: Vec<_> =
                (0..200).flat_map(|index| values(&*source, Split::Train, index).0).map(f64::from).collect();
            let mean = all.iter().sum::<f64>() / all.len() as f64;
            let std = (all.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / all.len() as f64).sqrt();
            assert!(mean.abs() < 0.1 && (std - 1.0).abs() < 0.15, "{text}: mean {mean}, std {std}");
        }
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        for text in [
            "kind = \"video\"",
            "kind = \"tokens\"\nvocabulary = 0",
            "channels = 0",
            "classes = 0",
            "train_samples = 0",
            "height = 100000",
        ] {
            let section = Section::from_toml("data", text).expect("valid TOML");
            assert!(synthetic(&section).is_err(), "{text}");
        }
    }
}
