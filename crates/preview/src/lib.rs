//! A sheet of images as a model sees them in training.
//!
//! - [`Preview`]: the sheet, drawn from a source of images, and its bytes as PNG.
//! - [`PreviewRow`]: the sample of a row.
//!
//! ```
//! # use oomph_config::Section;
//! use oomph_data::{OpenContext, digits};
//! use oomph_preview::Preview;
//!
//! let section = Section::from_toml("data", "crop_padding = 1")?;
//! let source = digits(&section)?.open(&OpenContext::new("unused", 0))?;
//! let preview = Preview::of(&*source, 0)?;
//! assert_eq!(preview.rows.len(), 10, "one digit of each class");
//! assert_eq!(preview.rows[3].class, Some(3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It reads samples as a training does, and writes no files.

use image::{
    ExtendedColorType, ImageEncoder, ImageError,
    codecs::png::{CompressionType, FilterType, PngEncoder},
};
use oomph_core::{InputSpec, Key, Split};
use oomph_data::{
    SampleError, Source, Values,
    sampling::augment_key,
    transform::{Fit, ImageShape, Resize, Statistics, View, fitted},
};
use serde::Serialize;

/// Rows of a sheet: as many samples.
const ROWS: usize = 10;
/// Columns of a sheet: the sample itself, then as its first epochs see it.
const COLUMNS: usize = 8;
/// Pixels between two images.
const GAP: usize = 4;
/// The sides that images are enlarged or shrunk to.
const SIDES: std::ops::RangeInclusive<usize> = 96..=256;

/// A sheet of training samples as a model sees them, without normalisation: a row a sample, first as it is, then as each of
/// the first seven epochs augments it. Samples that are mixed in pairs are shown before they are mixed.
#[derive(Clone, Debug)]
pub struct Preview {
    /// The samples, in the order of rows.
    pub rows: Vec<PreviewRow>,
    /// The shape of the sheet.
    shape: ImageShape,
    /// Its pixels by row, each with all its channels.
    pixels: Vec<u8>,
}

/// A row of a [`Preview`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PreviewRow {
    /// The name of the sample.
    pub sample: String,
    /// The index of its class; `None` if targets are no classes.
    pub class: Option<usize>,
    /// The indices of its labels; `None` if targets are no labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<usize>>,
}

/// Why samples cannot be drawn.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// They are no images, or have another number of channels.
    #[error("a preview shows images of 1 or 3 channels; a sample is {found}")]
    NoImages {
        /// What they are.
        found: InputSpec,
    },
    /// None of them can be read, or there is none.
    #[error("the training set has no sample that can be read")]
    NoSamples,
    /// One of them cannot be read any more.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// The picture cannot be encoded.
    #[error("cannot encode the picture")]
    Encode(#[from] ImageError),
}

impl Preview {
    /// Draws up to ten samples of `source`: the first of each class, or the first ones if targets are no classes. The epochs
    /// are those of a training with `seed`.
    ///
    /// # Errors
    /// Samples that are no images of 1 or 3 channels, or cannot be read.
    pub fn of(source: &dyn Source, seed: u64) -> Result<Self, PreviewError> {
        let found = source.spec().input.clone();
        let shape = match found {
            InputSpec::Image { channels: channels @ (1 | 3), height, width } => {
                ImageShape { channels, height, width }
            }
            _ => return Err(PreviewError::NoImages { found }),
        };
        let chosen = chosen(source);
        if chosen.is_empty() {
            return Err(PreviewError::NoSamples);
        }
        let of_reader = || source.image_reader().map(|reader| reader.statistics().clone());
        let statistics = source.statistics().or_else(of_reader).unwrap_or_default();
        let mut sheet = Sheet::new(cell(shape), chosen.len());
        let mut rows = Vec::new();
        for (row, (index, class)) in chosen.into_iter().enumerate() {
            for column in 0..COLUMNS {
                let epoch = column.checked_sub(1);
                let key = epoch.map(|epoch| augment_key(seed, epoch).with(index as u64));
                sheet.draw(row, column, &pixels(source, index, key, shape, &statistics)?, shape);
            }
            let labels = source.labels(Split::Train, index)?;
            rows.push(PreviewRow { sample: source.sample_name(Split::Train, index), class, labels });
        }
        Ok(Self { rows, shape: sheet.shape(), pixels: sheet.pixels })
    }

