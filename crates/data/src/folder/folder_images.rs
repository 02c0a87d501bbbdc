use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use oomph_core::Bytes;

use super::{
    decode::{DecodeError, Decoder, Photo},
    scan::FolderPart,
};
use crate::{SampleError, stored::StoredSample, transform::ImageShape};

/// The images of one part: where they are, how they are decoded, and those decoded before.
pub(super) struct FolderImages {
    pub(super) part: FolderPart,
    decoder: Decoder,
    pub(super) shape: ImageShape,
    cache: Option<PixelCache>,
}

impl FolderImages {
    /// The images of a part. `cache` says whether decoded images are kept; `None` decides by their size.
    pub(super) fn new(part: FolderPart, shape: ImageShape, decoder: Decoder, cache: Option<bool>) -> Self {
        /// The largest part that `cache = "auto"` keeps in memory.
        const AUTO: usize = 1 << 30;
        let bytes = part.len().saturating_mul(shape.elements());
        let cache = cache.unwrap_or(bytes <= AUTO).then(|| PixelCache::new(part.len()));
        Self { part, decoder, shape, cache }
    }

    /// Calls `use_pixels` with the pixels of an image.
    pub(super) fn pixels<T>(
        &self,
        index: usize,
        use_pixels: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, SampleError> {
        let decode = || {
            self.decoder.decode(&self.part.path(index), self.shape).map_err(|error| self.error(index, error))
        };
        match &self.cache {
            Some(cache) => cache.get(index, decode).map(use_pixels),
            None => decode().map(|pixels| use_pixels(&pixels)),
        }
    }

    /// Reads and decodes an image file; the cache is left alone.
    pub(super) fn inspect(&self, index: usize) -> Result<StoredSample, SampleError> {
        let stored = self.decoder.inspect(&self.part.path(index));
        stored.map_err(|error| self.error(index, error))
    }

    /// An image in its own size, which is decoded at each call.
    pub(super) fn whole(&self, index: usize) -> Result<Photo, SampleError> {
        let photo = self.decoder.decode_whole(&self.part.path(index), self.shape.channels);
        photo.map_err(|error| self.error(index, error))
    }

    fn error(&self, index: usize, error: DecodeError) -> SampleError {
        SampleError::new(self.part.name(index), error)
    }

    pub(super) fn host_bytes(&self) -> Bytes {
        self.part.host_bytes() + self.cache.as_ref().map(PixelCache::host_bytes).unwrap_or_default()
    }
}

/// The pixels of decoded images, shared by all threads.
struct PixelCache {
    images: Vec<OnceLock<Box<[u8]>>>,
    pixel_bytes: AtomicU64,
}

impl PixelCache {
    fn new(images: usize) -> Self {
        Self { images: (0..images).map(|_| OnceLock::new()).collect(), pixel_bytes: AtomicU64::new(0) }
    }

    /// The pixels of image `index`, decoded on the first call. After a failure the next call decodes again.
    fn get<E>(&self, index: usize, decode: impl FnOnce() -> Result<Vec<u8>, E>) -> Result<&[u8], E> {
        let slot = &self.images[index];
        if slot.get().is_none() {
            let pixels = decode()?.into_boxed_slice();
            let bytes = pixels.len() as u64;
            // If two threads decode the same image, the later result is dropped; both are equal.
            if slot.set(pixels).is_ok() {
                self.pixel_bytes.fetch_add(bytes, Ordering::Relaxed);
            }
        }
        // It is set, by this thread or another.
        Ok(slot.get().map(Box::as_ref).unwrap_or_default())
    }

    fn host_bytes(&self) -> Bytes {
        let slots = self.images.len() * size_of::<OnceLock<Box<[u8]>>>();
        Bytes::new(self.pixel_bytes.load(Ordering::Relaxed) + slots as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_decoded_once_unless_that_failed() {
        let cache = PixelCache::new(2);
        assert_eq!(cache.get(1, || Err("corrupt")), Err("corrupt"));
        assert_eq!(cache.get(1, || Ok::<_, &str>(vec![1, 2])), Ok(&[1, 2][..]));
        assert_eq!(cache.get(1, || Err("not asked again")), Ok(&[1, 2][..]));
        assert_eq!(cache.host_bytes(), Bytes::new(2 + 2 * size_of::<OnceLock<Box<[u8]>>>() as u64));
    }
}
