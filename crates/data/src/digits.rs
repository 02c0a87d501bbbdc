use std::sync::Arc;

use oomph_config::{ConfigError, Section};
use oomph_core::{Bytes, Generator, InputSpec, Key, SampleSpec, Split, TargetSpec};
use smartcore::dataset::digits::load_dataset;

use crate::{
    DataError, ImageReader, OpenContext, OpenSource, Sample, SampleError, Source, Target, Values,
    transform::{ImageShape, ImageTransform, PixelSums, TransformSettings},
};

const SHAPE: ImageShape = ImageShape { channels: 1, height: 8, width: 8 };
const CLASSES: usize = 10;
/// Pixels go from 0 to 16.
const WHITE: u8 = 16;

/// Reads the settings of the embedded handwritten digits: 1,797 images of 8×8, ten classes.
///
/// The [data](https://archive.ics.uci.edu/dataset/80) is the test part of the UCI Optical Recognition of
/// Handwritten Digits (Alpaydin, Kaynak 1998), as in scikit-learn's `load_digits`. A fixed fifth of each class
/// is held out: 1,438 training images and 359 test images, whatever the seed of the run.
///
/// | key | default | meaning |
/// |---|---|---|
/// | `layout` | `image` | `image`: one image of 1×8×8; `rows`: a sequence of 8 rows with 8 features each |
/// | `normalize`, `mean`, `std` | `auto` | see [`TransformSettings`]; pixels are scaled to [0, 1] first |
/// | `crop_padding`, `flip` | 0, `false` | see [`TransformSettings`]; images only |
///
/// # Errors
/// A value of the wrong type or out of its range.
pub fn digits(section: &Section) -> Result<Box<dyn OpenSource + Send + Sync>, ConfigError> {
    let layout =
        section.choice("layout", "image", &[("image", DigitsLayout::Image), ("rows", DigitsLayout::Rows)])?;
    let transform = TransformSettings::read(section, SHAPE.channels)?;
    if let DigitsLayout::Rows = layout {
        if transform.flip {
            return Err(section.invalid("flip", "`false` with `layout = \"rows\"`"));
        }
        if transform.crop_padding > 0 {
            return Err(section.invalid("crop_padding", "`0` with `layout = \"rows\"`"));
        }
    }
    Ok(Box::new(DigitsSettings { layout, transform }))
}

#[derive(Clone, Copy)]
enum DigitsLayout {
    Image,
    Rows,
}

struct DigitsSettings {
    layout: DigitsLayout,
    transform: TransformSettings,
}

impl OpenSource for DigitsSettings {
    fn open(&self, _: &OpenContext) -> Result<Arc<dyn Source>, DataError> {
        let (train, test) = load();
        let statistics = self.transform.normalize.statistics(|| {
            let mut sums = PixelSums::new(SHAPE);
            train.pixels.iter().for_each(|pixels| sums.add(pixels));
            Ok::<_, DataError>(sums.statistics(WHITE))
        })?;
        let input = match self.layout {
            DigitsLayout::Image => InputSpec::from(SHAPE),
            DigitsLayout::Rows => InputSpec::Sequence { steps: SHAPE.height, features: SHAPE.width },
        };
        Ok(Arc::new(Digits {
            spec: SampleSpec { input, target: TargetSpec::Class { count: CLASSES } },
            class_names: (0..CLASSES).map(|class| class.to_string()).collect(),
            transform: ImageTransform::new(SHAPE, &self.transform, &statistics, WHITE),
            reader: ImageReader::new(SHAPE, statistics),
            train,
            test,
        }))
    }
}

struct Digits {
    spec: SampleSpec,
    class_names: Vec<String>,
    transform: ImageTransform,
    reader: ImageReader,
    train: DigitsPart,
    test: DigitsPart,
}

#[derive(Default)]
struct DigitsPart {
    pixels: Vec<[u8; SHAPE.elements()]>,
    classes: Vec<u8>,
}

impl Digits {
    fn part(&self, split: Split) -> &DigitsPart {
        match split {
            Split::Train => &self.train,
            Split::Test => &self.test,
        }
    }
}

impl Source for Digits {
    fn spec(&self) -> &SampleSpec {
        &self.spec
    }

    fn class_names(&self) -> Option<&[String]> {
        Some(&self.class_names)
    }

