use std::sync::Arc;

use oomph_config::{ConfigError, Section};
use oomph_core::{Generator, InputSpec, Key};
use smartcore::dataset::digits::load_dataset;

use crate::{
    DataError, OpenContext, OpenSource, Source,
    memory_images::{Classes, ImagePart, MemoryImages, PixelBlock},
    source::Parts,
    transform::{ImageShape, TransformSettings},
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
/// | `crop_padding`, `flip`, `augment` | off | see [`TransformSettings`]; images only, without changes of colour |
///
/// # Errors
/// A value of the wrong type or out of its range.
pub fn digits(section: &Section) -> Result<Box<dyn OpenSource + Send + Sync>, ConfigError> {
    section.has_no_effect("on_corrupt", "the digits are part of the program");
    let is_rows = section.choice("layout", "image", &[("image", false), ("rows", true)])?;
    let transform = TransformSettings::read(section, SHAPE.channels)?;
    if let Some(key) = transform.first_random_key().filter(|_| is_rows) {
        return Err(section.invalid(key, "no random change of images with `layout = \"rows\"`"));
    }
    if let Some(key) = transform.augment.needs_bytes() {
        return Err(
            section.invalid(key, "`0`, since the digits have 17 shades, and changes of colour need 256")
        );
    }
    Ok(Box::new(DigitsSettings { is_rows, transform }))
}

struct DigitsSettings {
    /// Whether an input is a sequence of rows.
    is_rows: bool,
    transform: TransformSettings,
}

impl OpenSource for DigitsSettings {
    fn open(&self, context: &OpenContext) -> Result<Arc<dyn Source>, DataError> {
        let names = (0..CLASSES).map(|class| class.to_string()).collect();
        let classes = Classes { count: CLASSES, names: Some(names) };
        let mut images = MemoryImages::new(load(), SHAPE, WHITE, classes, &self.transform, context)
            .with_held_out_origin("a fixed fifth of each class");
        if self.is_rows {
            images.spec.input = InputSpec::Sequence { steps: SHAPE.height, features: SHAPE.width };
        }
        Ok(Arc::new(images))
    }
}

/// Both parts, each in the order of the data.
fn load() -> Parts<ImagePart> {
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
    let part = |is_test: bool| {
        let of_part: Vec<_> = (0..classes.len()).filter(|&index| held_out[index] == is_test).collect();
        let stride = SHAPE.elements();
        let mut bytes = Vec::with_capacity(of_part.len() * stride);
        for index in &of_part {
            bytes.extend(data.data[index * stride..][..stride].iter().map(|&pixel: &f32| pixel as u8));
        }
        let block = PixelBlock { file: "digits".to_owned(), bytes, first: 0, stride, count: of_part.len() };
        let mut part = ImagePart::default();
        part.push(block, of_part.iter().map(|&index| classes[index] as u8));
        part
    };
    Parts { train: part(false), test: part(true) }
}

#[cfg(test)]
mod tests {
    use oomph_core::Split;

    use super::*;
    use crate::Values;

    fn open(text: &str) -> Arc<dyn Source> {
        let context = OpenContext::new("unused", 0);
        let section = Section::from_toml("data", text).expect("valid TOML");
        digits(&section).expect("valid settings").open(&context).expect("embedded data")
    }

    #[test]
    fn the_parts_are_whole_and_never_change() {
        let Parts { train, test } = load();
        assert_eq!((train.classes.len(), test.classes.len()), (1438, 359));
        // Frozen, so that accuracies of different versions and seeds refer to the same images.
        assert_eq!(test.classes[..10], FROZEN_CLASSES);
        let pixels = (0..359).flat_map(|index| test.pixels(index, SHAPE));
        let checksum = pixels.zip(1u64..).map(|(&pixel, place)| u64::from(pixel) * place);
        assert_eq!(checksum.sum::<u64>(), FROZEN_CHECKSUM);
    }
    const FROZEN_CLASSES: [u8; 10] = [3, 8, 9, 1, 1, 7, 9, 8, 8, 4];
    const FROZEN_CHECKSUM: u64 = 1_285_937_407;

    #[test]
    fn a_fifth_of_every_class_is_held_out() {
        let Parts { train, test } = load();
        for class in 0..CLASSES as u8 {
            let count = |part: &ImagePart| part.classes.iter().filter(|&&other| other == class).count();
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
