use oomph_core::Bytes;

use super::{
    cache::PixelCache,
    decode::Decoder,
    scan::FolderPart,
    settings::{CacheChoice, FolderSettings},
};
use crate::{SampleError, transform::ImageShape};

/// The images of one part: where they are, how they are decoded, and those decoded before.
pub(super) struct FolderImages {
    pub(super) part: FolderPart,
    decoder: Decoder,
    pub(super) shape: ImageShape,
    cache: Option<PixelCache>,
}

impl FolderImages {
    pub(super) fn new(part: FolderPart, shape: ImageShape, settings: &FolderSettings) -> Self {
        /// The largest part that `cache = "auto"` keeps in memory.
        const AUTO: usize = 1 << 30;
        let bytes = part.len().saturating_mul(shape.elements());
        let keep = match settings.cache {
            CacheChoice::Auto => bytes <= AUTO,
            CacheChoice::Memory => true,
            CacheChoice::None => false,
        };
        let cache = keep.then(|| PixelCache::new(part.len()));
        Self { part, decoder: settings.decoder(), shape, cache }
    }

    /// Calls `use_pixels` with the pixels of an image.
    pub(super) fn pixels<T>(
        &self,
        index: usize,
        use_pixels: impl FnOnce(&[u8]) -> T,
    ) -> Result<T, SampleError> {
        let decode = || {
            self.decoder
                .decode(&self.part.path(index), self.shape)
                .map_err(|error| SampleError::new(self.part.name(index), error))
        };
        match &self.cache {
            Some(cache) => cache.get(index, decode).map(use_pixels),
            None => decode().map(|pixels| use_pixels(&pixels)),
        }
    }

    pub(super) fn host_bytes(&self) -> Bytes {
        self.part.host_bytes() + self.cache.as_ref().map(PixelCache::host_bytes).unwrap_or_default()
    }
}
