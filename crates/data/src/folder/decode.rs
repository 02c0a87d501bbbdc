use std::{
    io::{self, Cursor, Read},
    panic::{self, UnwindSafe},
    path::Path,
};

use image::{DynamicImage, ImageDecoder as _, ImageError, ImageFormat, ImageReader, Limits};
use oomph_core::{Bytes, open_file};

use super::jpeg;
use crate::{
    stored::StoredSample,
    transform::{Fit, ImageShape, Resize, View, fitted},
};

/// The longest side of an image, in pixels.
const MAX_SIDE: u32 = 16_384;
/// The default of `data.max_file_bytes` for image files.
pub(crate) const MAX_FILE_BYTES: Bytes = Bytes::mib(64);
/// The most memory that decoding one image may allocate.
const MAX_ALLOCATION: Bytes = Bytes::mib(256);

/// Turns image files into pixels of a given size.
#[derive(Clone, Copy)]
pub(crate) struct Decoder {
    pub(crate) max_file_bytes: Bytes,
    pub(crate) resize: Resize,
    pub(crate) fit: Fit,
}

/// A decoded image in its own size. Each pixel has its channels one after the other.
pub(crate) struct Photo {
    bytes: Vec<u8>,
    shape: ImageShape,
}

impl Photo {
    /// The pixels.
    pub(crate) fn view(&self) -> View<'_> {
        View::interleaved(&self.bytes, self.shape)
    }
}

/// How an image changes where it is read with another number of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChannelChange {
    /// Colours become grey.
    ColoursDropped,
    /// Grey becomes three equal channels.
    GreyRepeated,
}

/// Why an image file cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the file is empty")]
    Empty,
    #[error("the file has {size}, more than `data.max_file_bytes` of {limit}")]
    TooLarge { size: Bytes, limit: Bytes },
    #[error("the content is neither JPEG nor PNG nor WebP")]
    UnknownFormat,
    #[error("the JPEG is truncated")]
    Truncated,
    #[error("a side is longer than {MAX_SIDE} pixels, or decoding takes more than {MAX_ALLOCATION}")]
    TooManyPixels,
    #[error(transparent)]
    Image(ImageError),
    #[error("the decoder panicked")]
    Panicked,
}

impl Decoder {
    /// The pixels of a file, brought to `shape`, by channel and row.
    pub(crate) fn decode(&self, path: &Path, shape: ImageShape) -> Result<Vec<u8>, DecodeError> {
        let bytes = self.read(path)?;
        guarded(|| self.pixels(&bytes, shape))
    }

    /// The image of a file in its own size, with 1 or 3 channels.
    pub(crate) fn decode_whole(&self, path: &Path, channels: usize) -> Result<Photo, DecodeError> {
        let bytes = self.read(path)?;
        guarded(|| whole(&bytes, channels))
    }

    /// The height and width of the image in a file. The image is decoded, so its pixels are valid too.
    pub(super) fn size(&self, path: &Path) -> Result<(usize, usize), DecodeError> {
        let bytes = self.read(path)?;
        let image = guarded(|| open(&bytes))?;
        Ok((image.height() as usize, image.width() as usize))
    }

    /// The size, the channels and the content of the image in a file.
    pub(crate) fn inspect(&self, path: &Path) -> Result<StoredSample, DecodeError> {
        let bytes = self.read(path)?;
        let image = guarded(|| open(&bytes))?;
        let shape = ImageShape {
            channels: image.color().channel_count().into(),
            height: image.height() as usize,
            width: image.width() as usize,
        };
        Ok(StoredSample { image: Some(shape), ..StoredSample::with_content(&bytes) })
    }