    fn len(&self, split: Split) -> usize {
        self.part(split).classes.len()
    }

    fn sample(&self, split: Split, index: usize, augment: Option<Key>) -> Result<Sample, SampleError> {
        let part = self.part(split);
        Ok(Sample {
            input: Values::Floats(self.transform.apply(&part.pixels[index], augment)),
            target: Target::Class(part.classes[index].into()),
        })
    }

    fn image_reader(&self) -> Option<ImageReader> {
        Some(self.reader.clone())
    }

    fn host_bytes(&self) -> Bytes {
        let samples = self.train.classes.len() + self.test.classes.len();
        Bytes::new((samples * (SHAPE.elements() + 1)) as u64)
    }
}

/// Both parts, each in the order of the data.
fn load() -> (DigitsPart, DigitsPart) {
    let data = load_dataset();
    let classes: Vec<usize> = data.target.iter().map(|&class| class as usize).collect();
    let mut held_out = vec![false; classes.len()];
    for class in 0..CLASSES {
        let mut members: Vec<_> = (0..classes.len()).filter(|&index| classes[index] == class).collect();
        let key = Key::new(0).with_name("digits held out").with(class as u64);
        Generator::at(key).shuffle(&mut members);
        for &index in &members[..(members.len() + 2) / 5] {
            held_out[index] = true;
        }
    }
    let (mut train, mut test) = (DigitsPart::default(), DigitsPart::default());
    for ((pixels, &class), held_out) in data.data.as_chunks().0.iter().zip(&classes).zip(held_out) {
        let part = if held_out { &mut test } else { &mut train };
        part.pixels.push(pixels.map(|pixel: f32| pixel as u8));
        part.classes.push(class as u8);
    }
    (train, test)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str) -> Arc<dyn Source> {
        let context = OpenContext::new("unused", 0);
        let section = Section::from_toml("data", text).expect("valid TOML");
        digits(&section).expect("valid settings").open(&context).expect("embedded data")
    }

    #[test]
    fn the_parts_are_whole_and_never_change() {
        let (train, test) = load();
        assert_eq!((train.classes.len(), test.classes.len()), (1438, 359));
        // Frozen, so that accuracies of different versions and seeds refer to the same images.
        assert_eq!(test.classes[..10], FROZEN_CLASSES);
        let checksum =
            test.pixels.iter().flatten().zip(1u64..).map(|(&pixel, place)| u64::from(pixel) * place);
        assert_eq!(checksum.sum::<u64>(), FROZEN_CHECKSUM);
    }
    const FROZEN_CLASSES: [u8; 10] = [3, 8, 9, 1, 1, 7, 9, 8, 8, 4];
    const FROZEN_CHECKSUM: u64 = 1_285_937_407;

    #[test]
    fn a_fifth_of_every_class_is_held_out() {
        let (train, test) = load();
        for class in 0..CLASSES as u8 {
            let count = |part: &DigitsPart| part.classes.iter().filter(|&&other| other == class).count();
            let share = count(&test) as f64 / (count(&test) + count(&train)) as f64;
            assert!((share - 0.2).abs() < 0.005, "class {class}: {share}");
        }
    }

    #[test]
    fn pixels_are_normalised_over_the_training_part() {
        let source = open("");
        let mut values = Vec::new();
        for index in 0..source.len(Split::Train) {
            match source.sample(Split::Train, index, None).expect("embedded data").input {
                Values::Floats(sample) => values.extend(sample.into_iter().map(f64::from)),
                Values::Tokens(tokens) => panic!("{tokens:?}"),
            }
        }
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 1e-6 && (variance - 1.0).abs() < 1e-5, "mean {mean}, variance {variance}");
    }

    #[test]
    fn rows_are_the_image_read_from_the_top() {
        let (image, rows) = (open(""), open("layout = \"rows\""));
        assert_eq!(rows.spec().input, InputSpec::Sequence { steps: 8, features: 8 });
        assert_eq!(rows.sample(Split::Test, 5, None), image.sample(Split::Test, 5, None));
    }

    #[test]
    fn rows_cannot_be_augmented() {
        for text in ["flip = true", "crop_padding = 1"] {
            let section = Section::from_toml("data", &format!("layout = \"rows\"\n{text}"));
            assert!(digits(&section.expect("valid TOML")).is_err(), "{text}");
        }
    }
}
