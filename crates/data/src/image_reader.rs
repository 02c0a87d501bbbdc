use std::path::{Path, PathBuf};

use oomph_core::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    SampleError,
    folder::{ChannelChange, Decoder, MAX_FILE_BYTES},
    transform::{Fit, ImageShape, ImageTransform, Resize, Statistics, TransformSettings},
};

/// Turns an image file into an input as in training, but without augmentation: decoded, resized, normalised.
///
/// ```
/// use oomph_data::{ImageReader, transform::{ImageShape, Statistics}};
///
/// let shape = ImageShape { channels: 3, height: 32, width: 32 };
/// let reader = ImageReader::new(shape, Statistics { mean: vec![0.5; 3], std: vec![0.25; 3] });
/// assert_eq!(reader.shape(), shape);
/// assert!(reader.read("nowhere.jpg".as_ref()).is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImageReader {
    shape: ImageShape,
    resize: Resize,
    /// Readers of earlier versions stretch.
    #[serde(default)]
    fit: Fit,
    max_file_bytes: Bytes,
    /// The statistics of the training images.
    statistics: Statistics,
}

impl ImageReader {
    /// A reader of images with 1 or 3 channels. It stretches them bilinearly to `shape`, and normalises by `statistics` unless
    /// these are empty.
    pub fn new(shape: ImageShape, statistics: Statistics) -> Self {
        Self {
            shape,
            resize: Resize::Bilinear,
            fit: Fit::Stretch,
            max_file_bytes: MAX_FILE_BYTES,
            statistics,
        }
    }

    /// The reader with the settings of a decoder.
    pub(crate) fn with_decoder(self, decoder: Decoder) -> Self {
        let Decoder { max_file_bytes, resize, fit } = decoder;
        Self { max_file_bytes, resize, fit, ..self }
    }

    fn decoder(&self) -> Decoder {
        Decoder { max_file_bytes: self.max_file_bytes, resize: self.resize, fit: self.fit }
    }

    /// The statistics of the training images.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// The size of the inputs.
    pub fn shape(&self) -> ImageShape {
        self.shape
    }

    /// A sentence about the first of `files` whose channels change: colours that are dropped, or grey that becomes three equal
    /// channels. `None` if no file changes so. It looks at 16 evenly spread files, and passes over those that it cannot read.
    pub fn channel_notice(&self, files: &[PathBuf]) -> Option<String> {
        let decoder = self.decoder();
        let change = |path: &PathBuf| {
            let change = decoder.channel_change(path, self.shape.channels).ok()??;
            Some(match change {
                ChannelChange::ColoursDropped => {
                    format!(
                        "`{}` has colours, and the model sees grey images: colours are dropped",
                        path.display()
                    )
                }
                ChannelChange::GreyRepeated => {
                    format!(
                        "`{}` is grey, and the model sees three channels: they get equal values",
                        path.display()
                    )
                }
            })
        };
        spread(files.len()).find_map(|index| change(&files[index]))
    }

    /// The input values of the image in a JPEG, PNG or WebP file.
    ///
    /// # Errors
    /// A file that cannot be read or decoded, or is too large.
    pub fn read(&self, path: &Path) -> Result<Vec<f32>, SampleError> {
        let pixels = self
            .decoder()
            .decode(path, self.shape)
            .map_err(|error| SampleError::new(path.display().to_string(), error))?;
        let settings = TransformSettings::default();
        let transform = ImageTransform::new(self.shape, &settings, &self.statistics, u8::MAX);
        Ok(transform.apply(&pixels, None))
    }
}

/// At most 16 indices below `count`, evenly spread.
pub(crate) fn spread(count: usize) -> impl Iterator<Item = usize> {
    const MOST: usize = 16;
    let looked_at = count.min(MOST);
    (0..looked_at).map(move |place| place * count / looked_at)
}