    /// How reading the image in a file as `channels` channels changes its colours. One whose pixels are all grey has none,
    /// however it is stored.
    pub(crate) fn channel_change(
        &self,
        path: &Path,
        channels: usize,
    ) -> Result<Option<ChannelChange>, DecodeError> {
        let bytes = self.read(path)?;
        // The header tells the kind of pixels; only colours that will be dropped need a look at the pixels.
        let is_stored_grey =
            guarded(|| Ok(!reader(&bytes)?.into_decoder().map_err(refused)?.color_type().has_color()))?;
        if channels > 1 {
            return Ok(is_stored_grey.then_some(ChannelChange::GreyRepeated));
        }
        if is_stored_grey {
            return Ok(None);
        }
        let image = guarded(|| open(&bytes))?;
        let is_grey = |pixel: &image::Rgb<u8>| pixel.0.iter().all(|value| *value == pixel.0[0]);
        Ok((!image.into_rgb8().pixels().all(is_grey)).then_some(ChannelChange::ColoursDropped))
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, DecodeError> {
        let file = open_file(path)?;
        let length = file.metadata()?.len();
        let limit = self.max_file_bytes;
        let mut bytes = Vec::with_capacity(length.min(limit.get()) as usize);
        // The file may grow after its size was read.
        file.take(limit.get().saturating_add(1)).read_to_end(&mut bytes)?;
        match Bytes::new(length.max(bytes.len() as u64)) {
            size if size > limit => Err(DecodeError::TooLarge { size, limit }),
            size if size == Bytes::default() => Err(DecodeError::Empty),
            _ => Ok(bytes),
        }
    }

    fn pixels(&self, bytes: &[u8], shape: ImageShape) -> Result<Vec<u8>, DecodeError> {
        let photo = whole(bytes, shape.channels)?;
        Ok(fitted(photo.view(), shape, self.resize, self.fit))
    }
}

/// Decodes an image to 1 or 3 channels.
fn whole(bytes: &[u8], channels: usize) -> Result<Photo, DecodeError> {
    let image = open(bytes)?;
    // The limits bound both sides.
    let shape = ImageShape { channels, height: image.height() as usize, width: image.width() as usize };
    let bytes = match channels {
        1 => image.into_luma8().into_raw(),
        _ => image.into_rgb8().into_raw(),
    };
    Ok(Photo { bytes, shape })
}

/// The pixels of an image file in memory, in a size of 8 by 8. For fuzz tests.
pub(crate) fn pixels(bytes: &[u8]) -> Result<Vec<u8>, DecodeError> {
    let decoder = Decoder { max_file_bytes: MAX_FILE_BYTES, resize: Resize::Bilinear, fit: Fit::Stretch };
    guarded(|| decoder.pixels(bytes, ImageShape { channels: 3, height: 8, width: 8 }))
}

/// Runs the decoder. A panic of the decoder becomes an error, so that no file can end a run.
fn guarded<T>(decode: impl FnOnce() -> Result<T, DecodeError> + UnwindSafe) -> Result<T, DecodeError> {
    panic::catch_unwind(decode).unwrap_or(Err(DecodeError::Panicked))
}

/// Decodes an image within the limits.
fn open(bytes: &[u8]) -> Result<DynamicImage, DecodeError> {
    reader(bytes)?.decode().map_err(refused)
}

/// A reader of an image within the limits.
fn reader(bytes: &[u8]) -> Result<ImageReader<Cursor<&[u8]>>, DecodeError> {
    let format = match image::guess_format(bytes) {
        Ok(format @ (ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::WebP)) => format,
        Ok(_) | Err(_) => return Err(DecodeError::UnknownFormat),
    };
    if format == ImageFormat::Jpeg && !jpeg::is_complete(bytes) {
        return Err(DecodeError::Truncated);
    }
    let mut limits = Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    limits.max_alloc = Some(MAX_ALLOCATION.get());
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    reader.limits(limits);
    Ok(reader)
}

fn refused(error: ImageError) -> DecodeError {
    match error {
        ImageError::Limits(_) => DecodeError::TooManyPixels,
        error => DecodeError::Image(error),
    }
}

#[cfg(test)]
mod tests {
    use image::RgbImage;
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn encoded(format: ImageFormat) -> Vec<u8> {
        let image = RgbImage::from_fn(24, 17, |x, y| image::Rgb([(x * y) as u8, (x * 9) as u8, y as u8]));
        let mut bytes = Cursor::new(Vec::new());
        image.write_to(&mut bytes, format).expect("written to memory");
        bytes.into_inner()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn a_damaged_file_gives_pixels_or_an_error(
            (png, crop) in any::<(bool, bool)>(),
            damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            cut in prop_oneof![4 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)],
        ) {
            let mut bytes = encoded(if png { ImageFormat::Png } else { ImageFormat::Jpeg });
            for (place, byte) in damage {
                *place.get_mut(&mut bytes) = byte;
            }
            bytes.truncate(cut.map_or(bytes.len(), |cut| cut.index(bytes.len())));
            let fit = if crop { Fit::Crop } else { Fit::Stretch };
            let decoder = Decoder { max_file_bytes: Bytes::mib(1), resize: Resize::Bilinear, fit };
            let shape = ImageShape { channels: 3, height: 8, width: 8 };
            match guarded(|| decoder.pixels(&bytes, shape)) {
                Ok(pixels) => prop_assert_eq!(pixels.len(), shape.elements()),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }

    #[test]
    fn a_panic_of_the_decoder_is_an_error() {
        let panicking = || -> Result<(), _> { panic!("as a decoder might") };
        assert!(matches!(guarded(panicking), Err(DecodeError::Panicked)));
    }
}