    /// The sheet as the bytes of a PNG file.
    ///
    /// # Errors
    /// If the sheet cannot be encoded.
    pub fn png(&self) -> Result<Vec<u8>, PreviewError> {
        let mut png = Vec::new();
        let colour = if self.shape.channels == 1 { ExtendedColorType::L8 } else { ExtendedColorType::Rgb8 };
        let encoder = PngEncoder::new_with_quality(&mut png, CompressionType::Default, FilterType::Adaptive);
        // At most ten rows of 256 pixels.
        let (width, height) = (self.shape.width as u32, self.shape.height as u32);
        encoder.write_image(&self.pixels, width, height, colour)?;
        Ok(png)
    }
}

/// The samples of a sheet, each with its class. Samples that cannot be read are left out.
fn chosen(source: &dyn Source) -> Vec<(usize, Option<usize>)> {
    let mut chosen: Vec<(usize, Option<usize>)> = Vec::new();
    for index in 0..source.len(Split::Train) {
        let Ok(class) = source.class(Split::Train, index) else { continue };
        let is_shown = class.is_some() && chosen.iter().any(|(_, shown)| *shown == class);
        if !is_shown && source.sample(Split::Train, index, None).is_ok() {
            chosen.push((index, class));
        }
        if chosen.len() == ROWS {
            break;
        }
    }
    chosen.sort_by_key(|(_, class)| *class);
    chosen
}

/// The size of an image on a sheet.
fn cell(shape: ImageShape) -> ImageShape {
    let longest = shape.height.max(shape.width);
    let side = |side: usize| match longest {
        // Whole multiples show the pixels as they are.
        small if small < *SIDES.start() => side * (SIDES.start() / small),
        large if large > *SIDES.end() => (side * SIDES.end() / large).max(1),
        _ => side,
    };
    ImageShape { height: side(shape.height), width: side(shape.width), ..shape }
}

/// The pixels of a sample by channel and row, without its normalisation.
fn pixels(
    source: &dyn Source,
    index: usize,
    key: Option<Key>,
    shape: ImageShape,
    statistics: &Statistics,
) -> Result<Vec<u8>, PreviewError> {
    let input = source.sample(Split::Train, index, key)?.input;
    let Values::Floats(values) = input else {
        return Err(PreviewError::NoImages { found: source.spec().input.clone() });
    };
    let area = shape.height * shape.width;
    let byte = |(place, value): (usize, f32)| {
        let (mean, std) = statistics.of(place / area).unwrap_or((0.0, 1.0));
        ((f64::from(value) * std + mean) * 255.0).round() as u8
    };
    Ok(values.into_iter().enumerate().map(byte).collect())
}

/// Images in rows and columns on white.
struct Sheet {
    cell: ImageShape,
    rows: usize,
    pixels: Vec<u8>,
}

impl Sheet {
    fn new(cell: ImageShape, rows: usize) -> Self {
        let mut sheet = Self { cell, rows, pixels: Vec::new() };
        sheet.pixels = vec![u8::MAX; sheet.shape().elements()];
        sheet
    }

    fn shape(&self) -> ImageShape {
        let side = |count: usize, side: usize| count * (side + GAP) + GAP;
        ImageShape {
            height: side(self.rows, self.cell.height),
            width: side(COLUMNS, self.cell.width),
            ..self.cell
        }
    }

