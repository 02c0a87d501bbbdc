use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use oomph_core::Bytes;

/// The pixels of decoded images, shared by all threads.
pub(super) struct PixelCache {
    images: Vec<OnceLock<Box<[u8]>>>,
    pixel_bytes: AtomicU64,
}

impl PixelCache {
    /// An empty cache for `images` images.
    pub(super) fn new(images: usize) -> Self {
        Self { images: (0..images).map(|_| OnceLock::new()).collect(), pixel_bytes: AtomicU64::new(0) }
    }

    /// The pixels of image `index`, decoded on the first call. After a failure the next call decodes again.
    pub(super) fn get<E>(
        &self,
        index: usize,
        decode: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<&[u8], E> {
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

    /// The memory in use at present.
    pub(super) fn host_bytes(&self) -> Bytes {
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