    /// Draws an image of the samples' size, by channel and row.
    fn draw(&mut self, row: usize, column: usize, image: &[u8], shape: ImageShape) {
        let (cell, sheet) = (self.cell, self.shape());
        let resize = if cell.height > shape.height { Resize::Nearest } else { Resize::Bilinear };
        let image = fitted(View::planar(image, shape), cell, resize, Fit::Stretch);
        let (top, left) = (GAP + row * (cell.height + GAP), GAP + column * (cell.width + GAP));
        for (place, pixel) in image.into_iter().enumerate() {
            let (channel, within) = (place / (cell.height * cell.width), place % (cell.height * cell.width));
            let (y, x) = (top + within / cell.width, left + within % cell.width);
            self.pixels[(y * sheet.width + x) * cell.channels + channel] = pixel;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use image::ImageFormat;
    use oomph_config::Section;

    use oomph_data::{OpenContext, digits, synthetic};

    use super::*;

    fn images(settings: &str) -> Arc<dyn Source> {
        let text = format!("height = 12\nwidth = 20\nclasses = 3\n{settings}");
        let section = Section::from_toml("data", &text).expect("valid TOML");
        synthetic(&section).expect("valid settings").open(&OpenContext::new("unused", 0)).expect("images")
    }

    /// The sheet as a decoder reads it.
    fn drawn(source: &dyn Source) -> image::RgbImage {
        let png = Preview::of(source, 5).expect("images").png().expect("written to memory");
        image::load_from_memory_with_format(&png, ImageFormat::Png).expect("a PNG").into_rgb8()
    }

    #[test]
    fn a_sheet_has_a_row_a_class_and_a_column_an_epoch() {
        // 20 pixels become 80: four times as many.
        let sheet = drawn(&*images("flip = true"));
        assert_eq!(sheet.dimensions(), (8 * (80 + 4) + 4, 3 * (48 + 4) + 4));
        assert_eq!(sheet.get_pixel(0, 0).0, [255; 3]);
    }

    #[test]
    fn columns_are_what_epochs_see() {
        let source = images("flip = true");
        let sheet = drawn(&*source);
        let values = |key| source.sample(Split::Train, 0, key).expect("an image").input;
        let cell = |column: u32| -> Vec<[u8; 3]> {
            let at = |x: u32| sheet.get_pixel(4 + column * 84 + 4 * x + 1, 4 + 1).0;
            (0..20).map(at).collect()
        };
        let plain = cell(0);
        for epoch in 0..7 {
            let key = Key::new(5).with_name("augment").with(epoch).with(0);
            let is_flipped = values(Some(key)) != values(None);
            let mut expected = plain.clone();
            if is_flipped {
                expected.reverse();
            }
            assert_eq!(cell(epoch as u32 + 1), expected, "epoch {epoch}");
        }
        assert!((0..7).any(|epoch| cell(epoch + 1) != plain), "one of seven is flipped");
    }

    #[test]
    fn normalisation_does_not_show() {
        let [normalised, raw] =
            ["", "normalize = 'none'"].map(|settings| drawn(&*images(settings)).into_raw());
        assert!(normalised == raw);
    }

    #[test]
    fn large_images_are_shrunk() {
        let shape = |height, width| cell(ImageShape { channels: 3, height, width });
        assert_eq!((shape(1024, 512).height, shape(1024, 512).width), (256, 128));
        assert_eq!((shape(200, 100).height, shape(200, 100).width), (200, 100));
        assert_eq!((shape(32, 32).height, shape(8, 4).height), (96, 96));
    }

    #[test]
    fn rows_of_digits_are_no_images() {
        let section = Section::from_toml("data", "layout = 'rows'").expect("valid TOML");
        let source = digits(&section).expect("valid").open(&OpenContext::new("unused", 0)).expect("digits");
        let error = Preview::of(&*source, 0).expect_err("sequences");
        assert!(
            error.to_string().starts_with("a preview shows images of 1 or 3 channels; a sample is "),
            "{error}"
        );
    }
}
